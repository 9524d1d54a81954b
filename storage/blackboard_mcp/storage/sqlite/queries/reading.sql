-- Items as agents and operations read them. Values are bound by position: ?1, ?2, …; ITEM_ROW stands for the
-- columns of `ItemRow`.

-- name: items_by_number
-- Items by number (a JSON list) that an agent may see.
SELECT ITEM_ROW
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);

-- name: item_stamps
-- What tells whether a kept row is as it was, of items (a JSON list of numbers) that an agent may see.
SELECT board, number, seq, updated_at, tokens
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);

-- name: beginnings
-- The first characters of versions of items that an agent may see: a JSON list of numbers, to each of which its version
-- is added 4294967296 times.
SELECT i.number, CAST(w.value AS INTEGER) / 4294967296,
       substr(ltrim(CASE WHEN i.version = CAST(w.value AS INTEGER) / 4294967296 THEN i.text ELSE v.text END,
                    char(9, 10, 13, 32)), 1, 2001)
FROM json_each(?2) w CROSS JOIN item i ON i.board = ?1 AND i.number = CAST(w.value AS INTEGER) % 4294967296
LEFT JOIN item_version v
    ON v.board = i.board AND v.number = i.number AND v.version = CAST(w.value AS INTEGER) / 4294967296
WHERE VISIBLE(i.owner, ?3) AND (i.version = CAST(w.value AS INTEGER) / 4294967296 OR v.version IS NOT NULL);

-- name: items_by_key
-- Entries by key (a JSON list) that an agent may see: tombstones before what stands, shared ones before the
-- team's, own private ones last.
SELECT ITEM_ROW
FROM item WHERE board = ?1 AND key IN (SELECT value FROM json_each(?2)) AND FOUND(owner, ?3)
ORDER BY deleted DESC, NEAREST(owner, ?3);

-- name: versions
-- Former versions, by a JSON list of [number, version].
SELECT v.number, v.version, v.text, v.tags, v.metadata, v.tokens, v.sha256, v.updated_at, v.updated_by, v.status,
       v.deleted, v.written_by, v.written_at
FROM json_each(?2) w CROSS JOIN item_version v
WHERE v.board = ?1 AND v.number = json_extract(w.value, '$[0]') AND v.version = json_extract(w.value, '$[1]');

-- name: version_now
-- The present version of an item, without its text.
SELECT version, written_by, written_at, updated_by, updated_at, tokens, sha256, status, deleted, tags
FROM item WHERE board = ?1 AND number = ?2;

-- name: version_list
-- Former versions of an item from one down, without their texts, newest first.
SELECT version, written_by, written_at, updated_by, updated_at, tokens, sha256, status, deleted, tags
FROM item_version WHERE board = ?1 AND number = ?2 AND version <= ?3 ORDER BY version DESC LIMIT ?4;

-- name: working
-- Working memory as a pass sees it, oldest change first.
SELECT i.number, i.type, i.status, i.importance, i.tokens, i.author, i.thread, HIDDEN(i.owner), i.updated_at,
       i.seq, i.expires_at, i.superseded, i.analysed, i.debated,
       u.reads, u.last_read,
       COALESCE((SELECT p.owner FROM principal p WHERE p.agent = i.author), i.author),
       EXISTS (SELECT 1 FROM open_work o WHERE o.board = i.board AND o.number = i.number),
       CASE WHEN EXISTS (SELECT 1 FROM bearing b WHERE b.board = i.board AND b.number = i.number) THEN (
           SELECT json_group_array(source) FROM (
               SELECT b.source FROM bearing b WHERE b.board = i.board AND b.number = i.number LIMIT 64)) END,
       (SELECT c.at FROM cited c WHERE c.board = i.board AND c.number = i.number),
       i.key, i.tags
FROM item i INDEXED BY item_working LEFT JOIN item_use u ON u.board = i.board AND u.number = i.number
WHERE i.board = ?1 AND i.zone = 'working' ORDER BY i.seq;

-- name: law
-- Active constraints and open hot issues in working memory, by number. The plus keeps SQLite from reading
-- the whole board in that order.
SELECT number, type FROM item
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE')
  AND status IN ('ACTIVE', 'DEBATED') AND VISIBLE(owner, ?2) ORDER BY +number;

-- name: law_among
-- The items of a list (JSON) that are law (constraints, hot issues), of every owner: for the guard. There is little law, so
-- it is looked through instead of the list.
SELECT number, type FROM item INDEXED BY item_law
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED')
  AND number IN (SELECT value FROM json_each(?2));

