-- What leaves working memory and in what order; pressure; requests for summaries. Values are bound by position: ?1, ?2, …

-- name: board_pressure
-- The hot issue of a board's pressure, or 0 when it ended.
UPDATE board SET pressure = ?2 WHERE no = ?1;

-- name: pressure_causes
-- The public items that may not leave, apart from one (?2), by cause: the debate that reached the item, else the law
-- it is, else what somebody owes, else its importance. With the root of the debate; most tokens first.
SELECT why, root, type, count(*), sum(tokens) FROM (
    SELECT i.tokens,
           CASE WHEN d.id IS NOT NULL THEN 'debate'
                WHEN i.type IN ('CONSTRAINT', 'HOT_ISSUE') AND i.status IN ('ACTIVE', 'DEBATED') THEN i.type
                ELSE p.why END AS why,
           d.root AS root, r.type AS type
    FROM (SELECT number, max(why) AS why FROM (
              SELECT number, 'owed' AS why FROM protected WHERE board = ?1
              UNION ALL SELECT number, 'important' FROM exempt WHERE board = ?1) GROUP BY number) p
    CROSS JOIN item i ON i.board = ?1 AND i.number = p.number AND i.zone = 'working' AND PUBLIC(i.owner)
    LEFT JOIN held h ON h.board = ?1 AND h.number = i.number
    LEFT JOIN debate d ON d.board = ?1 AND d.id = h.debate
    LEFT JOIN item r ON r.board = ?1 AND r.number = d.root
    WHERE i.number <> ?2
) GROUP BY why, root, type ORDER BY sum(tokens) DESC, root NULLS FIRST;

-- name: pressure_owing
-- Obligations on public items of working memory, with agents, longest waiting first. A request that nobody has to
-- answer by name is its asker's to take back.
SELECT o.agent AS agent, o.duty, o.item AS item, i.type, o.since AS since
FROM obligation o INDEXED BY obligation_outstanding
CROSS JOIN item i ON i.board = o.board AND i.number = o.item AND i.zone = 'working' AND PUBLIC(i.owner)
WHERE o.board = ?1 AND o.state = 'outstanding' AND o.item <> ?2 AND o.agent <> ?3
UNION ALL
SELECT CASE WHEN holder <> '' THEN holder WHEN agent <> '' THEN agent ELSE asker END,
       CASE WHEN holder <> '' OR agent <> '' THEN 'answer' ELSE 'cancel' END, number, 'QUESTION', opened_at
FROM request INDEXED BY request_for WHERE board = ?1 AND live = 1
ORDER BY since, item, agent LIMIT ?4;

-- name: pressure_law
-- Active constraints and open hot issues that everybody sees, longest text first, and who wrote them.
SELECT author, number, type FROM item
WHERE board = ?1 AND zone = 'working' AND type IN ('CONSTRAINT', 'HOT_ISSUE') AND status IN ('ACTIVE', 'DEBATED')
  AND PUBLIC(owner) AND number <> ?2 AND author <> ?3
ORDER BY tokens DESC, number LIMIT ?4;

-- name: pressure_important
-- The public items that importance alone keeps from leaving, longest text first, with their authors.
SELECT i.author, i.number, i.type FROM exempt e CROSS JOIN item i ON i.board = e.board AND i.number = e.number
WHERE e.board = ?1 AND PUBLIC(i.owner)
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY i.tokens DESC, i.number LIMIT ?2;

-- name: touched_since
-- Those of the items of a list (JSON) that an event after a sequence is about, or that an item cites which one is about.
-- That an item left says nothing of what it cites.
SELECT CAST(w.value AS INTEGER) FROM json_each(?3) w
WHERE EXISTS (SELECT 1 FROM event e WHERE e.board = ?1 AND e.item = w.value AND e.seq > ?2)
   OR EXISTS (
       SELECT 1 FROM edge t CROSS JOIN event e ON e.board = t.board AND e.item = t.source
       WHERE t.board = ?1 AND t.target = w.value AND e.seq > ?2 AND e.event NOT IN ('item.archived', 'item.expired'));

-- name: working_among
-- The items of a list (JSON) that are in working memory, as a pass sees them.
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
FROM item i LEFT JOIN item_use u ON u.board = i.board AND u.number = i.number
WHERE i.board = ?1 AND i.number IN (SELECT value FROM json_each(?2)) AND i.zone = 'working';

