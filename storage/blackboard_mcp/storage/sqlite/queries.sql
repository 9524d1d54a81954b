-- Every statement of the operations, by name. Values are bound by position: ?1, ?2, …

-- name: board_by_id
-- The board row of an id.
SELECT no, id, title, parent, lifecycle, config, core, seq, last_number, created_at,
       working_items, working_tokens, archived_items, private_items, private_tokens, pressure
FROM board WHERE id = ?1;

-- name: boards
-- All boards by id.
SELECT no, id, title, parent, lifecycle, config, core, seq, last_number, created_at,
       working_items, working_tokens, archived_items, private_items, private_tokens, pressure
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
-- What a steward may change of a board. Settings that a newer version wrote stay.
UPDATE board SET title = ?2, parent = ?3, lifecycle = ?4, config = json_patch(config, ?5) WHERE no = ?1;

-- name: board_pressure
-- The hot issue of a board's pressure, or 0 when it ended.
UPDATE board SET pressure = ?2 WHERE no = ?1;

-- name: pressure_causes
-- What everybody sees of what the guard holds but for one item (?2), by why: the debate that reached it, else
-- the law it is, else what somebody owes. With the root of the debate; most tokens first.
SELECT why, root, type, count(*), sum(tokens) FROM (
    SELECT i.tokens,
           CASE WHEN d.id IS NOT NULL THEN 'debate'
                WHEN i.type IN ('CONSTRAINT', 'HOT_ISSUE') AND i.status IN ('ACTIVE', 'DEBATED') THEN i.type
                ELSE 'owed' END AS why,
           d.root AS root, r.type AS type
    FROM (SELECT DISTINCT number FROM protected WHERE board = ?1) p
    CROSS JOIN item i ON i.board = ?1 AND i.number = p.number AND i.zone = 'working' AND i.owner = ''
    LEFT JOIN held h ON h.board = ?1 AND h.number = i.number
    LEFT JOIN debate d ON d.board = ?1 AND d.id = h.debate
    LEFT JOIN item r ON r.board = ?1 AND r.number = d.root
    WHERE i.number <> ?2
) GROUP BY why, root ORDER BY sum(tokens) DESC, root;

-- name: pressure_owing
-- Who owes what on items of working memory that everybody sees, longest waiting first.
SELECT o.agent, o.duty, o.item, i.type FROM obligation o
CROSS JOIN item i ON i.board = o.board AND i.number = o.item AND i.zone = 'working' AND i.owner = ''
WHERE o.board = ?1 AND o.state = 'outstanding' AND o.item <> ?2 AND o.agent <> ?3
ORDER BY o.since, o.item, o.agent LIMIT ?4;

-- name: pressure_law
-- Active constraints and open hot issues that everybody sees, longest text first, and who wrote them.
SELECT author, number, type FROM item
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED')
  AND owner = '' AND number <> ?2 AND author <> ?3
ORDER BY tokens DESC, number LIMIT ?4;

-- name: event_add
-- One line of the log.
INSERT INTO event(board, seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: concern_add
-- An event concerns an agent.
INSERT INTO concern(board, agent, seq, item) VALUES (?1, ?2, ?3, ?4);

-- name: concerns_after
-- What concerned an agent after a sequence: items, newest first.
SELECT DISTINCT c.item FROM concern c JOIN item i ON i.board = c.board AND i.number = c.item
WHERE c.board = ?1 AND c.agent = ?2 AND c.seq > ?3 AND i.owner IN ('', ?2)
ORDER BY c.seq DESC LIMIT 50;

-- name: events_after
-- The log after a sequence that an agent may see.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND owner IN ('', ?3) ORDER BY seq LIMIT ?4;

-- name: events_of_item
-- The log of one item that an agent may see, newest first.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND item = ?2 AND owner IN ('', ?3) ORDER BY seq DESC LIMIT ?4;

-- name: item_add
-- A new item in working memory.
INSERT INTO item(board, number, type, key, version, status, zone, importance, author, owner, text, tags,
                 metadata, tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'working', ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?17, ?18, ?19, ?8);

-- name: items_by_number
-- Items by number (a JSON list) that an agent may see.
SELECT board, number, type, key, version, status, zone, importance, author, owner, text, tags, metadata,
       tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND owner IN ('', ?3);

-- name: items_by_key
-- Items by key (a JSON list) that an agent may see, an own private entry before the shared one.
SELECT board, number, type, key, version, status, zone, importance, author, owner, text, tags, metadata,
       tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by
FROM item WHERE board = ?1 AND key IN (SELECT value FROM json_each(?2)) AND owner IN ('', ?3)
ORDER BY owner;

-- name: item_of_key
-- The entry of a key with one owner.
SELECT number FROM item WHERE board = ?1 AND owner = ?2 AND key = ?3;

-- name: versions
-- Versions of an item that are no longer current.
SELECT version, text, tags, metadata, tokens, sha256, updated_at, updated_by
FROM item_version WHERE board = ?1 AND number = ?2 ORDER BY version;

-- name: version_keep
-- Keep the current content as a former version.
INSERT INTO item_version(board, number, version, text, tags, metadata, tokens, sha256, updated_at, updated_by)
SELECT board, number, version, text, tags, metadata, tokens, sha256, updated_at, updated_by
FROM item WHERE board = ?1 AND number = ?2;

-- name: item_change
-- Everything of an item that may change.
UPDATE item SET version = ?3, status = ?4, zone = ?5, importance = ?6, text = ?7, tags = ?8, metadata = ?9,
       tokens = ?10, sha256 = ?11, updated_at = ?12, ttl = ?13, expires_at = ?14, seq = ?15, updated_by = ?16
WHERE board = ?1 AND number = ?2;

-- name: item_move
-- Put an item into a zone.
UPDATE item SET zone = ?3, seq = ?4, ttl = CASE WHEN ?3 = 'working' THEN NULL ELSE ttl END,
       expires_at = CASE WHEN ?3 = 'working' THEN NULL ELSE expires_at END
WHERE board = ?1 AND number = ?2;

-- name: item_status
-- Set the status of an item.
UPDATE item SET status = ?3, seq = ?4, updated_at = ?5, updated_by = ?6 WHERE board = ?1 AND number = ?2;

-- name: working
-- Working memory as a pass sees it, oldest change first.
SELECT i.number, i.type, i.status, i.importance, i.tokens, i.author, i.thread, i.owner <> '', i.updated_at,
       i.seq, i.expires_at, i.superseded, i.analysed, i.debated,
       u.reads, u.last_read,
       COALESCE((SELECT p.owner FROM principal p WHERE p.agent = i.author), i.author)
FROM item i LEFT JOIN item_use u ON u.board = i.board AND u.number = i.number
WHERE i.board = ?1 AND i.zone = 'working' ORDER BY i.seq;

-- name: working_among
-- Those of some items (a JSON list) that are in working memory, as a pass sees them.
SELECT i.number, i.type, i.status, i.importance, i.tokens, i.author, i.thread, i.owner <> '', i.updated_at,
       i.seq, i.expires_at, i.superseded, i.analysed, i.debated,
       u.reads, u.last_read,
       COALESCE((SELECT p.owner FROM principal p WHERE p.agent = i.author), i.author)
FROM item i LEFT JOIN item_use u ON u.board = i.board AND u.number = i.number
WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2)) AND i.zone = 'working';

