"""Debates: how they open, who owes what, votes, decisions, agreements, watches."""
