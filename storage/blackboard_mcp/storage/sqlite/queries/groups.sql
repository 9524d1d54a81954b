-- Consumer groups and what they have handed out. Values are bound by position: ?1, ?2, …

-- name: group_add
-- A new group.
INSERT INTO consumer_group(board, name, filter, created_by, created_at, max_attempts, cursor, used_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5);

-- name: group_get
-- One group.
SELECT name, filter, created_by, created_at, max_attempts, cursor, used_at FROM consumer_group
WHERE board = ?1 AND name = ?2;

-- name: groups
-- The groups of a board, by name.
SELECT name, filter, created_by, created_at, max_attempts, cursor, used_at FROM consumer_group
WHERE board = ?1 ORDER BY name LIMIT ?2;

-- name: group_change
-- Another filter and number of attempts.
UPDATE consumer_group SET filter = ?3, max_attempts = ?4 WHERE board = ?1 AND name = ?2;

-- name: group_move
-- The group was used, and has handed out all up to there.
UPDATE consumer_group SET cursor = ?3, used_at = ?4 WHERE board = ?1 AND name = ?2;

-- name: group_drop
-- End a group.
DELETE FROM consumer_group WHERE board = ?1 AND name = ?2;

-- name: deliveries_drop
-- Forget all that a group has handed out.
DELETE FROM delivery WHERE board = ?1 AND consumers = ?2;

-- name: deliveries_last
-- Marks the attempts that are the last under a new number of attempts.
UPDATE delivery SET last = CASE WHEN tries >= ?3 THEN 1 ELSE 0 END WHERE board = ?1 AND consumers = ?2 AND dead = 0;

-- name: group_counts
-- Counts events that are held at ?3, that wait to be handed out again, and that are dead.
SELECT (SELECT count(*) FROM delivery WHERE board = ?1 AND consumers = ?2 AND dead = 0 AND until > ?3),
       (SELECT count(*) FROM delivery WHERE board = ?1 AND consumers = ?2 AND dead = 0 AND until <= ?3),
       (SELECT count(*) FROM delivery WHERE board = ?1 AND consumers = ?2 AND dead = 1);

-- name: deliveries
-- The deliveries of a group among some events (a JSON list).
SELECT seq, attempt, tries, last, worker, until, dead, why FROM delivery
WHERE board = ?1 AND consumers = ?2 AND seq IN (SELECT value FROM json_each(?3));

-- name: deliveries_due
-- The deliveries that wait at ?3 to be handed out again, by sequence.
SELECT seq, attempt, tries, why FROM delivery INDEXED BY delivery_out
WHERE board = ?1 AND consumers = ?2 AND dead = 0 AND until <= ?3 AND last = 0 ORDER BY seq LIMIT ?4;

-- name: deliveries_spent
-- The deliveries that were handed out for the last time and are held no more at ?3.
SELECT seq, attempt, worker, why FROM delivery INDEXED BY delivery_out
WHERE board = ?1 AND consumers = ?2 AND dead = 0 AND until <= ?3 AND last = 1 ORDER BY seq LIMIT ?4;

-- name: delivery_next_due
-- The end of the next lease that has not ended at ?3.
SELECT min(until) FROM delivery INDEXED BY delivery_out
WHERE board = ?1 AND consumers = ?2 AND dead = 0 AND until > ?3;

-- name: delivery_add
-- An event is handed out for the first time.
INSERT INTO delivery(board, consumers, seq, attempt, tries, last, worker, until, dead, why)
VALUES (?1, ?2, ?3, 1, 1, ?6, ?4, ?5, 0, '');

-- name: delivery_again
-- An event is handed out once more.
UPDATE delivery SET attempt = attempt + 1, tries = tries + 1, last = ?6, worker = ?4, until = ?5, why = ''
WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_done
-- An event is acknowledged, or a dead letter dropped.
DELETE FROM delivery WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_until
-- The lease ends then.
UPDATE delivery SET until = ?4 WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_failed
-- The worker gave it back.
UPDATE delivery SET until = ?4, why = ?5 WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_released
-- The worker gave it back without having begun, which is no try of the ?6 there are.
UPDATE delivery SET until = ?4, why = ?5, tries = tries - 1, last = CASE WHEN tries - 1 >= ?6 THEN 1 ELSE 0 END
WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_bury
-- It is a dead letter since then.
UPDATE delivery SET dead = 1, until = ?4, why = ?5 WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: delivery_retry
-- A dead letter waits to be handed out again, as often as a new one.
UPDATE delivery SET dead = 0, tries = 0, last = 0, until = ?4 WHERE board = ?1 AND consumers = ?2 AND seq = ?3;

-- name: dead_letters
-- Dead letters after a sequence.
SELECT seq, attempt, worker, why, until FROM delivery INDEXED BY delivery_dead
WHERE board = ?1 AND consumers = ?2 AND dead = 1 AND seq > ?3 ORDER BY seq LIMIT ?4;

-- name: events_at
-- Those of some events (a JSON list of sequences) that an agent may see.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3) ORDER BY seq;

-- name: groups_spent
-- Groups, by board, with something at ?1 that was handed out for the last time and is held no more.
SELECT DISTINCT b.id, d.consumers FROM delivery d INDEXED BY delivery_last JOIN board b ON b.no = d.board
WHERE d.dead = 0 AND d.last = 1 AND d.until <= ?1 LIMIT ?2;

-- name: groups_abandoned
-- Groups, by board, that at ?1 were unused for too long. ?2 is the setting of boards that were made before there
-- was one; boards in the state ?3 are left as they are.
WITH rule(no, id, lease) AS (
    SELECT no, id, coalesce(json_extract(config, '$.subscription_lease_seconds'), ?2) * 1000000
    FROM board WHERE lifecycle <> ?3
)
SELECT r.id, g.name FROM rule r CROSS JOIN consumer_group g ON g.board = r.no
WHERE r.lease > 0 AND g.used_at <= ?1 - r.lease LIMIT ?4;
