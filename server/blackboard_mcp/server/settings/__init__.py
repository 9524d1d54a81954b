"""Settings of a server, of a board, and for sign-in by an OAuth issuer."""
