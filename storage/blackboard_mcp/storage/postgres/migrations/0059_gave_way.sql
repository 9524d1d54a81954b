-- What an item took the place of in debates.
CREATE INDEX debate_gave_way ON debate(board, gave_way_to) WHERE gave_way_to <> 0;
