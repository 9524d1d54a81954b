-- A board as lines of history, and back. Values are bound by position: ?1, ?2, …

-- name: history_events
-- The log after ?2 up to ?3, for ?4 = 1 what everybody sees; each with the version of the item's former event (none:
-- its first), whether the item has a later one, and whether those concerned were told of it by another event.
SELECT e.seq, e.event, e.at, e.agent, e.item, e.type, e.key, e.version, e.thread, e.owner, e.tags, e.data, e.concerns,
       (SELECT f.version FROM event f INDEXED BY event_item WHERE f.board = e.board AND f.item = e.item AND f.seq < e.seq
        ORDER BY f.seq DESC LIMIT 1),
       EXISTS (SELECT 1 FROM event f WHERE f.board = e.board AND f.item = e.item AND f.seq > e.seq),
       e.item IS NOT NULL AND e.concerns <> '[]' AND NOT EXISTS (
           SELECT 1 FROM concern c
           WHERE c.board = e.board AND c.agent = json_extract(e.concerns, '$[0]') AND c.seq = e.seq)
FROM event e WHERE e.board = ?1 AND e.seq > ?2 AND e.seq <= ?3 AND (?4 = 0 OR PUBLIC(e.owner)) ORDER BY e.seq LIMIT ?5;

-- name: history_last_public
-- The last event that everybody sees.
SELECT max(seq) FROM event WHERE board = ?1 AND PUBLIC(owner);

-- name: history_edges
-- Edges between the items that a JSON list names and items before them; for ?3 = 1 those that everybody sees.
SELECT e.source, e.kind, e.target
FROM (SELECT source, kind, target FROM edge
      WHERE board = ?1 AND source IN (SELECT value FROM json_each(?2)) AND target < source
      UNION ALL
      SELECT source, kind, target FROM edge INDEXED BY edge_target
      WHERE board = ?1 AND target IN (SELECT value FROM json_each(?2)) AND source < target) e
WHERE ?3 = 0 OR NOT EXISTS (
    SELECT 1 FROM item i WHERE i.board = ?1 AND i.number IN (e.source, e.target) AND HIDDEN(i.owner));

-- name: history_private
-- The items of a list (JSON) that not everybody sees.
SELECT number FROM item WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND HIDDEN(owner);

-- name: history_owners
-- The owners that the agents of a board act for.
SELECT agent, owner FROM principal
WHERE agent IN (SELECT name FROM agent WHERE board = ?1 UNION SELECT agent FROM obligation WHERE board = ?1
                UNION SELECT agent FROM vote WHERE board = ?1 UNION SELECT agent FROM decision WHERE board = ?1)
ORDER BY agent;

-- name: history_event_index
-- On a copy: the events of an agent at an instant.
CREATE INDEX history_event ON event(board, agent, at);

-- name: history_once_index
-- On a copy: what an agent did once, by instant.
CREATE INDEX history_once ON idempotency(board, agent, at);

-- name: history_once_figures
-- On a copy: how many that are.
ANALYZE idempotency;

-- name: history_board_add
-- A board that is being read in; ?2 becomes its number.
INSERT INTO board(id, no, title, parent, lifecycle, config, core, seq, last_number, created_at,
                  working_items, working_tokens, archived_items)
VALUES (?1, ?2, '', NULL, 'open', '{}', '{}', 0, 0, 0, 0, 0, 0);

-- name: history_item
-- An item as far as it was read in; last whether a line said how it stands.
SELECT type, key, owner, thread, version, author <> '' FROM item WHERE board = ?1 AND number = ?2;

-- name: history_edge_add
-- An edge that was read in; nothing when it is there.
INSERT INTO edge(board, source, kind, target) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING RETURNING 1;

-- name: history_unfinished
-- An item whose last state the lines do not say.
SELECT number FROM item WHERE board = ?1 AND author = '' ORDER BY number LIMIT 1;

-- name: history_debateless
-- A vote, a decision, a critique or a duty in a debate that there is not.
SELECT x.what, x.debate
FROM (SELECT 'vote' AS what, debate FROM vote WHERE board = ?1
      UNION ALL SELECT 'debate_critique', debate FROM debate_critique WHERE board = ?1
      UNION ALL SELECT 'decision', debate FROM decision WHERE board = ?1
      UNION ALL SELECT 'obligation', debate FROM obligation WHERE board = ?1 AND debate <> 0) x
WHERE NOT EXISTS (SELECT 1 FROM debate d WHERE d.board = ?1 AND d.id = x.debate) LIMIT 1;

