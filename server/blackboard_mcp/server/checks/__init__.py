"""Checks: programs of the operator that judge the files of a board, kept within limits."""