-- name: going_expired
-- What step 1 takes whatever the level: the expired, but for the protected.
SELECT number FROM item i WHERE board = ?1 AND expires_at IS NOT NULL AND expires_at <= ?2 AND zone = 'working'
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number);

-- name: going_done
-- What step 1 takes as well, after a place (seq, number), in order: the finished and the superseded.
SELECT number, tokens, seq FROM item i
WHERE board = ?1 AND zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
  AND (seq, number) > (?2, ?3)
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY seq, number LIMIT ?4;

-- name: going_logs
-- What step 2 takes, after a place, in order: logs that have been analysed.
SELECT number, tokens, seq FROM item i
WHERE board = ?1 AND zone = 'working' AND type = 'LOG' AND analysed = 1 AND (seq, number) > (?2, ?3)
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY seq, number LIMIT ?4;

-- name: going_threads
-- Threads after a thread that something settles and that have more than ?3 items which all may see.
SELECT DISTINCT thread FROM item i
WHERE board = ?1 AND zone = 'working' AND owner = ''
  AND (debated = 1 OR status = 'RESOLVED' OR (type IN ('DECISION', 'ANSWER') AND number <> thread))
  AND thread > ?2
  AND (SELECT count(*) FROM (
      SELECT 1 FROM item m WHERE m.board = ?1 AND m.thread = i.thread AND m.zone = 'working' AND m.owner = ''
        AND m.type <> 'CONSTRAINT' LIMIT ?3 + 1)) > ?3
ORDER BY thread LIMIT ?4;

-- name: ahead_done
-- How much step 1 takes before a place (seq, number): items and tokens that an agent may know of, counted to
-- ?4 items.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
      AND (seq, number) < (?2, ?3)
      AND owner IN ('', ?5)
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
    LIMIT ?4);

-- name: ahead_logs
-- How much step 2 takes before a place, of what step 1 leaves.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND type = 'LOG' AND analysed = 1 AND (seq, number) < (?2, ?3)
      AND owner IN ('', ?5)
      AND NOT (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
    LIMIT ?4);

-- name: ahead_least
-- How much step 4 takes before a place (importance, seq, number), of what steps 1 and 2 leave.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND (importance, seq, number) < (?2, ?3, ?4)
      AND owner IN ('', ?8)
      AND (?6 = 0 OR NOT (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED')))
      AND (?7 = 0 OR NOT (type = 'LOG' AND analysed = 1))
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
    LIMIT ?5);

-- name: going_least
-- What step 4 takes, after a place (importance, seq, number), in order, up to an importance.
SELECT number, tokens, seq, importance FROM item i
WHERE board = ?1 AND zone = 'working' AND (importance, seq, number) > (?2, ?3, ?4) AND importance <= ?5
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY importance, seq, number LIMIT ?6;

-- name: law
-- Active constraints and open hot issues in working memory, by number. The plus keeps SQLite from reading
-- the whole board in that order.
SELECT number, type FROM item
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE')
  AND status IN ('ACTIVE', 'DEBATED') AND owner IN ('', ?2) ORDER BY +number;

-- name: law_among
-- Those of some items (a JSON list) that are such, of every owner: for the guard.
SELECT number, type FROM item
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND zone = 'working'
  AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED');

-- name: top
-- The most important items of working memory that an agent may see, newest first among equals.
SELECT number FROM item WHERE board = ?1 AND zone = 'working' AND owner IN ('', ?2)
ORDER BY importance DESC, seq DESC LIMIT ?3;

-- name: own_notes
-- How many private items an agent has in working memory, and their tokens.
SELECT count(*), coalesce(sum(tokens), 0) FROM item WHERE board = ?1 AND zone = 'working' AND owner <> '' AND owner = ?2;

-- name: thread_members
-- Items of a thread in working memory.
SELECT number, seq FROM item WHERE board = ?1 AND thread = ?2 AND zone = 'working' ORDER BY number;

-- name: edge_add
-- An edge; the same one twice is one.
INSERT INTO edge(board, source, kind, target) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: edges_touching
-- Edges that leave or reach any of some items (a JSON list).
SELECT source, kind, target FROM edge WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
UNION
SELECT source, kind, target FROM edge WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2));

