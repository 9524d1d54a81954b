-- Views ask for the items of a type that matter most, and for the debates that ended last.
CREATE INDEX item_type ON item(board, type, importance, seq, owner, status, number) WHERE zone = 'working';
CREATE INDEX debate_ended ON debate(board, closed_at, id) WHERE state <> 'OPEN';
