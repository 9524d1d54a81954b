"""Use cases: everything that an agent can do on a board, whatever transport it uses."""