-- name: edges_visible
-- The same, where an agent may see both ends. The order of the joins is forced: edges first.
SELECT e.source, e.kind, e.target, a.type, b.type FROM (
    SELECT source, kind, target FROM edge WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
    UNION
    SELECT source, kind, target FROM edge WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2))
) e
CROSS JOIN item a ON a.board = ?1 AND a.number = e.source AND a.owner IN ('', ?3)
CROSS JOIN item b ON b.board = ?1 AND b.number = e.target AND b.owner IN ('', ?3);

-- name: depends_reaches
-- Whether `depends_on` leads from ?2 to ?3.
WITH RECURSIVE reach(n) AS (
    SELECT ?2
    UNION
    SELECT e.target FROM edge e JOIN reach r ON e.board = ?1 AND e.source = r.n AND e.kind = 'depends_on'
)
SELECT 1 FROM reach WHERE n = ?3;

-- name: debate_add
-- A new open debate.
INSERT INTO debate(board, id, root, state, opened_by, explicit, opened_at, reason, moved_at)
VALUES (?1, ?2, ?3, 'OPEN', ?4, ?5, ?6, ?7, ?6);

-- name: debate_moved
-- Something happened in a debate.
UPDATE debate SET moved_at = ?3 WHERE board = ?1 AND id = ?2;

-- name: debate_critique_add
-- A critique joins a debate.
INSERT INTO debate_critique(board, critique, debate) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING;

-- name: debate_close
-- A debate reaches a final state.
UPDATE debate SET state = ?3, closed_by = ?4, closed_at = ?5, reason = ?6, outcome = ?7
WHERE board = ?1 AND id = ?2;

-- name: debates_open
-- Open debates, oldest first.
SELECT id, root, state, opened_by, explicit, opened_at, closed_by, closed_at, reason, outcome
FROM debate WHERE board = ?1 AND state = 'OPEN' ORDER BY id;

-- name: debates_on
-- Debates whose root is one of some items (a JSON list), oldest first.
SELECT id, root, state, opened_by, explicit, opened_at, closed_by, closed_at, reason, outcome
FROM debate WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) ORDER BY id;

-- name: debates_of_critique
-- Debates that a critique is part of, oldest first.
SELECT d.id, d.root, d.state, d.opened_by, d.explicit, d.opened_at, d.closed_by, d.closed_at, d.reason, d.outcome
FROM debate_critique c JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique = ?2 ORDER BY d.id;

-- name: critiques_of
-- The critiques of some debates (a JSON list of debate ids).
SELECT debate, critique FROM debate_critique
WHERE board = ?1 AND debate IN (SELECT value FROM json_each(?2)) ORDER BY debate, critique;

-- name: obligation_add
-- Somebody owes something; owing it again makes it outstanding again.
INSERT INTO obligation(board, agent, item, duty, debate, state, reason, since)
VALUES (?1, ?2, ?3, ?4, ?5, 'outstanding', '', ?6)
ON CONFLICT DO UPDATE SET state = 'outstanding', reason = '', since = excluded.since;

-- name: obligation_set
-- An obligation is met or waived.
UPDATE obligation SET state = ?6, reason = ?7
WHERE board = ?1 AND agent = ?2 AND item = ?3 AND duty = ?4 AND debate = ?5;

-- name: obligations_of_debates
-- Obligations of some debates (a JSON list of ids; 0 is none). The order of the join is forced: the list first.
SELECT o.agent, o.item, o.duty, o.state, o.debate, o.reason, o.since FROM json_each(?2) d
CROSS JOIN obligation o INDEXED BY obligation_debate ON o.board = ?1 AND o.debate = d.value
ORDER BY o.since, o.agent, o.item, o.duty;

-- name: obligations_of_item
-- Obligations that name one item, or that arose in debates on it.
SELECT agent, item, duty, state, debate, reason, since FROM obligation
WHERE board = ?1 AND item = ?2 ORDER BY since, agent, duty;

-- name: obligations_outstanding
-- Those of some items (a JSON list) with an outstanding obligation, and whose.
SELECT item, agent, duty FROM obligation
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND state = 'outstanding'
ORDER BY item, agent, duty;

-- name: protected_among
-- Those of some items (a JSON list) that may not leave.
SELECT DISTINCT number FROM protected WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: protected_figures
-- How much of working memory may not leave: items and tokens.
SELECT count(*), coalesce(sum(tokens), 0) FROM item
WHERE board = ?1 AND number IN (SELECT number FROM protected WHERE board = ?1) AND zone = 'working';

-- name: protected_figures_visible
-- The same of what an agent may see.
SELECT count(*), coalesce(sum(tokens), 0) FROM item
WHERE board = ?1 AND number IN (SELECT number FROM protected WHERE board = ?1) AND zone = 'working'
  AND owner IN ('', ?2);

-- name: held_add
-- Items are held: a JSON list of [number, debate, source, kind, target, depth].
INSERT INTO held(board, number, debate, source, kind, target, depth)
SELECT ?1, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(?2);

-- name: held
-- Those of some items (a JSON list) that debates hold.
SELECT number, debate, depth FROM held WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: held_drop
-- A debate holds nothing more.
DELETE FROM held WHERE board = ?1 AND debate = ?2 RETURNING number;

-- name: held_clear
-- No debate holds anything.
DELETE FROM held;

