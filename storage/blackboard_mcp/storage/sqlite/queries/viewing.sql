-- What a view says besides items. Values are bound by position: ?1, ?2, …

-- name: top_of_type
-- The most important items of one type in working memory that an agent may see and that are not done with,
-- newest first among equals.
SELECT number FROM item INDEXED BY item_type
WHERE board = ?1 AND zone = 'working' AND type = ?3 AND status IN ('ACTIVE', 'DEBATED') AND VISIBLE(owner, ?2)
ORDER BY importance DESC, seq DESC LIMIT ?4;

-- name: debates_ended
-- The debates that ended last, on items that an agent may see, newest first.
SELECT d.id, d.root, d.state, d.opened_by, d.explicit, d.opened_at, d.closed_by, d.closed_at, d.reason, d.outcome,
       d.gave_way_to, d.confirmed_by
FROM debate d INDEXED BY debate_ended CROSS JOIN item i ON i.board = d.board AND i.number = d.root
WHERE d.board = ?1 AND d.state <> 'OPEN' AND VISIBLE(i.owner, ?2)
ORDER BY d.closed_at DESC, d.id DESC LIMIT ?3;

-- name: answers_to
-- The newest answer to each of some items (a JSON list): an ANSWER, or a reply by somebody other than its author.
SELECT e.target, max(e.source), a.type
FROM edge e INDEXED BY edge_target
CROSS JOIN item a ON a.board = e.board AND a.number = e.source
CROSS JOIN item q ON q.board = e.board AND q.number = e.target
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind = 'replies_to'
  AND (a.type = 'ANSWER' OR a.type = 'REPLY' AND a.author <> q.author)
  AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED') AND VISIBLE(a.owner, ?3)
GROUP BY e.target;

-- name: asked_for_answers
-- The agents that owe an answer to each of some questions (a JSON list of items that the reader may see).
SELECT item, agent FROM obligation INDEXED BY obligation_item
WHERE board = ?1 AND item IN (SELECT value FROM json_each(?2)) AND state = 'outstanding'
  AND duty = 'respond' AND debate = 0
ORDER BY item, since, agent;

-- name: replaced_by
-- The newest item that superseded each item of a list (JSON), by its author's word or agreement.
SELECT e.target, max(e.source), a.type
FROM edge e INDEXED BY edge_target
CROSS JOIN item a ON a.board = e.board AND a.number = e.source
CROSS JOIN item i ON i.board = e.board AND i.number = e.target
WHERE e.board = ?1 AND e.target IN (SELECT value FROM json_each(?2)) AND e.kind = 'supersedes'
  AND (a.author = i.author
       OR EXISTS (SELECT 1 FROM agreed_claim c WHERE c.board = e.board AND c.source = e.source
                    AND c.kind = 'supersedes' AND c.target = e.target))
  AND a.status NOT IN ('WITHDRAWN', 'INVALIDATED') AND VISIBLE(a.owner, ?3)
GROUP BY e.target;

-- name: last_acts
-- The agents of the last ?4 events up to one that an agent may see, with the time of their last act.
SELECT agent, max(at), max(seq) FROM (
    SELECT agent, at, seq FROM event WHERE board = ?1 AND seq <= ?3 AND VISIBLE(owner, ?2)
    ORDER BY seq DESC LIMIT ?4)
GROUP BY agent ORDER BY max(seq) DESC;

-- name: news
-- The last events after a sequence that an agent may see and did not cause, newest first.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND VISIBLE(owner, ?3) AND agent <> ?3 ORDER BY seq DESC LIMIT ?4;

-- name: news_stamps
-- The same events as `news`, with what tells whether a kept event is as it was.
SELECT seq, at, CASE WHEN PUBLIC(owner) AND tags = '[]' AND data = '{}' THEN ''
                     ELSE length(tags) || ' ' || length(data) || ' ' || owner END
FROM event WHERE board = ?1 AND seq > ?2 AND VISIBLE(owner, ?3) AND agent <> ?3 ORDER BY seq DESC LIMIT ?4;

-- name: news_at
-- Events by sequence (a JSON list) that an agent may see.
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);

-- name: news_departures
-- The last ?6 departures, between two sequences, of items that an agent may see and wrote, or whose departure concerns it,
-- newest first; ?5 are the kinds of events (a JSON list).
SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns
FROM event WHERE board = ?1 AND seq > ?2 AND seq < ?3 AND VISIBLE(owner, ?4) AND agent <> ?4
  AND event IN (SELECT value FROM json_each(?5))
  AND (EXISTS (SELECT 1 FROM json_each(event.concerns) c WHERE c.value = ?4)
       OR (SELECT author FROM item i WHERE i.board = event.board AND i.number = event.item) = ?4)
ORDER BY seq DESC LIMIT ?6;

-- name: authors
-- The authors of items (a JSON list) that an agent may see, how each was deleted, and what tells whether it could return.
SELECT number, type, author, deleted, zone, status, tokens, importance FROM item
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);

-- name: newest_archived
-- Tags, how the texts begin, number, whether they are unfinished work for everybody (a type of a JSON list, without an
-- end of its time), and type, of the newest items of the archive that an agent may see.
SELECT tags, substr(text, 1, ?4), number,
       PUBLIC(owner) AND status IN ('ACTIVE', 'DEBATED') AND expires_at IS NULL
         AND type IN (SELECT value FROM json_each(?5)), type
FROM item INDEXED BY item_archived
WHERE board = ?1 AND zone = 'archive' AND deleted = 0 AND VISIBLE(owner, ?2) ORDER BY number DESC LIMIT ?3;
