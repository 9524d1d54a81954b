"""Limits: bounds, rates, concurrency, and fair turns between callers."""
