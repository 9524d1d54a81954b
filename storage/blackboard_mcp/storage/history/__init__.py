"""A board as a file of its history: one line for each event, and the board rebuilt from the lines."""
