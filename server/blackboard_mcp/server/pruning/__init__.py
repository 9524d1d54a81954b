"""Pruning: the pruner, its steps, the policies that order the steps, and summaries."""
