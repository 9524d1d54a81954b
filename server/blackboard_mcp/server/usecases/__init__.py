"""What an agent can do on a board, whatever it is connected by."""