-- name: going_expired
-- The items that step 1 takes at any level: the expired, without the protected.
SELECT number FROM item i WHERE board = ?1 AND expires_at IS NOT NULL AND expires_at <= ?2 AND zone = 'working'
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number);

-- name: going_done
-- The other items that step 1 takes, after a place (seq, number), in order: the finished and the superseded; claims
-- that fell (?5: 1), or the others (0). Without some items (?6, a JSON list).
SELECT number, tokens, seq FROM item i
WHERE board = ?1 AND zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
  AND (seq, number) > (?2, ?3) AND (status = 'INVALIDATED') = ?5
  AND number NOT IN (SELECT value FROM json_each(?6))
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY seq, number LIMIT ?4;

-- name: going_logs
-- The items that step 2 takes, after a place, in order: logs that have been analysed. Without some items (?5, a JSON
-- list).
SELECT number, tokens, seq FROM item i
WHERE board = ?1 AND zone = 'working' AND type = 'LOG' AND analysed = 1 AND (seq, number) > (?2, ?3)
  AND number NOT IN (SELECT value FROM json_each(?5))
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY seq, number LIMIT ?4;

-- name: going_threads
-- Threads after a thread that something settles and that have more than ?3 items which all may see.
SELECT DISTINCT thread FROM item i INDEXED BY item_settles
WHERE board = ?1 AND zone = 'working' AND PUBLIC(owner)
  AND (debated = 1 OR status = 'RESOLVED' OR (type IN ('DECISION', 'ANSWER') AND number <> thread))
  AND thread > ?2
  AND (SELECT count(*) FROM (
      SELECT 1 FROM item m WHERE m.board = ?1 AND m.thread = i.thread AND m.zone = 'working' AND PUBLIC(m.owner)
        AND m.type <> 'CONSTRAINT' LIMIT ?3 + 1)) > ?3
ORDER BY thread LIMIT ?4;

-- name: ahead_large
-- The items and tokens that are too large to stay (up to the importance ?2, more tokens than ?3), as far as an agent
-- may know of them, of what steps 1 (?5) and 2 (?6) leave.
SELECT count(*), coalesce(sum(tokens), 0) FROM item i
WHERE board = ?1 AND zone = 'working' AND importance <= ?2 AND tokens > ?3
  AND VISIBLE(owner, ?4)
  AND (?5 = 0 OR NOT (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED')))
  AND (?6 = 0 OR NOT (type = 'LOG' AND analysed = 1))
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number);

-- name: ahead_done
-- The items and tokens that step 1 takes before a place (seq, number), as far as an agent may know of them, counted
-- to ?4 items.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
      AND (seq, number) < (?2, ?3)
      AND VISIBLE(owner, ?5)
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
    LIMIT ?4);

-- name: ahead_logs
-- The items and tokens that step 2 takes before a place, of what step 1 leaves.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND type = 'LOG' AND analysed = 1 AND (seq, number) < (?2, ?3)
      AND VISIBLE(owner, ?5)
      AND NOT (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED'))
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
    LIMIT ?4);

-- name: ahead_least
-- The items and tokens that step 4 takes before a place (above the ceiling ?2, fresh, importance, seq, number: ?3 to
-- ?7), of what steps 1 and 2 leave, up to the importance ?14 and ?15 tokens, unless something makes them leave later.
-- Fresh is an item changed at ?8 or later, or used since ?9.
SELECT count(*), coalesce(sum(tokens), 0) FROM (
    SELECT tokens FROM item i
    WHERE board = ?1 AND zone = 'working' AND importance <= ?14 AND tokens <= ?15
      AND (CASE WHEN importance > ?2 THEN 1 ELSE 0 END,
           CASE WHEN seq >= ?8
           OR EXISTS (SELECT 1 FROM item_use u WHERE u.board = i.board AND u.number = i.number AND u.last_read >= ?9)
           OR coalesce((SELECT c.at FROM cited c WHERE c.board = i.board AND c.number = i.number) >= ?9, false)
           THEN 1 ELSE 0 END,
           importance, seq, number) < (?3, ?4, ?5, ?6, ?7)
      AND VISIBLE(owner, ?13)
      AND (?11 = 0 OR NOT (superseded = 1 OR status IN ('RESOLVED', 'WITHDRAWN', 'INVALIDATED')))
      AND (?12 = 0 OR NOT (type = 'LOG' AND analysed = 1))
      AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
      AND NOT EXISTS (SELECT 1 FROM open_work o WHERE o.board = i.board AND o.number = i.number)
      AND NOT EXISTS (SELECT 1 FROM bearing b WHERE b.board = i.board AND b.number = i.number)
    LIMIT ?10);

