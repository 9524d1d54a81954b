"""Input of callers: arguments checked, and turned into drafts, queries and references."""