-- name: holding
-- Those of some items (a JSON list) that debates hold or are about, by open debate, what they are about last.
SELECT number, debate, 0 AS about FROM held WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT root, id, 1 FROM debate
WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) AND state = 'OPEN'
UNION ALL
SELECT c.critique, c.debate, 1 FROM debate_critique c
CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2)) AND d.state = 'OPEN'
ORDER BY about, 2 DESC;

-- name: root_of_debate
-- What a debate is about.
SELECT i.number, i.type FROM debate d JOIN item i ON i.board = d.board AND i.number = d.root
WHERE d.board = ?1 AND d.id = ?2;

-- name: held_for
-- For those of some items (a JSON list) that debates hold: how far, and the root of the debate.
SELECT h.number, h.depth, d.root, i.type
FROM held h JOIN debate d ON d.board = h.board AND d.id = h.debate
JOIN item i ON i.board = d.board AND i.number = d.root
WHERE h.board = ?1 AND h.number IN (SELECT value FROM json_each(?2));

-- name: chains
-- The edges from a debate to each of some items (a JSON list) it holds, at most ?3 of them, in order.
WITH RECURSIVE up(item, number, source, kind, target, step) AS (
    SELECT number, number, source, kind, target, 1 FROM held
    WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND kind <> ''
    UNION ALL
    SELECT u.item, h.number, h.source, h.kind, h.target, u.step + 1
    FROM up u CROSS JOIN held h ON h.board = ?1 AND h.kind <> ''
         AND h.number = CASE u.number WHEN u.source THEN u.target ELSE u.source END
    WHERE u.step < ?3
)
SELECT item, source, kind, target FROM up ORDER BY item, step DESC;

-- name: debated
-- Those of some items (a JSON list) that open debates are about, by debate.
SELECT root AS number, id FROM debate
WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) AND state = 'OPEN'
UNION
SELECT c.critique, c.debate FROM debate_critique c CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2)) AND d.state = 'OPEN'
ORDER BY id, number;

-- name: debated_for
-- The same with the root of the debate, newest first.
SELECT a.number, d.root, i.type FROM (
    SELECT root AS number, id FROM debate WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2))
    UNION
    SELECT critique, debate FROM debate_critique
    WHERE board = ?1 AND critique IN (SELECT value FROM json_each(?2))
) a
CROSS JOIN debate d ON d.board = ?1 AND d.id = a.id AND d.state = 'OPEN'
CROSS JOIN item i ON i.board = ?1 AND i.number = d.root
ORDER BY d.id DESC;

-- name: debated_anywhere
-- What open debates are about, on every board.
SELECT board, root AS number, id FROM debate WHERE state = 'OPEN'
UNION
SELECT d.board, c.critique, d.id FROM debate d JOIN debate_critique c ON c.board = d.board AND c.debate = d.id
WHERE d.state = 'OPEN'
ORDER BY 1, 3, 2;

-- name: edges_to_free
-- Edges that touch some items (a JSON list) and whose other end no debate holds.
SELECT source, kind, target FROM edge e WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM held h WHERE h.board = ?1 AND h.number = e.target)
UNION ALL
SELECT source, kind, target FROM edge e WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM held h WHERE h.board = ?1 AND h.number = e.source);

-- name: edges_from_held
-- Edges that touch some items (a JSON list) and whose other end a debate holds, with that end's hold.
SELECT e.source, e.kind, e.target, h.number, h.debate, h.depth
FROM edge e CROSS JOIN held h ON h.board = ?1 AND h.number = e.target
WHERE e.board = ?1 AND e.source IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT e.source, e.kind, e.target, h.number, h.debate, h.depth
FROM edge e CROSS JOIN held h ON h.board = ?1 AND h.number = e.source
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2));

-- name: item_superseded
-- Another item supersedes it.
UPDATE item SET superseded = 1 WHERE board = ?1 AND number = ?2;

-- name: items_analysed
-- An `analyzed_by` edge joins two items.
UPDATE item SET analysed = 1 WHERE board = ?1 AND number IN (?2, ?3);

-- name: item_debated
-- A debate on an item was closed.
UPDATE item SET debated = 1 WHERE board = ?1 AND number = ?2;

-- name: obligations_of_agent
-- What an agent owes on items it may see, oldest first.
SELECT o.item, o.duty, i.type FROM obligation o JOIN item i ON i.board = o.board AND i.number = o.item
WHERE o.board = ?1 AND o.agent = ?2 AND o.state = 'outstanding' AND i.owner IN ('', ?2)
ORDER BY o.since, o.item LIMIT 50;

