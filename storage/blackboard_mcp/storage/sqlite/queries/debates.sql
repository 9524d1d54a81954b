-- Debates, what is owed in them, votes, topics, and what lapses. Values are bound by position: ?1, ?2, …

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
UPDATE debate SET state = ?3, closed_by = ?4, closed_at = ?5, reason = ?6, outcome = ?7, gave_way_to = ?8,
    confirmed_by = ?9
WHERE board = ?1 AND id = ?2;

-- name: debates_open
-- Open debates, oldest first.
SELECT id, root, state, opened_by, explicit, opened_at, closed_by, closed_at, reason, outcome, gave_way_to, confirmed_by
FROM debate INDEXED BY debate_open WHERE board = ?1 AND state = 'OPEN' ORDER BY id;

-- name: debates_about
-- Open debates whose root or one of whose critiques is an item, and those of a JSON list (?3), oldest first.
SELECT id, root, opened_by, explicit FROM debate WHERE board = ?1 AND state = 'OPEN' AND id IN (
    SELECT CAST(value AS INTEGER) FROM json_each(?3)
    UNION SELECT id FROM debate INDEXED BY debate_root WHERE board = ?1 AND root = ?2
    UNION SELECT debate FROM debate_critique INDEXED BY debate_critique_item WHERE board = ?1 AND critique = ?2)
ORDER BY id;

-- name: debates_on
-- Debates whose root is one of some items (a JSON list), oldest first.
SELECT id, root, state, opened_by, explicit, opened_at, closed_by, closed_at, reason, outcome, gave_way_to, confirmed_by
FROM debate INDEXED BY debate_root
WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) ORDER BY id;

-- name: successions
-- The items that took the place of items (a JSON list) at the end of their newest debates, and of those in turn, at
-- most eight times: the item, then number, type and status of each that an agent may see, the first step first.
WITH RECURSIVE place(root, step, number) AS (
    SELECT CAST(value AS INTEGER), 0, CAST(value AS INTEGER) FROM json_each(?2)
    UNION ALL
    SELECT p.root, p.step + 1, (SELECT d.gave_way_to FROM debate d INDEXED BY debate_root
                                WHERE d.board = ?1 AND d.root = p.number ORDER BY d.id DESC LIMIT 1)
    FROM place p WHERE p.step < 8 AND p.number <> 0)
SELECT p.root, i.number, i.type, i.status
FROM place p CROSS JOIN item i ON i.board = ?1 AND i.number = p.number
WHERE p.step > 0 AND VISIBLE(i.owner, ?3) ORDER BY p.root, p.step;

-- name: debates_of_critique
-- Debates that a critique is part of, oldest first.
SELECT d.id, d.root, d.state, d.opened_by, d.explicit, d.opened_at, d.closed_by, d.closed_at, d.reason, d.outcome,
       d.gave_way_to, d.confirmed_by
FROM debate_critique c INDEXED BY debate_critique_item
CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique = ?2 ORDER BY d.id;

-- name: critiques_of
-- The critiques of some debates (a JSON list of debate ids), with the answer to each, and whether it was taken back.
SELECT c.debate, c.critique, c.answer, i.status IN ('WITHDRAWN', 'INVALIDATED')
FROM debate_critique c CROSS JOIN item i ON i.board = ?1 AND i.number = c.critique
WHERE c.board = ?1 AND c.debate IN (SELECT value FROM json_each(?2)) ORDER BY c.debate, c.critique;

-- name: critique_answered
-- A critique got an answer in a debate, or with 0 has none any more.
UPDATE debate_critique SET answer = ?4 WHERE board = ?1 AND debate = ?2 AND critique = ?3;

-- name: judges_put_off
-- Watchers of the root (?3) of a debate (?2) have nothing to judge yet.
UPDATE obligation INDEXED BY obligation_item SET state = 'watching'
WHERE board = ?1 AND item = ?3 AND debate IN (0, ?2) AND duty = 'acknowledge' AND state = 'outstanding';

-- name: judges_asked
-- Watchers of the root (?3) of a debate (?2) are asked to judge from now on.
UPDATE obligation INDEXED BY obligation_item SET state = 'outstanding', since = ?4
WHERE board = ?1 AND item = ?3 AND debate IN (0, ?2) AND duty = 'acknowledge' AND state = 'watching'
RETURNING agent;

-- name: watches_go_on
-- Agents that watched the root of a debate before it go on watching it.
UPDATE obligation INDEXED BY obligation_item SET state = 'outstanding'
WHERE board = ?1 AND item = ?2 AND debate = 0 AND duty = 'acknowledge' AND state = 'watching';

