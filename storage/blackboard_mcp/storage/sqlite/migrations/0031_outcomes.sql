-- What became of the item where a debate ended: stands, falls, amended (to an item), open; empty while it is open.
-- Older decisions said it in their reason alone.
ALTER TABLE debate ADD COLUMN amended_to INTEGER NOT NULL DEFAULT 0;
UPDATE debate SET outcome = CASE outcome
    WHEN 'accepted' THEN 'stands'
    WHEN 'rejected' THEN 'falls'
    ELSE CASE WHEN state = 'WITHDRAWN' AND explicit = 0 THEN 'stands' ELSE 'open' END END
WHERE state <> 'OPEN';
