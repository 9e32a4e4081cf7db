"""Lowered graph to kernel programs and strategies."""
