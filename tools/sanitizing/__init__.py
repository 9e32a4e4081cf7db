"""compute-sanitizer: how it is asked, and how its answer is read."""
