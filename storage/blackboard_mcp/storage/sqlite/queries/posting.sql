-- Writing items, their versions and edges. Values are bound by position: ?1, ?2, …

-- name: item_add
-- A new item in working memory.
INSERT INTO item(ITEM_ROW) VALUES (ITEM_VALUES);

-- name: item_of_key
-- The entry of a key with one owner, and whether it was deleted.
SELECT number, deleted FROM item WHERE board = ?1 AND owner = ?2 AND key = ?3;

-- name: entries_of_key
-- The entries of a key with one of some marks (a JSON list), and those that were deleted.
SELECT ITEM_ROW FROM (SELECT value AS mark FROM json_each(?2)) m CROSS JOIN item ON board = ?1 AND owner = m.mark
WHERE key = ?3;

-- name: touched
-- What a new version of an entry may touch, if there is anything: whether notices of retraction stand on it, its trust,
-- whether any debate is open on the board, and whether anybody was asked to agree to it.
SELECT retracted, trust, debated, agreeing FROM (
    SELECT EXISTS (SELECT 1 FROM retraction WHERE board = ?1 AND item = ?2) AS retracted,
           (SELECT trust FROM item_trust WHERE board = ?1 AND number = ?2) AS trust,
           EXISTS (SELECT 1 FROM debate INDEXED BY debate_open WHERE board = ?1 AND state = 'OPEN') AS debated,
           EXISTS (SELECT 1 FROM obligation INDEXED BY obligation_item
                   WHERE board = ?1 AND item = ?2 AND duty = 'agree') AS agreeing)
WHERE retracted OR trust IS NOT NULL OR debated OR agreeing;

-- name: version_keep
-- Keep the current content as a former version.
INSERT INTO item_version(board, number, version, text, tags, metadata, tokens, sha256, updated_at, updated_by,
                         written_by, written_at, status, deleted)
SELECT board, number, version, text, tags, metadata, tokens, sha256, updated_at, updated_by,
       written_by, written_at, status, deleted
FROM item WHERE board = ?1 AND number = ?2;

-- name: item_change
-- Everything of an item that may change; whoever brings a new version wrote it.
UPDATE item SET written_by = CASE WHEN ?3 > version THEN ?16 ELSE written_by END,
       written_at = CASE WHEN ?3 > version THEN ?12 ELSE written_at END, deleted = 0,
       version = ?3, status = ?4, zone = ?5, importance = ?6, text = ?7, tags = ?8, metadata = ?9,
       tokens = ?10, sha256 = ?11, updated_at = ?12, ttl = ?13, expires_at = ?14, seq = ?15, updated_by = ?16
WHERE board = ?1 AND number = ?2;

-- name: item_rewrite
-- A new version of an item of which nothing else changes, so that few indexes are written.
UPDATE item SET version = ?3, text = ?4, metadata = ?5, tokens = ?6, sha256 = ?7, updated_at = ?8, written_at = ?8,
       seq = ?9, updated_by = ?10, written_by = ?10
WHERE board = ?1 AND number = ?2;

-- name: item_delete
-- A tombstone takes the place of an entry's content.
UPDATE item SET version = ?3, status = 'WITHDRAWN', zone = 'archive', text = '', tags = '[]', metadata = '{}',
       tokens = 0, sha256 = ?4, updated_at = ?5, updated_by = ?6, written_at = ?5, written_by = ?6,
       ttl = NULL, expires_at = NULL, seq = ?7, deleted = 1
WHERE board = ?1 AND number = ?2;

-- name: items_archive
-- Items leave working memory: a JSON list of [number, seq].
WITH leaving(number, seq) AS MATERIALIZED (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2)
)
UPDATE item SET zone = 'archive', seq = l.seq FROM leaving l WHERE item.board = ?1 AND item.number = l.number;

-- name: item_back
-- An item comes back to working memory; its time to live is over.
UPDATE item SET zone = 'working', seq = ?3, ttl = NULL, expires_at = NULL WHERE board = ?1 AND number = ?2;

-- name: item_status
-- Set the status of an item.
UPDATE item SET status = ?3, seq = ?4, updated_at = ?5, updated_by = ?6 WHERE board = ?1 AND number = ?2;

