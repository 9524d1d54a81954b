"""Eviction policies: the orders in which items go that may go."""
