-- Panels: the first tag of an item says which one it is in, as in ["panel:semantic"]. Each index is searched by that name.
CREATE INDEX item_panel ON item(board, substr(tags, 9, instr(substr(tags, 9), '"') - 1), number)
    WHERE instr(tags, '["panel:') = 1;
CREATE INDEX event_panel ON event(board, substr(tags, 9, instr(substr(tags, 9), '"') - 1), owner, seq)
    WHERE instr(tags, '["panel:') = 1;
