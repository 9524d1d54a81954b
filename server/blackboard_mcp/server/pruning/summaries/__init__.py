"""Summaries of finished threads: written without a model, by an endpoint or by an agent, and checked alike.

`extract` chooses sentences of the sources, `endpoint` asks a language model, `requests` asks the agents of
the board; `checks` holds every text against its sources before it may stand for them, and `writing`
decides who writes and what is used when that fails.
"""
