"""Runs: rounds of turns on a problem, decisions about them, and the answer."""