-- name: going_band
-- All that step 4 may take, up to an importance, but for some items (a JSON list).
SELECT number FROM item i
WHERE board = ?1 AND zone = 'working' AND importance <= ?2 AND number NOT IN (SELECT value FROM json_each(?3))
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number);

-- name: going_least
-- The items that step 4 takes of one importance (?2), after a place (seq, number) and before the sequence ?5, in
-- order: fresh ones (?6: 1) or others (0). Fresh is an item changed at the sequence ?7 or later, or read or cited
-- since ?8. Without some items (?9, a JSON list). With the author, and whether something makes the item leave later.
SELECT number, tokens, seq, author,
       EXISTS (SELECT 1 FROM open_work o WHERE o.board = i.board AND o.number = i.number),
       EXISTS (SELECT 1 FROM bearing b WHERE b.board = i.board AND b.number = i.number)
FROM item i INDEXED BY item_working
WHERE board = ?1 AND zone = 'working' AND importance = ?2 AND (seq, number) > (?3, ?4) AND seq < ?5
  AND (seq >= ?7
       OR EXISTS (SELECT 1 FROM item_use u WHERE u.board = i.board AND u.number = i.number AND u.last_read >= ?8)
       OR coalesce((SELECT c.at FROM cited c WHERE c.board = i.board AND c.number = i.number) >= ?8, false)) = ?6
  AND number NOT IN (SELECT value FROM json_each(?9))
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
ORDER BY seq, number LIMIT ?10;

-- name: going_plain
-- The first of them by an agent (?10) that nothing makes leave later.
SELECT number, seq FROM item i INDEXED BY item_turn
WHERE board = ?1 AND zone = 'working' AND importance = ?2 AND (seq, number) > (?3, ?4) AND seq < ?5
  AND (seq >= ?7
       OR EXISTS (SELECT 1 FROM item_use u WHERE u.board = i.board AND u.number = i.number AND u.last_read >= ?8)
       OR coalesce((SELECT c.at FROM cited c WHERE c.board = i.board AND c.number = i.number) >= ?8, false)) = ?6
  AND number NOT IN (SELECT value FROM json_each(?9)) AND author = ?10
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
  AND NOT EXISTS (SELECT 1 FROM open_work o WHERE o.board = i.board AND o.number = i.number)
  AND NOT EXISTS (SELECT 1 FROM bearing b WHERE b.board = i.board AND b.number = i.number)
ORDER BY seq, number LIMIT 1;

-- name: event_since
-- The sequence from which on all events are at or after a time (?2), among those up to ?3: a binary search by steps, of
-- which the first (?4) is the highest power of two that is not above ?3.
WITH RECURSIVE search(before, step) AS (
    SELECT CAST(0 AS BIGINT), CAST(?4 AS BIGINT)
    UNION ALL
    SELECT before + CASE WHEN before + step <= ?3 AND (
            SELECT at FROM event WHERE board = ?1 AND seq >= before + step ORDER BY seq LIMIT 1
        ) < ?2 THEN step ELSE 0 END, step / 2
    FROM search WHERE step > 0
)
SELECT before + 1 FROM search WHERE step = 0;

-- name: event_of_agents
-- The newest event of an agent that so many (?3) of agents came after, if it came after a sequence (?4); ?2 is the
-- server.
SELECT seq FROM event WHERE board = ?1 AND seq > ?4 AND agent <> ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3;

-- name: restored_since
-- The items of working memory that came back from the archive after a sequence (?2) and an instant: public ones, then
-- the rest, the newest first.
SELECT v.item, i.tokens, HIDDEN(i.owner), max(v.seq) FROM event v CROSS JOIN item i ON i.board = v.board AND i.number = v.item
WHERE v.board = ?1 AND v.seq > ?2 AND v.at > ?3 AND v.event = 'item.restored' AND i.zone = 'working'
GROUP BY v.item, i.tokens, i.owner ORDER BY 3, max(v.seq) DESC;

