"""Who sends a request, proved: bearer tokens, by verifiers that are asked in order."""
