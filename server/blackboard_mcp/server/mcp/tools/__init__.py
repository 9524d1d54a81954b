"""The tools: words in, use cases out. One set of tools a module."""