-- name: grounds_of_debates
-- The items that members of open debates cite (`derived_from`) and nothing else keeps, and those that critiques and
-- answers cite in debates settled after a sequence (?2) and an instant. Public items come first, then those of open
-- debates (0) before settled ones (1), then the most important. Hidden items cite nothing for others.
WITH settled(critique) AS (
    SELECT k.critique FROM event v
    CROSS JOIN debate d INDEXED BY debate_root ON d.board = v.board AND d.root = v.item AND d.state IN ('CONSENSUS', 'DECIDED')
    CROSS JOIN debate_critique k ON k.board = d.board AND k.debate = d.id
    WHERE v.board = ?1 AND v.seq > ?2 AND v.at > ?3 AND v.event = 'debate.closed'
), citing(source, settled) AS (
    SELECT h.number, 0 FROM held h CROSS JOIN item s ON s.board = h.board AND s.number = h.number
    WHERE h.board = ?1 AND s.zone = 'working' AND s.status IN ('ACTIVE', 'DEBATED')
    UNION ALL SELECT critique, 1 FROM settled
    UNION ALL SELECT e.source, 1 FROM settled
    CROSS JOIN edge e ON e.board = ?1 AND e.target = settled.critique AND e.kind = 'replies_to'
)
SELECT i.number, i.tokens, min(c.settled) FROM citing c
CROSS JOIN item s ON s.board = ?1 AND s.number = c.source AND s.status <> 'WITHDRAWN'
CROSS JOIN edge e ON e.board = ?1 AND e.source = c.source AND e.kind = 'derived_from'
CROSS JOIN item i ON i.board = e.board AND i.number = e.target AND i.zone = 'working'
WHERE i.status IN ('ACTIVE', 'DEBATED')
  AND NOT (i.status = 'ACTIVE' AND i.importance >= 5) AND SHARED(s.owner, i.owner)
  AND NOT EXISTS (SELECT 1 FROM protected p WHERE p.board = i.board AND p.number = i.number)
GROUP BY i.number, i.tokens, i.owner, i.importance ORDER BY HIDDEN(i.owner), 3, i.importance DESC, i.number;

-- name: authors_depending
-- The authors of live items that depend on an item.
SELECT DISTINCT x.author FROM edge e INDEXED BY edge_target
CROSS JOIN item x ON x.board = e.board AND x.number = e.source
CROSS JOIN item i ON i.board = e.board AND i.number = e.target
WHERE e.board = ?1 AND e.target = ?2 AND e.kind = 'depends_on' AND x.zone = 'working' AND x.status = 'ACTIVE'
  AND SHARED(x.owner, i.owner)
ORDER BY x.author LIMIT 50;

-- name: items_analysed
-- An `analyzed_by` edge joins two items: whoever sees one sees the other.
UPDATE item SET analysed = 1 WHERE board = ?1 AND number IN (?2, ?3) AND EXISTS (
    SELECT 1 FROM item o WHERE o.board = ?1 AND o.number IN (?2, ?3)
      AND o.number <> item.number AND SHARED(o.owner, item.owner));

-- name: expiring
-- Expired items of working memory after a place, oldest expiry first.
SELECT b.id, i.number, i.expires_at, i.board FROM item i JOIN board b ON b.no = i.board
WHERE i.expires_at <= ?1 AND i.expires_at IS NOT NULL AND i.zone = 'working'
  AND (i.expires_at, i.board, i.number) > (?3, ?4, ?5)
ORDER BY i.expires_at, i.board, i.number LIMIT ?2;

-- name: next_expiry
-- The first instant after ?1 at which an item of working memory expires.
SELECT expires_at FROM item WHERE expires_at > ?1 AND expires_at IS NOT NULL AND zone = 'working'
ORDER BY expires_at LIMIT 1;

-- name: summary_requests
-- Open requests for summaries of a board, oldest first, and whether the thread moved since.
SELECT r.thread, r.item, r.seen, r.seq, r.opened_at, r.due_at, r.holder, r.held_until, r.lease,
       EXISTS (SELECT 1 FROM item i
               WHERE i.board = r.board AND i.thread = r.thread AND PUBLIC(i.owner) AND i.seq > r.seq)
FROM summary_request r WHERE r.board = ?1 ORDER BY r.opened_at, r.thread;

-- name: summaries_asked
-- Whether agents are asked for summaries of threads of a board.
SELECT 1 FROM summary_request WHERE board = ?1 LIMIT 1;

-- name: summaries_due
-- Requests of all boards that nobody met in time, or whose thread moved.
SELECT * FROM (
    SELECT b.id, r.thread, r.seen,
           EXISTS (SELECT 1 FROM item i
                   WHERE i.board = r.board AND i.thread = r.thread AND PUBLIC(i.owner) AND i.seq > r.seq) AS moved,
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

-- name: shares
-- The tokens of working memory that each agent has posted.
SELECT author, tokens FROM share WHERE board = ?1;
