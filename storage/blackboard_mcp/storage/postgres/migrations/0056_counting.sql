-- What is counted of new rows is added up for each statement: a board that is taken over would otherwise change the
-- same few rows for each of its items, over all of their former versions each time.
DROP TRIGGER share_of_new ON item;
DROP TRIGGER stored_of_new ON item;
DROP TRIGGER figure_of_new ON item;
DROP TRIGGER stored_of_former ON item_version;
DROP FUNCTION share_of_new();
DROP FUNCTION stored_of_new();
DROP FUNCTION figure_of_new();

CREATE FUNCTION stored_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored(board, agent, bytes)
    SELECT a.board, who.name,
           sum(bytes_of(a.text) + bytes_of(a.tags) + bytes_of(a.metadata) + 1000)
    FROM added a CROSS JOIN LATERAL (VALUES (a.written_by), ('')) AS who(name) GROUP BY a.board, who.name
    ON CONFLICT (board, agent) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_of_former AFTER INSERT ON item_version REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION stored_of_new();
CREATE TRIGGER stored_of_new AFTER INSERT ON item REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION stored_of_new();

CREATE FUNCTION counts_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO share(board, author, items, tokens)
    SELECT board, author, count(*), sum(tokens) FROM added WHERE zone = 'working' GROUP BY board, author
    ON CONFLICT (board, author) DO UPDATE SET items = share.items + excluded.items, tokens = share.tokens + excluded.tokens;
    INSERT INTO figure(board, owner, zone, type, status, items, tokens)
    SELECT board, owner, zone, type, status, count(*), sum(tokens) FROM added WHERE deleted < 2
    GROUP BY board, owner, zone, type, status
    ON CONFLICT (board, owner, zone, type, status)
    DO UPDATE SET items = figure.items + excluded.items, tokens = figure.tokens + excluded.tokens;
    RETURN NULL;
END $$;
CREATE TRIGGER counts_of_new AFTER INSERT ON item REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION counts_of_new();

CREATE OR REPLACE FUNCTION artifact_of_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO artifact(board, path, folded, revision, gone)
    VALUES (new.board, new.path, new.folded, new.revision, (new.op = 'deleted')::int)
    ON CONFLICT (board, path) DO UPDATE SET revision = excluded.revision, gone = excluded.gone
    WHERE excluded.revision > artifact.revision;
    RETURN NULL;
END $$;
CREATE FUNCTION stored_of_revision() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored(board, agent, bytes)
    SELECT a.board, who.name, sum(octet_length(a.body) + bytes_of(a.message) + 1000)
    FROM added a CROSS JOIN LATERAL (VALUES (a.agent), ('')) AS who(name) GROUP BY a.board, who.name
    ON CONFLICT (board, agent) DO UPDATE SET bytes = stored.bytes + excluded.bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER stored_of_revision AFTER INSERT ON artifact_revision REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION stored_of_revision();

-- Bytes of texts with \x1a, which is stored as two characters, were counted as stored; now they are counted as given.
CREATE OR REPLACE FUNCTION stored_of_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored SET bytes = bytes - (bytes_of(old.text) + bytes_of(old.tags) + bytes_of(old.metadata) + 1000)
    WHERE board = old.board AND agent IN (old.written_by, '');
    DELETE FROM stored WHERE board = old.board AND agent = old.written_by AND bytes = 0;
    PERFORM store_bytes(new.board, new.written_by,
                        bytes_of(new.text) + bytes_of(new.tags) + bytes_of(new.metadata) + 1000);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION stored_of_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stored SET bytes = bytes
        - bytes_of(old.text) - bytes_of(old.tags) - bytes_of(old.metadata)
        + bytes_of(new.text) + bytes_of(new.tags) + bytes_of(new.metadata)
    WHERE board = new.board AND agent IN (new.written_by, '');
    RETURN NULL;
END $$;

UPDATE stored SET bytes = stored.bytes - w.more
FROM (SELECT t.board, who.name, sum(octet_length(t.text) - bytes_of(t.text)) AS more
      FROM (SELECT board, written_by, text FROM item WHERE strpos(text, E'\x1a') > 0
            UNION ALL
            SELECT board, written_by, text FROM item_version WHERE strpos(text, E'\x1a') > 0
            UNION ALL
            SELECT board, agent, message FROM artifact_revision WHERE strpos(message, E'\x1a') > 0) t
      CROSS JOIN LATERAL (VALUES (t.written_by), ('')) AS who(name) GROUP BY t.board, who.name) w
WHERE stored.board = w.board AND stored.agent = w.name;