-- name: vote_put
-- An owner votes in a debate; its former vote is replaced.
INSERT INTO vote(board, debate, owner, agent, version, approve, reason, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT DO UPDATE SET agent = excluded.agent, version = excluded.version, approve = excluded.approve,
    reason = excluded.reason, at = excluded.at;

-- name: vote_drop
-- The vote that an agent gave is gone, whoever it then acted for.
DELETE FROM vote WHERE board = ?1 AND debate = ?2 AND agent = ?3;

-- name: votes_of
-- Votes in some debates (a JSON list of ids), in the order in which they were given.
SELECT debate, owner, agent, version, approve, reason, at FROM vote
WHERE board = ?1 AND debate IN (SELECT value FROM json_each(?2)) ORDER BY debate, at, owner;

-- name: watch_add
-- An agent watches a topic.
INSERT INTO watch(board, agent, topic, since) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: watch_drop
-- An agent watches a topic no more.
DELETE FROM watch WHERE board = ?1 AND agent = ?2 AND topic = ?3;

-- name: watches
-- The topics an agent watches, longest first.
SELECT topic, since FROM watch WHERE board = ?1 AND agent = ?2 ORDER BY since, topic;

-- name: watches_on_board
-- How many standing watches a board has.
SELECT count(*) FROM watch WHERE board = ?1;

-- name: globs_on_board
-- How many different globs of keys are watched on a board.
SELECT count(DISTINCT topic) FROM watch
WHERE board = ?1 AND topic >= 'key:' AND topic < 'key;' AND instr(topic, '*') > 0;

-- name: watched_globs
-- The watched globs of keys that begin as the key ?2 does, up to their first star.
SELECT DISTINCT topic FROM watch
WHERE board = ?1 AND topic >= 'key:' AND topic < 'key;' AND instr(topic, '*') > 0
  AND substr(topic, 5, instr(topic, '*') - 5) = substr(?2, 1, instr(topic, '*') - 5);

-- name: watchers_of_topics
-- Who watches any of some topics (a JSON list), longest first. The order of the join is forced: the list first.
SELECT w.agent FROM json_each(?2) t
CROSS JOIN watch w INDEXED BY watch_topic ON w.board = ?1 AND w.topic = t.value
GROUP BY w.agent ORDER BY min(w.since), w.agent;

-- name: lapsing_boards
-- Boards where at ?1 a watcher's lease has ended, or a debate stands still for too long. ?2 and ?3 are the
-- settings of boards that were made before there were these; boards in the state ?4 are left as they are.
WITH rule(no, id, lease, expiry) AS (
    SELECT no, id, coalesce(json_extract(config, '$.watch_lease_seconds'), ?2) * 1000000,
           coalesce(json_extract(config, '$.debate_expiry_seconds'), ?3) * 1000000
    FROM board WHERE lifecycle <> ?4
)
SELECT r.id FROM obligation o JOIN rule r ON r.no = o.board
LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE o.state = 'outstanding' AND o.duty = 'acknowledge' AND o.since < ?1 AND r.lease > 0
  AND max(o.since, coalesce(a.last_seen, 0)) + r.lease <= ?1
UNION
SELECT r.id FROM watch w JOIN rule r ON r.no = w.board
LEFT JOIN agent a ON a.board = w.board AND a.name = w.agent
WHERE w.since < ?1 AND r.lease > 0 AND max(w.since, coalesce(a.last_seen, 0)) + r.lease <= ?1
UNION
SELECT r.id FROM debate d JOIN rule r ON r.no = d.board
WHERE d.state = 'OPEN' AND d.moved_at < ?1 AND r.expiry > 0 AND d.moved_at + r.expiry <= ?1;

-- name: duties_of_the_absent
-- Acknowledgements owed since ?2 or longer by agents who were last there then or before, oldest first.
SELECT o.agent, o.item, o.duty, o.state, o.debate, o.reason, o.since
FROM obligation o INDEXED BY obligation_waiting LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE o.board = ?1 AND o.state = 'outstanding' AND o.duty = 'acknowledge' AND o.since <= ?2
  AND coalesce(a.last_seen, 0) <= ?2
ORDER BY o.since, o.agent, o.item, o.debate LIMIT ?3;

-- name: watches_of_the_absent
-- Standing watches as old as ?2 of agents who were last there then or before, oldest first.
SELECT w.agent, w.topic FROM watch w LEFT JOIN agent a ON a.board = w.board AND a.name = w.agent
WHERE w.board = ?1 AND w.since <= ?2 AND coalesce(a.last_seen, 0) <= ?2
ORDER BY w.since, w.agent, w.topic LIMIT ?3;

-- name: debates_standing_still
-- Open debates in which nothing happened since ?2, oldest first.
SELECT id FROM debate INDEXED BY debate_moved
WHERE board = ?1 AND state = 'OPEN' AND moved_at <= ?2 ORDER BY id LIMIT ?3;

-- name: owner_of
-- Whom an agent acts for.
SELECT owner FROM principal WHERE agent = ?1;

-- name: owners_of
-- Whom some agents (a JSON list of names) act for, where that is not themselves.
SELECT agent, owner FROM principal WHERE agent IN (SELECT value FROM json_each(?1));

-- name: owner_set
-- An agent acts for somebody.
INSERT INTO principal(agent, owner) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET owner = excluded.owner;

-- name: owner_drop
-- An agent acts for itself.
DELETE FROM principal WHERE agent = ?1;

-- name: agent_seen
-- An agent did something on a board.
INSERT INTO agent(board, name, posts, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT DO UPDATE SET posts = posts + excluded.posts, last_seen = max(last_seen, excluded.last_seen);

-- name: agents_seen
-- Agents were there (a JSON list of [name, instant]); those that never did anything and owe nothing are passed over.
INSERT INTO agent(board, name, posts, first_seen, last_seen)
SELECT ?1, s.name, 0, s.at, s.at
FROM (SELECT json_extract(value, '$[0]') AS name, json_extract(value, '$[1]') AS at FROM json_each(?2)) s
WHERE EXISTS (SELECT 1 FROM agent a WHERE a.board = ?1 AND a.name = s.name)
   OR EXISTS (SELECT 1 FROM obligation o WHERE o.board = ?1 AND o.agent = s.name AND o.state = 'outstanding')
ON CONFLICT DO UPDATE SET last_seen = max(last_seen, excluded.last_seen);

-- name: items_read
-- Items were read (a JSON list of [number, times, instant]). The order of the join is forced: the list first.
INSERT INTO item_use(board, number, reads, last_read)
SELECT ?1, i.number, json_extract(r.value, '$[1]'), json_extract(r.value, '$[2]')
FROM json_each(?2) r CROSS JOIN item i ON i.board = ?1 AND i.number = json_extract(r.value, '$[0]')
WHERE true
ON CONFLICT DO UPDATE SET reads = reads + excluded.reads, last_read = max(last_read, excluded.last_read);

-- name: agents
-- Agents of a board by name.
SELECT name, posts, first_seen, last_seen FROM agent WHERE board = ?1 ORDER BY name;

-- name: subscription_add
-- A new subscription.
INSERT INTO subscription(board, id, agent, name, filter, cursor, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: subscriptions
-- An agent's subscriptions, oldest first.
SELECT id, agent, name, filter, cursor, created_at FROM subscription
WHERE board = ?1 AND agent = ?2 ORDER BY created_at, id;

-- name: subscription
-- One subscription of an agent.
SELECT id, agent, name, filter, cursor, created_at FROM subscription
WHERE board = ?1 AND agent = ?2 AND (id = ?3 OR (name = ?3 AND name <> '')) ORDER BY id = ?3 DESC LIMIT 1;

-- name: subscription_drop
-- End a subscription.
DELETE FROM subscription WHERE board = ?1 AND agent = ?2 AND id = ?3;

-- name: subscription_cursor
-- Move a cursor.
UPDATE subscription SET cursor = ?4 WHERE board = ?1 AND agent = ?2 AND id = ?3;

-- name: idempotency_get
-- What a mutation answered the first time.
SELECT digest, answer FROM idempotency WHERE board = ?1 AND agent = ?2 AND key = ?3;

-- name: idempotency_put
-- Remember what a mutation answered.
INSERT INTO idempotency(board, agent, key, digest, answer, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: outbox_add
-- The index has something to learn.
INSERT INTO outbox(board, number) VALUES (?1, ?2);

-- name: outbox_oldest
-- The oldest outbox rows with the present state of their items.
SELECT o.id, b.id, i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at, i.text, i.zone
FROM (SELECT id, board, number FROM outbox ORDER BY id LIMIT ?1) o
JOIN board b ON b.no = o.board JOIN item i ON i.board = o.board AND i.number = o.number
ORDER BY o.id;

-- name: outbox_of_board
-- Archived items of a board that wait to be indexed, newest first, and that an agent may see.
SELECT DISTINCT i.number, i.text FROM outbox o JOIN item i ON i.board = o.board AND i.number = o.number
WHERE o.board = ?1 AND i.zone = 'archive' AND i.owner IN ('', ?2) ORDER BY i.number DESC LIMIT ?3;

-- name: outbox_done
-- The index has learnt these rows (a JSON list of ids).
DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?1));

-- name: outbox_empty
-- Whether nothing waits for the index.
SELECT NOT EXISTS (SELECT 1 FROM outbox);

-- name: archived_keys
-- Every archived item with its sequence.
SELECT b.id, i.number, i.seq FROM item i JOIN board b ON b.no = i.board WHERE i.zone = 'archive';

-- name: settled_keys
-- Every archived item that does not wait for the index, with its sequence.
SELECT b.id, i.number, i.seq FROM item i JOIN board b ON b.no = i.board
WHERE i.zone = 'archive'
  AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.board = i.board AND o.number = i.number);

-- name: outbox_items
-- What waits for the index.
SELECT DISTINCT b.id, o.number FROM outbox o JOIN board b ON b.no = o.board LIMIT ?1;

-- name: settled_sums
-- By board, sums over every archived item that does not wait for the index.
SELECT b.id, s.items, s.numbers, s.seqs, s.mixed
FROM (SELECT i.board AS board, count(*) AS items, sum(i.number) AS numbers, sum(i.seq) AS seqs,
             sum((i.number % ?1) * (i.seq % ?1) % ?2) AS mixed
      FROM item i WHERE i.zone = 'archive'
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.board = i.board AND o.number = i.number)
      GROUP BY i.board) s
