-- Who takes part on boards. Values are bound by position: ?1, ?2, …

-- name: participant_get
-- One participant, whether it has left or not, with its skills (a JSON list) and its last call.
SELECT p.agent, p.role, p.interests, p.protocols, p.joined_at, p.left_at, coalesce(a.last_seen, p.joined_at), (
    SELECT json_group_array(s.skill) FROM (SELECT skill FROM skill WHERE board = ?1 AND agent = ?2 ORDER BY skill) s)
FROM participant p LEFT JOIN agent a ON a.board = p.board AND a.name = p.agent
WHERE p.board = ?1 AND p.agent = ?2;

-- name: participants
-- Who takes part, by name, each with its skills (a JSON list) and its last call.
SELECT p.agent, p.role, p.interests, p.protocols, p.joined_at, p.left_at, coalesce(a.last_seen, p.joined_at), (
    SELECT json_group_array(s.skill)
    FROM (SELECT skill FROM skill WHERE board = p.board AND agent = p.agent ORDER BY skill) s)
FROM participant p INDEXED BY participant_here LEFT JOIN agent a ON a.board = p.board AND a.name = p.agent
WHERE p.board = ?1 AND p.left_at = 0 ORDER BY p.agent;

-- name: participants_count
-- Counts who takes part.
SELECT count(*) FROM participant INDEXED BY participant_here WHERE board = ?1 AND left_at = 0;

-- name: participant_put
-- An agent takes part, leaves, or changes what it says about itself.
INSERT INTO participant(board, agent, role, interests, joined_at, left_at, protocols) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE SET role = excluded.role, interests = excluded.interests, joined_at = excluded.joined_at,
    left_at = excluded.left_at, protocols = excluded.protocols;

-- name: roles_of
-- The roles of those agents of a list (JSON) that take part.
SELECT agent, role FROM participant INDEXED BY participant_here
WHERE board = ?1 AND left_at = 0 AND agent IN (SELECT value FROM json_each(?2));

-- name: duties_of
-- What an agent owes, now or once a debate is that far, oldest first.
SELECT agent, item, duty, state, debate, reason, since FROM obligation
WHERE board = ?1 AND agent = ?2 AND state IN ('outstanding', 'watching')
ORDER BY since, item, duty, debate LIMIT ?3;