-- name: edge_add
-- An edge; the same one twice is one.
INSERT INTO edge(board, source, kind, target) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: depends_reaches
-- 1 if `depends_on` leads from ?2 to ?3.
WITH RECURSIVE reach(n) AS (
    SELECT ?2
    UNION
    SELECT e.target FROM reach r CROSS JOIN edge e ON e.board = ?1 AND e.source = r.n AND e.kind = 'depends_on'
)
SELECT 1 FROM reach WHERE n = ?3;

-- name: stored_by
-- The bytes that an agent has written on a board and that are kept.
SELECT bytes FROM stored WHERE board = ?1 AND agent = ?2;

-- name: stored_here
-- The owner of an agent, and how many bytes that owner's agents and how many all have written on a board that are kept, if
-- the former are more than ?3 or the latter more than ?4; 0 is no limit.
WITH own(name) AS (SELECT coalesce((SELECT owner FROM principal WHERE agent = ?2), ?2))
SELECT owner, of_owner, of_all FROM (
    SELECT own.name AS owner,
           coalesce((SELECT o.bytes FROM stored o WHERE o.board = ?1 AND o.agent = own.name
                       AND NOT EXISTS (SELECT 1 FROM principal a WHERE a.agent = own.name)), 0)
           + coalesce((SELECT sum(s.bytes) FROM principal p INDEXED BY principal_owner
                       CROSS JOIN stored s ON s.board = ?1 AND s.agent = p.agent
                       WHERE p.owner = own.name), 0) AS of_owner,
           coalesce((SELECT b.bytes FROM stored b WHERE b.board = ?1 AND b.agent = ''), 0) AS of_all
    FROM own)
WHERE ?3 > 0 AND of_owner > ?3 OR ?4 > 0 AND of_all > ?4;

-- name: crossing
-- Items without a key, with one of some statuses (?4), that began with one of some events (sequences, ?3), which an agent may
-- see, and whose type is one of ?5 or that reply to or criticise one of ?6; the newest first. ?3 to ?6 are JSON lists.
SELECT i.number FROM json_each(?3) w
CROSS JOIN event e ON e.board = ?1 AND e.seq = w.value
CROSS JOIN item i ON i.board = ?1 AND i.number = e.item
WHERE e.event = 'item.posted' AND e.key IS NULL AND i.key IS NULL AND VISIBLE(i.owner, ?2)
  AND i.status IN (SELECT value FROM json_each(?4))
  AND (e.type IN (SELECT value FROM json_each(?5))
       OR EXISTS (SELECT 1 FROM edge x WHERE x.board = ?1 AND x.source = i.number
                  AND x.kind IN ('replies_to', 'critiques') AND x.target IN (SELECT value FROM json_each(?6))))
ORDER BY i.number DESC LIMIT ?7;

-- name: crossing_entries
-- Those of the entries ?2 whose present version was written by one of some events (sequences, ?3). Both are JSON lists.
SELECT DISTINCT i.number FROM json_each(?3) w
CROSS JOIN event e ON e.board = ?1 AND e.seq = w.value
CROSS JOIN item i ON i.board = ?1 AND i.number = e.item
WHERE e.event IN ('item.posted', 'item.versioned') AND e.version = i.version
  AND e.item IN (SELECT value FROM json_each(?2));

-- name: crossing_talk
-- The same for no types; ?5 are the numbers of what the events ?3 are about, each between two commas: of the few items
-- that talk to ?6 each is sooner looked for there than a list of a hundred is read.
SELECT i.number FROM edge x INDEXED BY edge_target
CROSS JOIN item i ON i.board = ?1 AND i.number = x.source
WHERE x.board = ?1 AND x.target IN (SELECT value FROM json_each(?6)) AND x.kind IN ('replies_to', 'critiques')
  AND instr(?5, ',' || x.source || ',') > 0 AND i.key IS NULL AND VISIBLE(i.owner, ?2) AND i.status IN (SELECT value FROM json_each(?4))
  AND EXISTS (SELECT 1 FROM event e INDEXED BY event_item WHERE e.board = ?1 AND e.item = i.number
              AND e.event = 'item.posted' AND e.seq IN (SELECT value FROM json_each(?3)))
GROUP BY i.number ORDER BY i.number DESC LIMIT ?7;
