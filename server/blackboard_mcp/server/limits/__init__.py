"""How much, how fast and how many at once: bounds, rates, concurrency, and whose turn it is."""
