"""Input of callers: arguments are checked and turned into drafts, queries and references."""
