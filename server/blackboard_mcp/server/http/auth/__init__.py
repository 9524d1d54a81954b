"""Authentication over HTTP: bearer tokens, checked by verifiers in order."""
