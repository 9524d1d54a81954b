"""Strategies of runs: who has the next turns, and what a coordinator decided."""