-- name: history_unfit
-- A row that the items and the log (up to ?2) deny: a request about no question, live in a state that is an end or
-- the other way round, or with an answer that is not there; a group that is ahead of the log; what was handed out
-- and is no event that everybody sees, or one that the group has yet to come to; an answer to a critique that is no
-- item that everybody sees; a claim that was agreed to and that no item makes; who decides noted of what is no decision;
-- a content that was forgotten, and no event says so, or the item is live.
SELECT 'request', r.number FROM request r WHERE r.board = ?1 AND (
    r.live <> (r.state IN ('OPEN', 'TAKEN'))
    OR NOT EXISTS (SELECT 1 FROM item i
                   WHERE i.board = ?1 AND i.number = r.number AND i.type = 'QUESTION' AND PUBLIC(i.owner))
    OR r.partial <> 0 AND NOT EXISTS (SELECT 1 FROM item i
                                      WHERE i.board = ?1 AND i.number = r.partial AND PUBLIC(i.owner))
    OR r.answer <> 0 AND NOT EXISTS (SELECT 1 FROM item i
                                     WHERE i.board = ?1 AND i.number = r.answer AND PUBLIC(i.owner))
    OR (r.state = 'ANSWERED') <> (r.answer <> 0))
UNION ALL
SELECT 'consumer_group', g.cursor FROM consumer_group g WHERE g.board = ?1 AND g.cursor > ?2
UNION ALL
SELECT 'delivery', d.seq FROM delivery d JOIN consumer_group g ON g.board = d.board AND g.name = d.consumers
WHERE d.board = ?1 AND (d.seq > g.cursor OR NOT EXISTS (
    SELECT 1 FROM event e WHERE e.board = ?1 AND e.seq = d.seq AND PUBLIC(e.owner)))
UNION ALL
SELECT 'debate', d.id FROM debate d WHERE d.board = ?1 AND d.gave_way_to <> 0
  AND NOT EXISTS (SELECT 1 FROM item i WHERE i.board = ?1 AND i.number = d.gave_way_to AND PUBLIC(i.owner))
UNION ALL
SELECT 'decision', d.debate FROM decision d WHERE d.board = ?1 AND d.gave_way_to <> 0
  AND NOT EXISTS (SELECT 1 FROM item i WHERE i.board = ?1 AND i.number = d.gave_way_to AND PUBLIC(i.owner))
UNION ALL
SELECT 'debate_critique', c.critique FROM debate_critique c WHERE c.board = ?1 AND c.answer > 0
  AND NOT EXISTS (SELECT 1 FROM item i WHERE i.board = ?1 AND i.number = c.answer AND PUBLIC(i.owner))
UNION ALL
SELECT 'agreed_claim', a.target FROM agreed_claim a WHERE a.board = ?1
  AND NOT EXISTS (SELECT 1 FROM edge e JOIN item s ON s.board = e.board AND s.number = e.source AND PUBLIC(s.owner)
                  WHERE e.board = ?1 AND e.source = a.source AND e.kind = a.kind AND e.target = a.target)
UNION ALL
SELECT 'undecided', u.number FROM undecided u WHERE u.board = ?1
  AND NOT EXISTS (SELECT 1 FROM item i WHERE i.board = ?1 AND i.number = u.number AND i.type = 'DECISION')
UNION ALL
SELECT 'item', f.number
FROM (SELECT number, version, zone FROM item WHERE board = ?1 AND deleted = 2
      UNION ALL SELECT number, version, 'archive' FROM item_version WHERE board = ?1 AND deleted = 2) f
WHERE f.zone <> 'archive' OR NOT EXISTS (
    SELECT 1 FROM event e WHERE e.board = ?1 AND e.item = f.number AND e.event = 'item.forgotten'
      AND e.version >= f.version)
LIMIT 1;

-- name: history_let_go
-- An item that an open debate is about, that somebody owes something for or was asked for, and that is not in working memory.
SELECT i.number FROM item i
WHERE i.board = ?1 AND i.zone = 'archive'
  AND (i.number IN (SELECT root FROM debate WHERE board = ?1 AND state = 'OPEN')
       OR i.number IN (SELECT item FROM obligation WHERE board = ?1 AND state = 'outstanding')
       OR i.number IN (SELECT number FROM request WHERE board = ?1 AND live = 1)
       OR i.number IN (SELECT partial FROM request WHERE board = ?1 AND live = 1)) LIMIT 1;

-- name: history_superseded
-- Marks the items that are superseded, by their authors' word or agreement.
UPDATE item SET superseded = 1 WHERE board = ?1 AND EXISTS (
    SELECT 1 FROM edge e JOIN item s ON s.board = e.board AND s.number = e.source
    WHERE e.board = item.board AND e.target = item.number AND e.kind = 'supersedes'
      AND (s.author = item.author AND SHARED(s.owner, item.owner)
           OR EXISTS (SELECT 1 FROM agreed_claim a WHERE a.board = e.board AND a.source = e.source
                        AND a.kind = 'supersedes' AND a.target = e.target)));

-- name: history_analysed
-- Marks the items that an `analyzed_by` edge touches.
UPDATE item SET analysed = 1 WHERE board = ?1 AND (EXISTS (
    SELECT 1 FROM edge e JOIN item o ON o.board = e.board AND o.number = e.source
    WHERE e.board = item.board AND e.target = item.number AND e.kind = 'analyzed_by'
      AND SHARED(o.owner, item.owner))
  OR EXISTS (
    SELECT 1 FROM edge e JOIN item o ON o.board = e.board AND o.number = e.target
    WHERE e.board = item.board AND e.source = item.number AND e.kind = 'analyzed_by'
      AND SHARED(o.owner, item.owner)));

