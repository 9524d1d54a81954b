"""What may be written: the rules of a board, and what they are checked with."""
