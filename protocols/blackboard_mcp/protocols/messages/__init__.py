"""Communication protocols: how agents that share a board lay messages on it, one protocol a file."""