-- name: history_debated
-- Marks the items on which a debate was closed.
UPDATE item SET debated = 1
WHERE board = ?1 AND number IN (SELECT root FROM debate WHERE board = ?1 AND state <> 'OPEN');

-- name: history_outbox
-- The index has the whole archive to learn.
INSERT INTO outbox(board, number) SELECT board, number FROM item WHERE board = ?1 AND zone = 'archive' AND deleted = 0
ORDER BY number;

-- name: history_counters
-- The figures of a board, counted.
UPDATE board SET
    seq = ?2,
    working_items = (SELECT count(*) FROM item WHERE board = ?1 AND zone = 'working'),
    working_tokens = (SELECT coalesce(sum(tokens), 0) FROM item WHERE board = ?1 AND zone = 'working'),
    archived_items = (SELECT count(*) FROM item WHERE board = ?1 AND zone = 'archive' AND deleted < 2),
    private_items = (SELECT count(*) FROM item WHERE board = ?1 AND zone = 'working' AND HIDDEN(owner)),
    private_tokens = (SELECT coalesce(sum(tokens), 0) FROM item
                      WHERE board = ?1 AND zone = 'working' AND HIDDEN(owner))
WHERE no = ?1;

-- name: history_orphan
-- Without its parent where there is none of that name.
UPDATE board SET parent = NULL WHERE no = ?1 AND parent NOT IN (SELECT id FROM board) RETURNING 1;

-- name: history_strangers
-- The owners of agents that no board knows yet, from the file that is attached.
INSERT INTO principal(agent, owner) SELECT p.agent, p.owner FROM staged.principal p
WHERE NOT EXISTS (SELECT 1 FROM agent a WHERE a.name = p.agent) ON CONFLICT DO NOTHING;

-- name: history_contradicted
-- Agents of the attached file that act for somebody else here.
SELECT p.agent FROM staged.principal p LEFT JOIN principal o ON o.agent = p.agent
WHERE coalesce(o.owner, p.agent) <> p.owner ORDER BY p.agent LIMIT 20;

-- name: history_answers
-- In a file from before answers were kept: the newest reply of who owed the answer is it.
UPDATE debate_critique SET answer = coalesce((
    SELECT max(e.source) FROM edge e
    JOIN item i ON i.board = e.board AND i.number = e.source AND PUBLIC(i.owner)
    JOIN obligation o ON o.board = e.board AND o.item = e.target AND o.duty = 'respond'
        AND o.debate = debate_critique.debate AND o.agent = i.author AND o.state = 'acknowledged'
    WHERE e.board = debate_critique.board AND e.target = debate_critique.critique
      AND e.kind IN ('replies_to', 'critiques', 'supports', 'refutes')), -1)
WHERE board = ?1 AND answer = -1
  AND debate IN (SELECT id FROM debate WHERE board = ?1 AND state = 'OPEN');

-- name: history_owed_again
-- Where there was no such reply, the answer is owed again.
UPDATE obligation SET state = 'outstanding', reason = ''
WHERE board = ?1 AND duty = 'respond' AND state = 'acknowledged' AND EXISTS (
    SELECT 1 FROM debate_critique c
    JOIN debate d ON d.board = c.board AND d.id = c.debate AND d.state = 'OPEN'
    JOIN item i ON i.board = c.board AND i.number = c.critique AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
    WHERE c.board = ?1 AND c.debate = obligation.debate AND c.critique = obligation.item AND c.answer = -1);

-- name: history_watching
-- In such a file, acknowledgements fell due at once: they do when every critique has its answer.
UPDATE obligation SET state = 'watching'
WHERE board = ?1 AND duty = 'acknowledge' AND state = 'outstanding' AND EXISTS (
    SELECT 1 FROM debate d JOIN debate_critique c ON c.board = d.board AND c.debate = d.id AND c.answer = -1
    JOIN item i ON i.board = c.board AND i.number = c.critique AND i.status NOT IN ('WITHDRAWN', 'INVALIDATED')
    WHERE d.board = ?1 AND d.root = obligation.item AND d.state = 'OPEN' AND obligation.debate IN (0, d.id));

-- name: history_unanswered
-- Critiques of such a file without an answer.
UPDATE debate_critique SET answer = 0 WHERE board = ?1 AND answer = -1;

-- name: history_looks
-- Makes the authors of an imported board known there, whatever their names look like.
INSERT INTO look(board, name, look)
SELECT ?1, agent, '' FROM event WHERE board = ?1 AND agent <> ?2 GROUP BY agent
UNION SELECT ?1, name, '' FROM agent WHERE board = ?1;

-- name: history_outcomes
-- Writes the outcomes of closed debates in today's words.
UPDATE debate SET outcome = CASE
    WHEN state = 'OPEN' THEN ''
    WHEN outcome = 'accepted' THEN 'stands'
    WHEN outcome = 'rejected' THEN 'falls'
    WHEN state = 'WITHDRAWN' AND explicit = 0 THEN 'stands'
    ELSE 'open' END
WHERE board = ?1 AND (state = 'OPEN') <> (outcome = '')
   OR board = ?1 AND outcome NOT IN ('', 'stands', 'falls', 'amended', 'open');
