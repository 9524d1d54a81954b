"""Validation of writes: the rules of a board, and their checks."""
