-- What transactions hold their reads against. Values are bound by position: ?1, ?2, …

-- name: standing_items
-- Versions of items by number (a JSON list) that an agent may see.
SELECT number, type, key, version, deleted FROM item
WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND VISIBLE(owner, ?3);

-- name: standing_entries
-- Versions of entries by key (a JSON list) that an agent may see.
SELECT number, owner, key, version, deleted FROM item
WHERE board = ?1 AND key IN (SELECT value FROM json_each(?2)) AND FOUND(owner, ?3);

-- name: last_event_of_items
-- The last event about any of some items (a JSON list) after ?4 and up to ?5 that an agent may see.
SELECT max(e.seq) FROM json_each(?2) w CROSS JOIN event e INDEXED BY event_item
WHERE e.board = ?1 AND e.item = w.value AND e.seq > ?4 AND e.seq <= ?5 AND VISIBLE(e.owner, ?3);

-- name: events_between
-- The items that the log after ?3 and up to ?4 is about, as far as an agent may see them.
SELECT seq, item, key FROM event
WHERE board = ?1 AND seq > ?3 AND seq <= ?4 AND VISIBLE(owner, ?2) ORDER BY seq LIMIT ?5;

-- name: last_event
-- The last event after ?3 and up to ?4 that an agent may see.
SELECT seq FROM event
WHERE board = ?1 AND seq > ?3 AND seq <= ?4 AND VISIBLE(owner, ?2) ORDER BY seq DESC LIMIT 1;

-- name: entries_changed
-- Entries with keys from ?3 to below ?4 that an agent may see, each with its last event after ?5 and up to ?6.
SELECT i.key, (SELECT max(e.seq) FROM event e INDEXED BY event_item
               WHERE e.board = ?1 AND e.item = i.number AND e.seq > ?5 AND e.seq <= ?6 AND VISIBLE(e.owner, ?2))
FROM item i WHERE i.board = ?1 AND FOUND(i.owner, ?2) AND i.key >= ?3 AND i.key < ?4 LIMIT ?7;
