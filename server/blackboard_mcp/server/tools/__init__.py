"""The tools: each takes checked arguments, calls a use case and returns an answer."""
