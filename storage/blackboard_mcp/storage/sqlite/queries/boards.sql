-- Boards, and the leases that many processes share. Values are bound by position: ?1, ?2, …

-- name: board_by_id
-- The board row of an id.
SELECT no, id, title, parent, lifecycle, config, core, seq, last_number, created_at,
       working_items, working_tokens, archived_items, private_items, private_tokens, pressure, copied,
       EXISTS (SELECT 1 FROM stage s WHERE s.board = no) OR EXISTS (SELECT 1 FROM condition_term t WHERE t.board = no),
       (SELECT rules FROM read_rules)
FROM board WHERE id = ?1;

-- name: board_opened
-- The board row of an id, and what a change by an agent begins with: whether the agent was let in there, whether anybody
-- watches topics or reserved anything, the trust in the agent, its owner, and the sequences that it was shown (null
-- without any). The long columns, config and core, are null unless ?3 is 1.
SELECT no, id, title, parent, lifecycle, CASE WHEN ?3 = 1 THEN config END, CASE WHEN ?3 = 1 THEN core END, seq, last_number, created_at,
       working_items, working_tokens, archived_items, private_items, private_tokens, pressure, copied,
       EXISTS (SELECT 1 FROM stage s WHERE s.board = no) OR EXISTS (SELECT 1 FROM condition_term t WHERE t.board = no),
       (SELECT rules FROM read_rules),
       EXISTS (SELECT 1 FROM look l WHERE l.board = no AND l.name = ?2),
       EXISTS (SELECT 1 FROM watch w WHERE w.board = no),
       EXISTS (SELECT 1 FROM reservation r WHERE r.board = no),
       (SELECT trust FROM agent_trust WHERE agent = ?2), (SELECT owner FROM principal WHERE agent = ?2),
       s.cursor, s.above
FROM board LEFT JOIN shown s ON s.board = no AND s.agent = ?2 WHERE id = ?1;

-- name: board_kinds
-- Whether a board has edges, debates, open debates, holds of debates, endorsements, retractions, trust in items,
-- agreements, outstanding duties and live requests, in the order of `Kinds`.
SELECT EXISTS (SELECT 1 FROM edge WHERE board = ?1),
       EXISTS (SELECT 1 FROM debate WHERE board = ?1),
       EXISTS (SELECT 1 FROM debate INDEXED BY debate_open WHERE board = ?1 AND state = 'OPEN'),
       EXISTS (SELECT 1 FROM held WHERE board = ?1),
       EXISTS (SELECT 1 FROM endorsement WHERE board = ?1),
       EXISTS (SELECT 1 FROM retraction WHERE board = ?1),
       EXISTS (SELECT 1 FROM item_trust WHERE board = ?1),
       EXISTS (SELECT 1 FROM agreement WHERE board = ?1),
       EXISTS (SELECT 1 FROM obligation INDEXED BY obligation_outstanding WHERE board = ?1 AND state = 'outstanding'),
       EXISTS (SELECT 1 FROM request INDEXED BY request_for WHERE board = ?1 AND live = 1);

-- name: boards
-- All boards by id.
SELECT no, id, title, parent, lifecycle, config, core, seq, last_number, created_at,
       working_items, working_tokens, archived_items, private_items, private_tokens, pressure, copied,
       EXISTS (SELECT 1 FROM stage s WHERE s.board = no) OR EXISTS (SELECT 1 FROM condition_term t WHERE t.board = no),
       (SELECT rules FROM read_rules)
FROM board ORDER BY id;

-- name: board_add
-- A new board.
INSERT INTO board(id, title, parent, lifecycle, config, core, seq, last_number, created_at,
                  working_items, working_tokens, archived_items)
VALUES (?1, ?2, ?3, 'open', ?4, ?5, 0, 0, ?6, 0, 0, 0);

-- name: board_counters
-- The counters of a board at the end of a change.
UPDATE board SET seq = ?2, last_number = ?3, working_items = working_items + ?4,
       working_tokens = working_tokens + ?5, archived_items = archived_items + ?6,
       private_items = private_items + ?7, private_tokens = private_tokens + ?8
WHERE no = ?1;

-- name: board_core
-- A new core.
UPDATE board SET core = ?2 WHERE no = ?1;

-- name: board_change
-- Writes what a steward may change of a board. Settings that a newer version wrote stay.
UPDATE board SET title = ?2, parent = ?3, lifecycle = ?4, config = json_patch(config, ?5) WHERE no = ?1;

-- name: lease_take
-- Take or renew a lease.
INSERT INTO lease(name, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= ?4
RETURNING holder;

-- name: lease_of
-- Who has or had a lease, and until when.
SELECT holder, until FROM lease WHERE name = ?1;

-- name: lease_put
-- A lease, whoever had it before.
INSERT INTO lease(name, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT(name) DO UPDATE SET holder = excluded.holder, until = excluded.until;

-- name: lease_elsewhere
-- Whether another holder than ?2 has a lease.
SELECT 1 FROM lease WHERE name = ?1 AND holder <> ?2 AND until > ?3;

-- name: lease_release
-- Give a lease back.
DELETE FROM lease WHERE name = ?1 AND holder = ?2;
