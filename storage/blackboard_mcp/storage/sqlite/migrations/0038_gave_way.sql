-- The item that took the place of one that fell or was amended: it may be of another author.
ALTER TABLE debate RENAME COLUMN amended_to TO gave_way_to;
ALTER TABLE decision RENAME COLUMN amended_to TO gave_way_to;