JOIN board b ON b.no = s.board;

-- name: items_around
-- For some items (a JSON list) the ones before and after each in its thread, of those an agent may see.
SELECT i.number,
       (SELECT n.number FROM item n WHERE n.board = ?1 AND n.thread = i.thread AND n.number < i.number
          AND n.owner IN ('', ?3) ORDER BY n.number DESC LIMIT 1),
       (SELECT n.number FROM item n WHERE n.board = ?1 AND n.thread = i.thread AND n.number > i.number
          AND n.owner IN ('', ?3) ORDER BY n.number LIMIT 1)
FROM item i
WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2)) AND i.owner IN ('', ?3);

-- name: waiting_of_board
-- The present state of what waits on a board for the index, newest first.
SELECT i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at, i.text, i.zone, i.owner
FROM (SELECT DISTINCT number FROM outbox WHERE board = ?1 ORDER BY number DESC LIMIT ?2) o
JOIN item i ON i.board = ?1 AND i.number = o.number
ORDER BY i.number DESC;

-- name: archived_page
-- Archived items after a place, by board and number.
SELECT i.board, b.id, i.number, i.seq, i.type, i.author, i.thread, i.tags, i.created_at, i.text
FROM item i JOIN board b ON b.no = i.board
WHERE i.zone = 'archive' AND (i.board, i.number) > (?1, ?2) ORDER BY i.board, i.number LIMIT ?3;

