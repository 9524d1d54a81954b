"""The files of a board: their revisions, and who may write them."""
