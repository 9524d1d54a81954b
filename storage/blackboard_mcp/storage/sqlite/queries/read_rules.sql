-- Read rules, and who reads what they keep. Values are bound by position: ?1, ?2, …

-- name: read_rules
-- The rules of the installation.
SELECT rules FROM read_rules;

-- name: read_rules_drop
-- Takes all rules away.
DELETE FROM read_rules;

-- name: read_rules_set
-- Sets the rules.
INSERT INTO read_rules(rules) VALUES (?1);

-- name: rule_readers_drop
-- Takes all readers away.
DELETE FROM rule_reader;

-- name: rule_readers_add
-- Adds readers from a list (JSON) of pairs of mark and principal.
INSERT OR IGNORE INTO rule_reader(mark, principal)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1);

-- name: principals
-- The owner for whom an agent acts, and its role on a board.
SELECT coalesce((SELECT owner FROM principal WHERE agent = ?2), ?2),
       (SELECT role FROM acting_role WHERE place = ?1 AND who = ?2);

-- name: viewers
-- The agents of a list (JSON), with the owner for whom each acts, its role on a board, and the rules.
SELECT a.value, coalesce((SELECT owner FROM principal WHERE agent = a.value), a.value),
       (SELECT role FROM acting_role WHERE place = (SELECT no FROM board WHERE id = ?1) AND who = a.value),
       (SELECT rules FROM read_rules)
FROM json_each(?2) a;

-- name: shown_role
-- The role that an agent's credential gave it last on a board.
SELECT s.role FROM board b JOIN shown_role s ON s.board = b.no AND s.agent = ?2 WHERE b.id = ?1;

-- name: shown_role_set
-- Records the role that an agent's credential gives it on a board.
INSERT INTO shown_role(board, agent, role) SELECT no, ?2, ?3 FROM board WHERE id = ?1
ON CONFLICT DO UPDATE SET role = excluded.role RETURNING 1;
