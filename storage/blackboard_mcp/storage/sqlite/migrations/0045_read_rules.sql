-- The read rules of the installation, as JSON, in their order; one row, or none without rules
CREATE TABLE read_rules (
    rules TEXT NOT NULL
) STRICT;

-- Who reads what a rule keeps: an agent, `team:` with an owner, `role:` with a role, `*` for everybody, or ':' for nobody
CREATE TABLE rule_reader (
    mark TEXT NOT NULL,
    principal TEXT NOT NULL,
    PRIMARY KEY (mark, principal)
) STRICT, WITHOUT ROWID;

-- The roles that agents have on boards by the credentials they showed last; kept while rules name roles
CREATE TABLE shown_role (
    board INTEGER NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (board, agent)
) STRICT, WITHOUT ROWID;

-- The role in which an agent acts on a board: what the board gives it, else what its credential does
CREATE VIEW acting_role(place, who, role) AS
SELECT m.board, m.agent, m.role FROM member m
UNION ALL
SELECT s.board, s.agent, s.role FROM shown_role s
WHERE NOT EXISTS (SELECT 1 FROM member m WHERE m.board = s.board AND m.agent = s.agent);
