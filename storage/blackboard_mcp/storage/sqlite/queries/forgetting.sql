-- Content that an operator's rules remove. Values are bound by position: ?1, ?2, …

-- name: archive_numbers
-- The archive after a number, without what was forgotten.
SELECT number FROM (
    SELECT number FROM item INDEXED BY item_archived
    WHERE board = ?1 AND zone = 'archive' AND deleted = 0 AND number > ?2
    UNION ALL
    SELECT number FROM item INDEXED BY item_tombstone
    WHERE board = ?1 AND zone = 'archive' AND deleted = 1 AND number > ?2
) ORDER BY number LIMIT ?3;

-- name: forgettable
-- The items of a list (?2, JSON) that may be forgotten: archived; of a type whose time is over (?3, an object of
-- instants by type) since their last event; watched and owed for by nobody; held by nothing; cited by nothing live
-- and bearing on nothing live.
SELECT i.number, i.type, i.author, i.created_at,
       length(CAST(i.text AS BLOB)) + length(CAST(i.tags AS BLOB)) + length(CAST(i.metadata AS BLOB))
       + coalesce((SELECT sum(length(CAST(v.text AS BLOB)) + length(CAST(v.tags AS BLOB))
                              + length(CAST(v.metadata AS BLOB)))
                   FROM item_version v WHERE v.board = i.board AND v.number = i.number), 0)
FROM json_each(?2) w
CROSS JOIN item i ON i.board = ?1 AND i.number = w.value
CROSS JOIN json_each(?3) r ON r.key = i.type
WHERE i.zone = 'archive' AND i.deleted < 2 AND i.created_at <= r.value
  AND (SELECT max(e.at) FROM event e INDEXED BY event_item WHERE e.board = i.board AND e.item = i.number) <= r.value
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
  AND NOT EXISTS (SELECT 1 FROM obligation o INDEXED BY obligation_item
                  WHERE o.board = i.board AND o.item = i.number AND o.state IN ('outstanding', 'watching'))
  AND NOT EXISTS (SELECT 1 FROM edge e INDEXED BY edge_target
                  CROSS JOIN item s ON s.board = e.board AND s.number = e.source
                  WHERE e.board = i.board AND e.target = i.number AND s.zone <> 'archive')
  AND NOT EXISTS (SELECT 1 FROM edge e CROSS JOIN item t ON t.board = e.board AND t.number = e.target
                  WHERE e.board = i.board AND e.source = i.number AND t.zone <> 'archive'
                    AND (i.type = 'ANSWER'
                         OR e.kind IN ('critiques', 'supports', 'refutes', 'supersedes', 'analyzed_by')))
ORDER BY i.number;

-- name: items_forget
-- Items lose their content: a JSON list of [number, seq].
WITH gone(number, seq) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2)
)
UPDATE item SET text = '', tags = '[]', metadata = '{}', tokens = 0, ttl = NULL, expires_at = NULL, deleted = 2,
       seq = g.seq
FROM gone g WHERE item.board = ?1 AND item.number = g.number;

-- name: versions_forget
-- Former versions of items (a JSON list) lose theirs.
UPDATE item_version SET text = '', tags = '[]', metadata = '{}', tokens = 0, deleted = 2
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND deleted = 0;

-- name: endorsements_forget
-- Drops tags and metadata that came with the same findings as items (a JSON list).
UPDATE endorsement SET tags = '[]', metadata = '{}'
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2));

-- name: finding_forget
-- Drops the fingerprint of a finding.
DELETE FROM finding WHERE board = ?1 AND fingerprint = substr(?2, 1, 33) AND number = ?3;

-- name: events_forget
-- Tags, metadata and reasons in the log of items (a JSON list); every event stays, with what happened, when and by whom.
UPDATE event INDEXED BY event_item SET tags = '[]', 
       data = json_remove(data, '$.was', '$.now', '$.tags', '$.metadata', '$.reason')
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND (
    tags <> '[]' OR json_type(data, '$.was') IS NOT NULL OR json_type(data, '$.now') IS NOT NULL
    OR json_type(data, '$.tags') IS NOT NULL OR json_type(data, '$.metadata') IS NOT NULL
    OR json_type(data, '$.reason') IS NOT NULL);

-- name: duties_forget
-- The words with which agents did what they owed to items (a JSON list); those of the server stay.
UPDATE obligation INDEXED BY obligation_item SET reason = ''
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND state = 'acknowledged' AND duty <> 'agree'
  AND reason <> '';

-- name: requests_forget
-- Why requests (a JSON list of items) ended.
UPDATE request SET reason = '' WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND reason <> '';

-- name: declined_forget
-- Why agents declined requests (a JSON list of items).
UPDATE request_declined SET reason = ''
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND reason <> '';

-- name: deliveries_forget
-- Drops what workers said of events of items (a JSON list) that they could not work on.
UPDATE delivery SET why = '' WHERE board = ?1 AND why <> '' AND EXISTS (
    SELECT 1 FROM event e WHERE e.board = ?1 AND e.seq = delivery.seq AND e.item IN (SELECT value FROM json_each(?2)));

-- name: debates_forget
-- Why debates (a JSON list) ended. That the author conceded stays: it says who ended them.
UPDATE debate SET reason = CASE WHEN reason = 'conceded' OR reason LIKE 'conceded: %' THEN 'conceded' ELSE '' END
WHERE board = ?1 AND id IN (SELECT value FROM json_each(?2)) AND reason <> '';

-- name: votes_forget
-- Why owners voted as they did in debates (a JSON list).
UPDATE vote SET reason = '' WHERE board = ?1 AND debate IN (SELECT value FROM json_each(?2)) AND reason <> '';

-- name: decisions_forget
-- Why owners decided as they did in debates (a JSON list).
UPDATE decision SET reason = '' WHERE board = ?1 AND debate IN (SELECT value FROM json_each(?2)) AND reason <> '';

-- name: kept_forget
-- Answers kept for calls made again that say how debates on items (a JSON list) stood, of who took part.
DELETE FROM idempotency
WHERE board = ?1
  AND agent IN (SELECT e.agent FROM event e INDEXED BY event_item
                WHERE e.board = ?1 AND e.item IN (SELECT value FROM json_each(?2)))
  AND json_extract(answer, '$[0].root') IN (SELECT value FROM json_each(?2));

-- name: kept_drop
-- Answers kept for calls made again that are good no more.
DELETE FROM idempotency INDEXED BY idempotency_expiry WHERE board = ?1 AND expires_at <= ?2;

-- name: forgotten_by
-- The events by which items (a JSON list) were forgotten, oldest first: item, version, when, and what they say.
SELECT item, version, at, data FROM event INDEXED BY event_item
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND event = 'item.forgotten' ORDER BY seq;

-- name: anything_forgotten
-- 1 if any content was ever forgotten.
SELECT 1 FROM item WHERE deleted = 2 UNION ALL SELECT 1 FROM item_version WHERE deleted = 2 LIMIT 1;
