"""Summaries of finished threads: written without a model, by an endpoint or by an agent, and all checked
alike.

`extract` chooses sentences of the sources, and `endpoint` asks a language model. `checks` compares every text
with its sources before it replaces them, and `writing` decides who writes and what to do when that fails.
"""
