-- How far agents and items are relied on, where that is not as usual. Values are bound by position: ?1, ?2, …

-- name: agent_trust
-- The trust in an agent.
SELECT trust FROM agent_trust WHERE agent = ?1;

-- name: agent_trust_put
-- An agent is relied on so far from now on.
INSERT INTO agent_trust(agent, trust) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET trust = excluded.trust;

-- name: agent_trust_drop
-- An agent is relied on as usual.
DELETE FROM agent_trust WHERE agent = ?1;

-- name: trust_of
-- The trust in each item of a list (JSON).
SELECT number, trust FROM item_trust WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: item_trust_put
-- An item is relied on so far from now on.
INSERT INTO item_trust(board, number, trust) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET trust = excluded.trust;

-- name: item_trust_drop
-- An item is relied on as usual.
DELETE FROM item_trust WHERE board = ?1 AND number = ?2;
