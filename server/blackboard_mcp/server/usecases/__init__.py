"""Use cases: everything an agent can do on a board, through whatever door."""
