"""A board inside a transaction: its rows, log and counters, and calls that apply only once."""
