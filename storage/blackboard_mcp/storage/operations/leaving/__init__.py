"""Leaving working memory and coming back: passes, the guard's index, pressure, summaries, retention."""
