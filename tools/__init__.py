"""The one harness: loads problems, compiles, checks, times and profiles candidates."""