-- name: lease_take
-- Take or renew a lease.
INSERT INTO lease(name, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= ?4
RETURNING holder;

-- name: lease_release
-- Give a lease back.
DELETE FROM lease WHERE name = ?1 AND holder = ?2;

-- name: expiring
-- Expired items of working memory after a place, oldest expiry first.
SELECT b.id, i.number, i.expires_at, i.board FROM item i JOIN board b ON b.no = i.board
WHERE i.expires_at <= ?1 AND i.expires_at IS NOT NULL AND i.zone = 'working'
  AND (i.expires_at, i.board, i.number) > (?3, ?4, ?5)
ORDER BY i.expires_at, i.board, i.number LIMIT ?2;

-- name: status_counts
-- How many items an agent may see by zone, type and status, with tokens.
SELECT zone, type, status, count(*), sum(tokens) FROM item WHERE board = ?1 AND owner IN ('', ?2)
GROUP BY zone, type, status ORDER BY zone, type, status;

-- name: waiting_for_index
-- How many items an agent may see that the index has yet to learn of.
SELECT count(*) FROM outbox o JOIN item i ON i.board = o.board AND i.number = o.number
WHERE o.board = ?1 AND i.owner IN ('', ?2);

-- name: tags_of_board
-- Tags in use in working memory, most used first.
SELECT t.value, count(*) FROM item i, json_each(i.tags) t
WHERE i.board = ?1 AND i.zone = 'working' AND i.owner IN ('', ?2) GROUP BY t.value ORDER BY count(*) DESC, t.value LIMIT 100;

-- name: pass_of_item
-- The event by which an item last left working memory.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND item = ?2
  AND event IN ('item.archived', 'item.expired', 'item.superseded') ORDER BY seq DESC LIMIT 1;

-- name: debates_of_critiques
-- Debates by critique, for some critiques (a JSON list), oldest first.
SELECT c.critique, d.state FROM debate_critique c JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2)) ORDER BY d.id;

-- name: items_any
-- Items by number (a JSON list), whoever may see them: for the server's own work.
SELECT board, number, type, key, version, status, zone, importance, author, owner, text, tags, metadata,
       tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: types
-- The types of some items (a JSON list) that an agent may see.
SELECT number, type FROM item
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND owner IN ('', ?3);

-- name: finding_add
-- What a finding says, so that it is recognised when it is said again.
INSERT INTO finding(board, fingerprint, number) VALUES (?1, ?2, ?3);

-- name: findings_page
-- Items of some types (a JSON list) that everybody sees and that have no key, after a place.
SELECT board, number, text FROM item
WHERE (board, number) > (?1, ?2) AND owner = '' AND key IS NULL AND type IN (SELECT value FROM json_each(?3))
ORDER BY board, number LIMIT ?4;

-- name: same_findings
-- Findings of one type that say the same, by others than an agent, and stand; oldest first.
SELECT f.number FROM finding f JOIN item i ON i.board = f.board AND i.number = f.number
WHERE f.board = ?1 AND f.fingerprint = ?2 AND i.type = ?3 AND i.author <> ?4
  AND i.status IN ('ACTIVE', 'DEBATED') AND (i.ttl IS NULL OR i.zone = 'archive')
  AND NOT EXISTS (SELECT 1 FROM edge e JOIN item a ON a.board = e.board AND a.number = e.source
                  WHERE e.board = f.board AND e.target = f.number AND e.kind = 'supersedes'
                    AND a.author = i.author AND a.owner = '')
ORDER BY f.number LIMIT 20;

-- name: endorsement_add
-- An agent says the same as an item; once.
INSERT INTO endorsement(board, item, agent, tags, metadata, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING RETURNING item;

-- name: endorsements
-- Who said the same as an item, and with what; oldest first.
SELECT agent, tags, metadata, at FROM endorsement WHERE board = ?1 AND item = ?2 ORDER BY at, agent LIMIT ?3;

-- name: stances
-- Who stands for and against some items (a JSON list), and whom each acts for, oldest first.
-- What is private, retracted or, against, resolved does not count; nor does a critique once its author
-- acknowledged the debate about it.
SELECT s.item, s.against, s.agent, COALESCE(p.owner, s.agent)
FROM (
    SELECT n.item, 0 AS against, n.agent, n.at
    FROM endorsement n WHERE n.board = ?1 AND n.item IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT e.target, e.kind <> 'supports', i.author, i.created_at
    FROM edge e CROSS JOIN item i ON i.board = e.board AND i.number = e.source
    WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2))
      AND e.kind IN ('supports', 'refutes', 'critiques')
      AND i.owner = '' AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
      AND (e.kind = 'supports' OR i.status <> 'RESOLVED')
      AND NOT EXISTS (SELECT 1 FROM edge r JOIN item a ON a.board = r.board AND a.number = r.source
                      WHERE r.board = e.board AND r.target = e.source AND r.kind = 'supersedes'
                        AND a.author = i.author AND a.owner = '')
      AND NOT (e.kind = 'critiques' AND EXISTS (
          SELECT 1 FROM debate_critique c CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
          CROSS JOIN obligation o ON o.board = d.board AND o.agent = i.author AND o.item = d.root
            AND o.duty = 'acknowledge' AND o.debate = d.id
          WHERE c.board = e.board AND c.critique = e.source AND d.outcome <> 'rejected'
            AND o.state = 'acknowledged'
            AND (d.root = e.target OR EXISTS (
                SELECT 1 FROM debate_critique t
                WHERE t.board = d.board AND t.debate = d.id AND t.critique = e.target))))
) s LEFT JOIN principal p ON p.agent = s.agent
ORDER BY s.item, s.at, s.agent;

-- name: successors
-- By what the authors of some items (a JSON list) superseded them: the first item of each.
SELECT e.target, min(e.source) FROM edge e
JOIN item i ON i.board = e.board AND i.number = e.target
JOIN item a ON a.board = e.board AND a.number = e.source
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind = 'supersedes'
  AND a.author = i.author AND a.owner = '' GROUP BY e.target;

-- name: superseding
-- What supersedes an item, whoever says so.
SELECT source FROM edge WHERE board = ?1 AND target = ?2 AND kind = 'supersedes';

-- name: superseded_by
-- What an item supersedes.
SELECT target FROM edge WHERE board = ?1 AND source = ?2 AND kind = 'supersedes';

