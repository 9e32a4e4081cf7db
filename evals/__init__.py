"""Problem suite, scoring, baselines and benchmark reports."""
