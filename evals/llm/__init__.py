"""Runs with written answers of a model, on problems that no template covered at first."""
