-- Sightings: who was shown which item, when, and how. Values are bound by position: ?1, ?2, …

-- name: items_sighted
-- Agents were shown items (a JSON list of [number, agent, first instant, way, last instant, way]).
INSERT INTO sighting(board, item, agent, first_at, first_way, last_at, last_way)
SELECT ?1, i.number, json_extract(s.value, '$[1]'), CAST(json_extract(s.value, '$[2]') AS INTEGER), json_extract(s.value, '$[3]'),
       CAST(json_extract(s.value, '$[4]') AS INTEGER), json_extract(s.value, '$[5]')
FROM json_each(?2) s CROSS JOIN item i ON i.board = ?1 AND i.number = json_extract(s.value, '$[0]')
WHERE true
ON CONFLICT DO UPDATE SET
    first_way = CASE WHEN excluded.first_at < first_at THEN excluded.first_way ELSE first_way END,
    first_at = min(first_at, excluded.first_at),
    last_way = CASE WHEN excluded.last_at >= last_at THEN excluded.last_way ELSE last_way END,
    last_at = max(last_at, excluded.last_at);

-- name: sightings_trim
-- Of some items (a JSON list of numbers) only the agents that were shown them last are kept, ?3 for each.
DELETE FROM sighting WHERE board = ?1 AND (item, agent) IN (
    SELECT item, agent FROM (
        SELECT s.item AS item, s.agent AS agent,
               row_number() OVER (PARTITION BY s.item ORDER BY s.last_at DESC, s.agent) AS place
        FROM json_each(?2) n CROSS JOIN sighting s ON s.board = ?1 AND s.item = n.value
    ) WHERE place > ?3
);

-- name: sighted
-- Those of some items (a JSON list of numbers) that the agent ?3 may see: number, mark, who wrote the present version.
SELECT i.number, i.owner, coalesce(nullif(i.written_by, ''), i.author)
FROM json_each(?2) n CROSS JOIN item i ON i.board = ?1 AND i.number = n.value
WHERE VISIBLE(i.owner, ?3);

-- name: sightings_of
-- The sightings of some items (a JSON list of numbers).
SELECT s.item, s.agent, s.first_at, s.first_way, s.last_at, s.last_way
FROM json_each(?2) n CROSS JOIN sighting s ON s.board = ?1 AND s.item = n.value;

-- name: agents_known
-- The agents that the agent ?2 may know of, with their owners, those of the last call first: who takes part, wrote an
-- item that it sees, or did something that it sees after the sequence ?3.
SELECT a.name, coalesce(p.owner, a.name)
FROM (SELECT name, last_seen AS at FROM agent WHERE board = ?1
      UNION ALL
      SELECT t.agent, t.joined_at FROM participant t INDEXED BY participant_here
      WHERE t.board = ?1 AND t.left_at = 0
        AND NOT EXISTS (SELECT 1 FROM agent n WHERE n.board = ?1 AND n.name = t.agent)) a
LEFT JOIN principal p ON p.agent = a.name
WHERE EXISTS (SELECT 1 FROM participant t INDEXED BY participant_here
              WHERE t.board = ?1 AND t.agent = a.name AND t.left_at = 0)
   OR EXISTS (SELECT 1 FROM item i INDEXED BY item_turn
              WHERE i.board = ?1 AND i.author = a.name AND i.zone = 'working' AND VISIBLE(i.owner, ?2))
   OR a.name IN (SELECT e.agent FROM event e WHERE e.board = ?1 AND e.seq > ?3 AND VISIBLE(e.owner, ?2))
ORDER BY a.at DESC, a.name;
