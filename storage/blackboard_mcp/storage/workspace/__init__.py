"""The files of a board as a Git repository, made from the board's revisions."""
