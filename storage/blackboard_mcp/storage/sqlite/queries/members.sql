-- Members: the roles that a board gives agents. Values are bound by position: ?1, ?2, …

-- name: member_role
-- The role that a board gives an agent.
SELECT m.role FROM board b CROSS JOIN member m ON m.board = b.no AND m.agent = ?2 WHERE b.id = ?1;

-- name: members
-- The members of a board and their roles, by name.
SELECT m.agent, m.role FROM board b CROSS JOIN member m ON m.board = b.no WHERE b.id = ?1 ORDER BY m.agent;

-- name: unable
-- Which of some names (a JSON list) cannot answer on a board: those that it lets only read (1), and those that it never
-- saw (0), each with the name that it knows in other letter case, if it knows one.
SELECT n.value, m.agent IS NOT NULL,
       (SELECT min(name) FROM agent WHERE board = ?1 AND lower(name) = lower(n.value) AND name <> n.value)
FROM json_each(?2) n LEFT JOIN member m ON m.board = ?1 AND m.agent = n.value AND m.role IN ('observer', 'summariser')
WHERE m.agent IS NOT NULL OR NOT EXISTS (SELECT 1 FROM agent WHERE board = ?1 AND name = n.value);

-- name: members_count
-- Counts the members of a board.
SELECT count(*) FROM member WHERE board = ?1;

-- name: member_set
-- A board gives an agent a role.
INSERT INTO member(board, agent, role) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET role = excluded.role;

-- name: member_drop
-- A board says nothing of an agent's role any more.
DELETE FROM member WHERE board = ?1 AND agent = ?2;
