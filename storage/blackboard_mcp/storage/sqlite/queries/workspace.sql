-- Files of workspaces. Values are bound by position: ?1, ?2, …

-- name: artifact_last
-- The number of a board's last revision.
SELECT coalesce(max(revision), 0) FROM artifact_revision WHERE board = ?1;

-- name: artifact_now
-- The last revision of a path, also of a deleted file, and its content.
SELECT r.revision, r.path, r.op, r.before, r.size, r.lines, r.blob, r.agent, r.message, r.at, r.body
FROM artifact a CROSS JOIN artifact_revision r ON r.board = a.board AND r.revision = a.revision
WHERE a.board = ?1 AND a.path = ?2;

-- name: artifact_then
-- The last revision of a path up to a revision of the board, and its content.
SELECT revision, path, op, before, size, lines, blob, agent, message, at, body
FROM artifact_revision INDEXED BY artifact_revision_path
WHERE board = ?1 AND path = ?2 AND revision <= ?3 ORDER BY revision DESC LIMIT 1;

-- name: artifact_near
-- For each folded path (a JSON list): the file of that spelling, and a file below it.
SELECT p.value,
       (SELECT a.path FROM artifact a INDEXED BY artifact_folded
        WHERE a.board = ?1 AND a.folded = p.value AND a.gone = 0 LIMIT 1),
       (SELECT a.path FROM artifact a INDEXED BY artifact_folded
        WHERE a.board = ?1 AND a.folded > p.value || '/' AND a.folded < p.value || '0' AND a.gone = 0 LIMIT 1)
FROM json_each(?2) p;

-- name: artifact_count
-- How many files a board has.
SELECT count(*) FROM artifact INDEXED BY artifact_folded WHERE board = ?1 AND gone = 0;

-- name: artifact_add
-- A new revision.
INSERT INTO artifact_revision(board, revision, path, folded, op, before, size, lines, blob, agent, message, at, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- name: artifacts
-- The last revisions of the files whose paths lie between two, by path.
SELECT r.revision, r.path, r.op, r.before, r.size, r.lines, r.blob, r.agent, r.message, r.at
FROM artifact a CROSS JOIN artifact_revision r ON r.board = a.board AND r.revision = a.revision
WHERE a.board = ?1 AND a.path > ?2 AND a.path < ?3 AND a.gone = 0 ORDER BY a.path LIMIT ?4;

-- name: artifact_history
-- Revisions of a board below a number, the newest first.
SELECT revision, path, op, before, size, lines, blob, agent, message, at
FROM artifact_revision WHERE board = ?1 AND revision < ?2 ORDER BY revision DESC LIMIT ?3;

-- name: artifact_path_history
-- Revisions of a path below a number, the newest first.
SELECT revision, path, op, before, size, lines, blob, agent, message, at
FROM artifact_revision INDEXED BY artifact_revision_path
WHERE board = ?1 AND path = ?4 AND revision < ?2 ORDER BY revision DESC LIMIT ?3;

-- name: artifact_folder_history
-- Revisions of the files in a folder below a number, the newest first.
SELECT revision, path, op, before, size, lines, blob, agent, message, at
FROM artifact_revision INDEXED BY artifact_revision_path
WHERE board = ?1 AND path > ?4 || '/' AND path < ?4 || '0' AND revision < ?2 ORDER BY revision DESC LIMIT ?3;

-- name: artifact_log
-- Revisions of a board after a number with their contents, the oldest first.
SELECT revision, path, op, before, size, lines, blob, agent, message, at, body
FROM artifact_revision WHERE board = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3;

-- name: artifacts_since
-- The paths of a board that were written after a revision, each with its last one, the newest first.
SELECT path, revision FROM artifact WHERE board = ?1 AND revision > ?2 ORDER BY revision DESC;

-- name: artifact_ids
-- Paths whose names are near to a wrong one: the first ones in its folder.
SELECT path FROM artifact WHERE board = ?1 AND path > ?2 AND path < ?3 AND gone = 0 ORDER BY path LIMIT ?4;

-- name: artifact_boards
-- The boards that have files, or had some.
SELECT b.id FROM board b WHERE EXISTS (SELECT 1 FROM artifact a WHERE a.board = b.no) ORDER BY b.id;
