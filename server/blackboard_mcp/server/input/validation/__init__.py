"""Validation of writes: the rules of a board, and the checks that apply them."""