-- name: citing
-- What rests on an item, by number after ?3, with the closest way it does: 1 depends_on, 2 derived_from,
-- and, where ?5 is set, 3 analyzed_by, which leads from what was analysed to the analysis, 4 supports.
SELECT number, min(way) FROM (
    SELECT * FROM (SELECT source AS number, 1 AS way FROM edge
        WHERE board = ?1 AND target = ?2 AND kind = 'depends_on' AND source > ?3 ORDER BY source LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT source, 2 FROM edge
        WHERE board = ?1 AND target = ?2 AND kind = 'derived_from' AND source > ?3 ORDER BY source LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT target, 3 FROM edge
        WHERE ?5 AND board = ?1 AND source = ?2 AND kind = 'analyzed_by' AND target > ?3
        ORDER BY target LIMIT ?4)
    UNION ALL
    SELECT * FROM (SELECT source, 4 FROM edge
        WHERE ?5 AND board = ?1 AND target = ?2 AND kind = 'supports' AND source > ?3 ORDER BY source LIMIT ?4)
) GROUP BY number ORDER BY number LIMIT ?4;

-- name: items_brief
-- Items by number (a JSON list) without their texts, whoever may see them: for the server's own work.
SELECT board, number, type, key, version, status, zone, importance, author, owner, '', tags, '{}',
       tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by
FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2));

-- name: watchers_of
-- Who watches some items (a JSON list) or acknowledged them. The order of the join is forced: by item.
SELECT DISTINCT o.item, o.agent FROM json_each(?2) w CROSS JOIN obligation o
WHERE o.board = ?1 AND o.item = w.value AND o.duty = 'acknowledge'
  AND o.state IN ('outstanding', 'acknowledged') ORDER BY o.item, o.agent;

-- name: retraction_add
-- An item rests on something that was retracted.
INSERT INTO retraction(board, item, source, kind, via, status, successor, seq)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: retraction_closer
-- An item that was told to support something retracted rests on it as well.
UPDATE retraction SET kind = ?4, via = ?5 WHERE board = ?1 AND item = ?2 AND source = ?3;

-- name: retractions_passed_on
-- What rests on some items (a JSON list) is taken to rest on as well, oldest first.
SELECT item, source, status, successor FROM retraction
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND kind <> 'supports'
ORDER BY seq, source LIMIT ?3;

-- name: retractions_known
-- What one item is known to rest on, and how.
SELECT source, kind FROM retraction WHERE board = ?1 AND item = ?2;

-- name: retractions_clear
-- A new version of an entry rests on nothing yet.
DELETE FROM retraction WHERE board = ?1 AND item = ?2;

-- name: retractions
-- Retraction notices of some items (a JSON list), oldest first.
SELECT r.item, s.type, r.source, r.status, r.kind, v.type, r.via, n.type, r.successor
FROM retraction r
JOIN item s ON s.board = r.board AND s.number = r.source
JOIN item v ON v.board = r.board AND v.number = r.via
LEFT JOIN item n ON n.board = r.board AND n.number = r.successor
WHERE r.board = ?1 AND r.item IN (SELECT value FROM json_each(?2)) ORDER BY r.item, r.seq, r.source;

-- name: spreading_add
-- What rests on an item is yet to be told of a retraction.
INSERT INTO spreading(board, source, item, after, status, successor, agent) VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET after = 0, status = excluded.status, successor = excluded.successor,
                          agent = excluded.agent;

-- name: spreading_next
-- An item of a board whose dependants are yet to be told; of one retraction where ?2 names it.
SELECT source, item, after, status, successor, agent FROM spreading
WHERE board = ?1 AND (?2 = 0 OR source = ?2) ORDER BY source, item LIMIT 1;

-- name: spreading_moved
-- They were told up to a number.
UPDATE spreading SET after = ?4 WHERE board = ?1 AND source = ?2 AND item = ?3;

-- name: spreading_done
-- They were all told.
DELETE FROM spreading WHERE board = ?1 AND source = ?2 AND item = ?3;

-- name: spreading_boards
-- Boards with somebody yet to be told of a retraction.
SELECT id FROM board WHERE no IN (SELECT DISTINCT board FROM spreading) ORDER BY id;

-- name: summary_requests
-- Open requests for summaries of a board, oldest first, and whether the thread moved since.
SELECT r.thread, r.item, r.seen, r.seq, r.opened_at, r.due_at, r.holder, r.held_until, r.lease,
       EXISTS (SELECT 1 FROM item i
               WHERE i.board = r.board AND i.thread = r.thread AND i.owner = '' AND i.seq > r.seq)
FROM summary_request r WHERE r.board = ?1 ORDER BY r.opened_at, r.thread;

-- name: summaries_due
-- Requests of all boards that nobody met in time, or whose thread moved.
SELECT * FROM (
    SELECT b.id, r.thread, r.seen,
           EXISTS (SELECT 1 FROM item i
                   WHERE i.board = r.board AND i.thread = r.thread AND i.owner = '' AND i.seq > r.seq) AS moved,
           r.due_at, r.held_until
    FROM summary_request r JOIN board b ON b.no = r.board
) WHERE moved OR (due_at <= ?1 AND (held_until IS NULL OR held_until <= ?1));

-- name: summary_request_add
-- A new request.
INSERT INTO summary_request(board, thread, item, seen, seq, opened_at, due_at, holder, held_until, lease)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL, 0);

-- name: summary_request_take
-- Somebody takes it, or takes it again.
UPDATE summary_request SET holder = ?3, held_until = ?4, lease = ?5 WHERE board = ?1 AND thread = ?2;

-- name: summary_request_drop
-- It is met, or void.
DELETE FROM summary_request WHERE board = ?1 AND thread = ?2;
