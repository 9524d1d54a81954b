"""Pruning: the pruner, its steps, the policies that order them, and summaries."""