-- name: top
-- The most important items of working memory that an agent may see, newest first among equals, with what tells whether
-- a kept row is as it was.
SELECT board, number, seq, updated_at, tokens FROM item WHERE board = ?1 AND zone = 'working' AND VISIBLE(owner, ?2)
ORDER BY importance DESC, seq DESC LIMIT ?3;

-- name: own_notes
-- The count and tokens of items of working memory that an agent sees and not everybody does.
SELECT count(*), coalesce(sum(tokens), 0) FROM item INDEXED BY item_private
WHERE board = ?1 AND zone = 'working' AND HIDDEN(owner) AND FOUND(owner, ?2);

-- name: thread_members
-- Items of a thread in working memory.
SELECT number, seq FROM item WHERE board = ?1 AND thread = ?2 AND zone = 'working' ORDER BY number;

-- name: edges_touching
-- Edges that leave or reach any of some items (a JSON list).
SELECT source, kind, target FROM edge WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
UNION
SELECT source, kind, target FROM edge INDEXED BY edge_target
WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2));

-- name: edges_visible
-- The same, where an agent may see both ends, with the version of an entry at the target that is newer than the source
-- (else 0). The order of the joins is forced: edges first.
SELECT e.source, e.kind, e.target, a.type, b.type, b.status,
    CASE WHEN b.version > 1 AND b.written_at > coalesce(nullif(a.written_at, 0), a.created_at) THEN b.version ELSE 0 END
FROM (
    SELECT source, kind, target FROM edge WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
    UNION
    SELECT source, kind, target FROM edge INDEXED BY edge_target
    WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2))
) e
CROSS JOIN item a ON a.board = ?1 AND a.number = e.source AND VISIBLE(a.owner, ?3)
CROSS JOIN item b ON b.board = ?1 AND b.number = e.target AND VISIBLE(b.owner, ?3);

-- name: item_superseded
-- Its author supersedes it, in sight of all who see it.
UPDATE item SET superseded = 1 WHERE board = ?1 AND number = ?2 AND EXISTS (
    SELECT 1 FROM item s WHERE s.board = ?1 AND s.number = ?3
      AND s.author = item.author AND SHARED(s.owner, item.owner));

-- name: items_around
-- For some items (a JSON list) the ones before and after each in its thread, of those an agent may see.
SELECT i.number,
       (SELECT n.number FROM item n WHERE n.board = ?1 AND n.thread = i.thread AND n.number < i.number
          AND VISIBLE(n.owner, ?3) ORDER BY n.number DESC LIMIT 1),
       (SELECT n.number FROM item n WHERE n.board = ?1 AND n.thread = i.thread AND n.number > i.number
          AND VISIBLE(n.owner, ?3) ORDER BY n.number LIMIT 1)
FROM item i
WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2)) AND VISIBLE(i.owner, ?3);

-- name: status_counts
-- The items that an agent may see, counted by zone, type and status, with tokens.
SELECT zone, type, status, sum(items), sum(tokens) FROM figure
WHERE board = ?1 AND FOUND(owner, ?2)
GROUP BY zone, type, status ORDER BY zone, type, status;

-- name: tags_of_board
-- Tags in use in working memory, most used first.
SELECT t.value, count(*) FROM item i INDEXED BY item_working CROSS JOIN json_each(i.tags) t
WHERE i.board = ?1 AND i.zone = 'working' AND VISIBLE(i.owner, ?2) GROUP BY t.value ORDER BY count(*) DESC, t.value LIMIT 100;

-- name: panel_items
-- The number of items in working memory that an agent may see, by panel.
SELECT PANEL OF i.tags, count(*) FROM item i INDEXED BY item_working
WHERE i.board = ?1 AND i.zone = 'working' AND PANELLED(i.tags) AND VISIBLE(i.owner, ?2) GROUP BY 1;

-- name: panel_version
-- The sequence of the last event about an item of panel ?3 that an agent may see; one search of the index for each
-- mark that such items may have.
SELECT max((SELECT e.seq FROM event e INDEXED BY event_panel
            WHERE e.board = m.board AND PANELLED(e.tags) AND PANEL OF e.tags = ?3 AND e.owner = m.owner
            ORDER BY e.seq DESC LIMIT 1))
FROM (SELECT ?1 AS board, mark AS owner FROM MARKS(?2)) m
WHERE VISIBLE(m.owner, ?2);

-- name: items_any
-- Items by number (a JSON list), whoever may see them: for the server's own work.
SELECT ITEM_ROW
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: types
-- The types of some items (a JSON list) that an agent may see.
SELECT number, type FROM item
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);
