"""Authentication over HTTP: bearer tokens, proved by verifiers that are asked in order."""