-- name: obligation_add
-- Somebody owes something; owing it again gives it the state anew.
INSERT INTO obligation(board, agent, item, duty, debate, state, reason, since)
VALUES (?1, ?2, ?3, ?4, ?5, ?7, '', ?6)
ON CONFLICT DO UPDATE SET state = excluded.state, reason = '', since = excluded.since;

-- name: obligation_set
-- An obligation is met or waived.
UPDATE obligation SET state = ?6, reason = ?7
WHERE board = ?1 AND agent = ?2 AND item = ?3 AND duty = ?4 AND debate = ?5;

-- name: awaited_of_others
-- What other agents owe on items that an agent may see, oldest first; watches are left out, and who objects to an item
-- as in `obligations_of_agent`.
SELECT o.agent, o.item, o.duty, i.type FROM obligation o INDEXED BY obligation_outstanding
CROSS JOIN item i ON i.board = o.board AND i.number = o.item
WHERE o.board = ?1 AND o.agent <> ?2 AND o.state = 'outstanding' AND VISIBLE(i.owner, ?2)
  AND NOT (o.duty = 'acknowledge' AND o.debate = 0)
  AND NOT (o.duty = 'agree' AND EXISTS (
      SELECT 1 FROM debate d INDEXED BY debate_root
      CROSS JOIN debate_critique k ON k.board = d.board AND k.debate = d.id
      CROSS JOIN item c ON c.board = k.board AND c.number = k.critique
      WHERE d.board = o.board AND d.root = o.item AND d.state = 'OPEN' AND c.author = o.agent
        AND c.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
  AND NOT (o.duty = 'acknowledge' AND EXISTS (
      SELECT 1 FROM debate_critique a
      CROSS JOIN debate d INDEXED BY debate_root ON d.board = a.board AND d.root = a.answer AND d.state = 'OPEN'
      CROSS JOIN debate_critique k ON k.board = d.board AND k.debate = d.id
      CROSS JOIN item c ON c.board = k.board AND c.number = k.critique
      WHERE a.board = o.board AND a.debate = o.debate AND c.author = o.agent
        AND c.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
ORDER BY o.since, o.item, o.agent, o.duty LIMIT ?3;

-- name: obligations_of_debates
-- Obligations of some debates (a JSON list of ids; 0 is none).
SELECT agent, item, duty, state, debate, reason, since FROM obligation INDEXED BY obligation_debate
WHERE board = ?1 AND debate IN (SELECT value FROM json_each(?2))
ORDER BY since, agent, item, duty;

-- name: obligations_of_item
-- Obligations that name one item, or that arose in debates on it.
SELECT agent, item, duty, state, debate, reason, since FROM obligation INDEXED BY obligation_item
WHERE board = ?1 AND item = ?2 ORDER BY since, agent, duty;

-- name: obligations_outstanding
-- Outstanding obligations on items of a list (JSON), with their agents.
SELECT item, agent, duty FROM obligation
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND state = 'outstanding'
ORDER BY item, agent, duty;

-- name: debated
-- The items of a list (JSON) that open debates are about, by debate.
SELECT root AS number, id FROM debate INDEXED BY debate_root
WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2)) AND state = 'OPEN'
UNION
SELECT c.critique, c.debate FROM debate_critique c INDEXED BY debate_critique_item
CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2)) AND d.state = 'OPEN'
ORDER BY id, number;

-- name: item_debated
-- A debate on an item was closed, which sets its status.
UPDATE item SET status = ?3, seq = ?4, updated_at = ?5, updated_by = ?6, debated = 1 WHERE board = ?1 AND number = ?2;

-- name: obligations_of_agent
-- Obligations of an agent on items it may see, oldest first, and last those that are only watches of its own; and whether
-- a quorum of votes closes the debate that it has to judge. An agent
-- that objects to an item, by a critique that stands in an open debate on it, need not agree to it meanwhile, nor judge a
-- debate while it objects so to an answer there.
SELECT o.item, o.duty, i.type, o.since, o.duty = 'acknowledge' AND o.debate = 0 AS watch,
       o.duty = 'acknowledge' AND (SELECT coalesce(CAST(json_extract(config, '$.quorum') AS INTEGER), 0) > 0 FROM board WHERE no = ?1)
