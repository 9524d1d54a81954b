-- Functions and operators of SQLite that the store's statements use. They are made anew at each migration, so they
-- may change between versions; what tables depend on may not.

-- Texts are stored with \x1a0 for the character 0, and with \x1a1 for \x1a itself, while JSON documents have their own
-- writing for both. What comes out of a document is written as stored texts are, and the other way round.
CREATE OR REPLACE FUNCTION as_stored(text text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT replace(text, E'\x1a', E'\x1a1') $$;

-- The bytes of a stored text as it was given.
CREATE OR REPLACE FUNCTION bytes_of(text text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT octet_length(replace(text, E'\x1a', ''))::bigint $$;

-- The elements of a JSON list as text, with their places from 0; none of NULL. PostgreSQL does not inline functions that
-- return rows if they are STRICT.
CREATE OR REPLACE FUNCTION json_each(list text) RETURNS TABLE(key bigint, value text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT one.place - 1, as_stored(one.value) FROM json_array_elements_text(list::json) WITH ORDINALITY AS one(value, place) $$;

-- The names and values of a JSON object as text.
CREATE OR REPLACE FUNCTION json_members(object text) RETURNS TABLE(key text, value text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT as_stored(m.key), as_stored(m.value) FROM json_each_text(object::json) AS m(key, value) $$;

-- A path of SQLite ('$[0].name') as one of PostgreSQL ('{0,name}').
CREATE OR REPLACE FUNCTION json_path_of(path text) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT string_to_array(substr(replace(replace(replace(path, '[', '.'), ']', ''), '"', ''), 3), '.') $$;

CREATE OR REPLACE FUNCTION json_extract(document text, path text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT as_stored(document::json #>> json_path_of(path)) $$;

CREATE OR REPLACE FUNCTION json_type(document text, path text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT json_typeof(document::json #> json_path_of(path)) $$;

CREATE OR REPLACE FUNCTION json_array_length(document text, path text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT json_array_length(document::json #> json_path_of(path))::bigint $$;

CREATE OR REPLACE FUNCTION json_array_length(document text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT json_array_length(document::json)::bigint $$;

-- A document without some of its members: paths such as '$.was'.
CREATE OR REPLACE FUNCTION json_remove(document text, VARIADIC paths text[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT coalesce(json_object_agg(m.key, m.value)::text, '{}') FROM json_each(document::json) AS m(key, value)
    WHERE '$.' || m.key <> ALL (paths)
$$;

-- A document with another merged into it (RFC 7396).
CREATE OR REPLACE FUNCTION json_merged(target jsonb, patch jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    name text;
    value jsonb;
BEGIN
    IF jsonb_typeof(patch) <> 'object' THEN
        RETURN patch;
    END IF;
    IF target IS NULL OR jsonb_typeof(target) <> 'object' THEN
        target := '{}';
    END IF;
    FOR name, value IN SELECT * FROM jsonb_each(patch) LOOP
        IF jsonb_typeof(value) = 'null' THEN
            target := target - name;
        ELSE
            target := jsonb_set(target, ARRAY[name], json_merged(target -> name, value));
        END IF;
    END LOOP;
    RETURN target;
END $$;

CREATE OR REPLACE FUNCTION json_patch(target text, patch text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT json_merged(target::jsonb, patch::jsonb)::text $$;

CREATE OR REPLACE FUNCTION json_of(list bigint[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT array_to_json(list)::text $$;
CREATE OR REPLACE FUNCTION json_of(list text[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT array_to_json(ARRAY(SELECT replace(one, E'\x1a1', E'\x1a') FROM unnest(list) AS one))::text $$;
CREATE OR REPLACE AGGREGATE json_group_array(bigint) (
    sfunc = array_append, stype = bigint[], finalfunc = json_of, initcond = '{}');
CREATE OR REPLACE AGGREGATE json_group_array(text) (
    sfunc = array_append, stype = text[], finalfunc = json_of, initcond = '{}');

-- A pattern of GLOB, in which only `*` is special, as one of LIKE.
CREATE OR REPLACE FUNCTION like_of(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT replace(replace(replace(replace(pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%') $$;

CREATE OR REPLACE FUNCTION instr(text text, part text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT strpos(text, part)::bigint $$;

CREATE OR REPLACE FUNCTION substr(text text, start bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT pg_catalog.substr(text, start::int) $$;
CREATE OR REPLACE FUNCTION substr(text text, start bigint, length bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT pg_catalog.substr(text, start::int, length::int) $$;

-- NULL if one is NULL, as in SQLite; GREATEST and LEAST pass over it.
CREATE OR REPLACE FUNCTION max(one bigint, other bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT CASE WHEN one >= other THEN one ELSE other END $$;
CREATE OR REPLACE FUNCTION min(one bigint, other bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT CASE WHEN one <= other THEN one ELSE other END $$;

-- Conditions as numbers.
CREATE OR REPLACE FUNCTION is_number(one boolean, other bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT one::int = other $$;
CREATE OR REPLACE FUNCTION is_not_number(one boolean, other bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT one::int <> other $$;
CREATE OR REPLACE FUNCTION is_number(one bigint, other boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT one = other::int $$;
CREATE OR REPLACE FUNCTION is_not_number(one bigint, other boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ SELECT one <> other::int $$;
-- Numbers that come out of JSON as text. The functions are inlined, so indexes serve these comparisons.
CREATE OR REPLACE FUNCTION is_number(one bigint, other text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT one = other::bigint $$;
CREATE OR REPLACE FUNCTION is_more(one bigint, other text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT one > other::bigint $$;

DO $$ BEGIN
    IF to_regoperator('=(boolean, bigint)') IS NULL THEN
        CREATE OPERATOR = (leftarg = boolean, rightarg = bigint, function = is_number);
        CREATE OPERATOR <> (leftarg = boolean, rightarg = bigint, function = is_not_number);
        CREATE OPERATOR = (leftarg = bigint, rightarg = boolean, function = is_number);
        CREATE OPERATOR <> (leftarg = bigint, rightarg = boolean, function = is_not_number);
        CREATE OPERATOR = (leftarg = bigint, rightarg = text, function = is_number);
        CREATE OPERATOR > (leftarg = bigint, rightarg = text, function = is_more);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION counted(sofar bigint, one boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT CASE WHEN one IS NULL THEN sofar ELSE coalesce(sofar, 0) + one::int END $$;
CREATE OR REPLACE AGGREGATE sum(boolean) (sfunc = counted, stype = bigint);
