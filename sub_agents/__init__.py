"""Planner and writers: they propose, the harness decides."""
