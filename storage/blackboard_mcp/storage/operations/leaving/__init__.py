"""Leaving working memory and returning: passes, the guard's index, pressure, summaries, expiry, retention."""