FROM obligation o INDEXED BY obligation_outstanding
CROSS JOIN item i ON i.board = o.board AND i.number = o.item
WHERE o.board = ?1 AND o.agent = ?2 AND o.state = 'outstanding' AND VISIBLE(i.owner, ?2)
  AND NOT (o.duty = 'agree' AND EXISTS (
      SELECT 1 FROM debate d INDEXED BY debate_root
      CROSS JOIN debate_critique k ON k.board = d.board AND k.debate = d.id
      CROSS JOIN item c ON c.board = k.board AND c.number = k.critique
      WHERE d.board = o.board AND d.root = o.item AND d.state = 'OPEN' AND c.author = ?2
        AND c.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
  AND NOT (o.duty = 'acknowledge' AND EXISTS (
      SELECT 1 FROM debate_critique a
      CROSS JOIN debate d INDEXED BY debate_root ON d.board = a.board AND d.root = a.answer AND d.state = 'OPEN'
      CROSS JOIN debate_critique k ON k.board = d.board AND k.debate = d.id
      CROSS JOIN item c ON c.board = k.board AND c.number = k.critique
      WHERE a.board = o.board AND a.debate = o.debate AND c.author = ?2
        AND c.status NOT IN ('WITHDRAWN', 'INVALIDATED')))
ORDER BY watch, o.since, o.item LIMIT 50;

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

-- name: decision_put
-- An owner decides in a debate what needs another's word; its former decision is replaced.
INSERT INTO decision(board, debate, owner, agent, version, outcome, gave_way_to, reason, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET agent = excluded.agent, version = excluded.version, outcome = excluded.outcome,
    gave_way_to = excluded.gave_way_to, reason = excluded.reason, at = excluded.at;

-- name: decision_drop
-- An agent's decision in a debate is gone, whoever it then acted for.
DELETE FROM decision WHERE board = ?1 AND debate = ?2 AND agent = ?3 RETURNING owner;

-- name: decisions_drop
-- Drops decisions of a debate about another version than ?3.
DELETE FROM decision WHERE board = ?1 AND debate = ?2 AND version <> ?3 RETURNING owner;

-- name: decisions_of
-- Decisions in some debates (a JSON list of ids) that wait for another's word, oldest first.
SELECT debate, owner, agent, version, outcome, gave_way_to, reason, at FROM decision
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
-- Counts the standing watches on a board.
SELECT count(*) FROM watch WHERE board = ?1;

-- name: globs_on_board
-- Counts the different globs of keys that are watched on a board.
SELECT count(DISTINCT topic) FROM watch
WHERE board = ?1 AND topic >= 'key:' AND topic < 'key;' AND instr(topic, '*') > 0;

-- name: watched_globs
-- The watched globs of keys that begin as the key ?2 does, up to their first star.
SELECT DISTINCT topic FROM watch
WHERE board = ?1 AND topic >= 'key:' AND topic < 'key;' AND instr(topic, '*') > 0
  AND substr(topic, 5, instr(topic, '*') - 5) = substr(?2, 1, instr(topic, '*') - 5);

-- name: watchers_of_topics
-- Agents that watch any of some topics (a JSON list), longest first. The order of the join is forced: the list first.
SELECT w.agent FROM json_each(?2) t
CROSS JOIN watch w INDEXED BY watch_topic ON w.board = ?1 AND w.topic = t.value
GROUP BY w.agent ORDER BY min(w.since), w.agent;

-- name: lapsing_boards
-- Boards where at ?1 a watcher's lease has ended, a debate stands still or a question waits for too long, or the
-- present wait for one who is away. ?2, ?3, ?5 and ?6 are the settings of boards that were made before there were
-- these: of leases, expiry, questions and presence; boards in the state ?4 are left as they are. Since ?7 calls are
-- taken: nobody counts as away before that has been so for the time of presence, or of a shorter lease.
WITH rule(no, id, lease, expiry, patience, presence) AS NOT MATERIALIZED (
    SELECT no, id, coalesce(json_extract(config, '$.watch_lease_seconds'), ?2) * 1000000,
           coalesce(json_extract(config, '$.debate_expiry_seconds'), ?3) * 1000000,
           coalesce(json_extract(config, '$.question_expiry_seconds'), ?5) * 1000000,
           coalesce(json_extract(config, '$.presence_seconds'), ?6) * 1000000
    FROM board WHERE lifecycle <> ?4
)
SELECT r.id FROM obligation o INDEXED BY obligation_waiting CROSS JOIN rule r ON r.no = o.board
LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE o.state = 'outstanding' AND o.duty = 'acknowledge' AND o.since < ?1 AND r.lease > 0
  AND (r.lease + ?7 <= ?1 OR r.presence > 0 AND r.presence + ?7 <= ?1)
  AND max(o.since, coalesce(a.last_seen, 0)) + r.lease <= ?1
UNION
SELECT r.id FROM watch w INDEXED BY watch_since CROSS JOIN rule r ON r.no = w.board
LEFT JOIN agent a ON a.board = w.board AND a.name = w.agent
WHERE w.since < ?1 AND r.lease > 0 AND (r.lease + ?7 <= ?1 OR r.presence > 0 AND r.presence + ?7 <= ?1)
  AND max(w.since, coalesce(a.last_seen, 0)) + r.lease <= ?1
UNION
SELECT r.id FROM debate d INDEXED BY debate_moved CROSS JOIN rule r ON r.no = d.board
WHERE d.state = 'OPEN' AND d.moved_at < ?1 AND r.expiry > 0 AND d.moved_at + r.expiry <= ?1
UNION
SELECT r.id FROM obligation o INDEXED BY obligation_asked CROSS JOIN rule r ON r.no = o.board
WHERE o.state = 'outstanding' AND o.duty = 'respond' AND o.debate = 0 AND o.since < ?1 AND r.patience > 0
  AND o.since + r.patience <= ?1
UNION
SELECT r.id FROM (
    SELECT DISTINCT board FROM agent INDEXED BY agent_there WHERE last_seen > ?1 - (
        SELECT max(m.presence) FROM (
            SELECT DISTINCT board FROM obligation INDEXED BY obligation_awaited WHERE state = 'outstanding' AND debate > 0
        ) o CROSS JOIN rule m ON m.no = o.board)
) t CROSS JOIN rule r ON r.no = t.board
WHERE r.presence > 0 AND r.presence + ?7 <= ?1
  AND EXISTS (
    SELECT 1 FROM obligation o INDEXED BY obligation_awaited
    LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
    WHERE o.board = r.no AND o.state = 'outstanding' AND o.debate > 0 AND o.since <= ?1 - r.presence
      AND coalesce(a.last_seen, 0) <= ?1 - r.presence
      AND EXISTS (
        SELECT 1 FROM party p CROSS JOIN agent t ON t.board = p.board AND t.name = p.agent
        WHERE p.board = o.board AND p.debate = o.debate AND p.agent <> o.agent AND t.last_seen > ?1 - r.presence
          AND (t.waits_until <= ?1 OR max(o.since, coalesce(a.last_seen, 0)) <= ?1 - 259200000000)));

-- name: questions_unanswered
-- Answers to questions that are owed since ?2 or longer, oldest first.
SELECT agent, item, duty, state, debate, reason, since FROM obligation INDEXED BY obligation_asked
WHERE board = ?1 AND state = 'outstanding' AND duty = 'respond' AND debate = 0 AND since <= ?2
ORDER BY since, agent, item LIMIT ?3;

-- name: awaited_and_absent
-- Obligations in debates, owed since ?2 or longer by agents last there then or before, while another party to the
-- debate was there since, who waits for nobody longer than ?4, or three days have passed; oldest first.
SELECT o.agent, o.item, o.duty, o.state, o.debate, o.reason, o.since
FROM obligation o INDEXED BY obligation_awaited LEFT JOIN agent a ON a.board = o.board AND a.name = o.agent
WHERE o.board = ?1 AND o.state = 'outstanding' AND o.debate > 0 AND o.since <= ?2 AND coalesce(a.last_seen, 0) <= ?2
  AND EXISTS (
    SELECT 1 FROM party p CROSS JOIN agent t ON t.board = p.board AND t.name = p.agent
    WHERE p.board = o.board AND p.debate = o.debate AND p.agent <> o.agent AND t.last_seen > ?2
      AND (t.waits_until <= ?4 OR max(o.since, coalesce(a.last_seen, 0)) <= ?4 - 259200000000))
ORDER BY o.since, o.agent, o.item, o.duty, o.debate LIMIT ?3;

-- name: parties
-- The parties to a debate: its item's author, agents that owe or owed something in it, agents that decided in it.
SELECT DISTINCT agent FROM party WHERE board = ?1 AND debate = ?2 ORDER BY agent;

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

-- name: debate_states
-- The debates of which some items (a JSON list) are critiques, and those on them: the item, whether the debate is on it, the
-- debate, its state, and for those on it the outcome and the item that took its place.
SELECT c.critique, 0, d.id, d.state, '', NULL
FROM debate_critique c CROSS JOIN debate d ON d.board = c.board AND d.id = c.debate
WHERE c.board = ?1 AND c.critique IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT root, 1, id, state, outcome, gave_way_to
FROM debate INDEXED BY debate_root WHERE board = ?1 AND root IN (SELECT value FROM json_each(?2));

