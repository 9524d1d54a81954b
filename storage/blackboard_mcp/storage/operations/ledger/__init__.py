"""A board inside a transaction: its rows, its log, its counters, and calls that apply once."""
