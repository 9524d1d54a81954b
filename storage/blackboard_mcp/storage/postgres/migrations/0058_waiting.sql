-- Until when an agent that came back waits for others who are away: a duty lapses only after that.
ALTER TABLE agent ADD COLUMN IF NOT EXISTS waits_until bigint NOT NULL DEFAULT 0;
