"""Who may see what is said in one place: no statement and no module spells it by hand, and none forgets it."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from blackboard_mcp.protocols.visibility import Viewer, team_of
from blackboard_mcp.storage.operations.access import visibility as sight
from blackboard_mcp.storage.sqlite import driver

SEEN = {
    *(
        "item",
        "item_version",
        "event",
        "edge",
        "concern",
        "obligation",
        "finding",
        "endorsement",
        "retraction",
    ),
    *("spreading", "held", "protected", "figure", "outbox", "key_part"),
}
"""Tables of which an agent may see a part."""
WORDS = re.compile(r"\b(VISIBLE|FOUND|PUBLIC|SHARED)\(")
WITHOUT: dict[str, set[str]] = {
    "asked of items that were found for the agent, or that debates are about, which everybody sees": {
        *("versions", "version_now", "version_list", "obligations_of_debates", "obligations_of_item"),
        *("written_by", "pass_of_item", "endorsements", "root_of_debate", "item_of_key", "edges_touching"),
        "entries_of_key",
        *("thread_members", "items_any", "items_brief", "watchers_of", "critiques_of", "agreeing"),
        *("asked_for_answers", "item_types", "run_get", "run_begun", "crossing_entries"),
    },
    "what the guard holds, of all: what an agent is told of it goes through `shown`": {
        *("protected_among", "protected_figures", "held", "holding", "held_for", "chains", "debated_for"),
        *("obligations_outstanding", "law_among", "depends_reaches"),
    },
    "whether there are any at all, which decides what else is asked, and no answer": {
        *("board_kinds", "standing_of", "owing", "touched", "rules_known"),
    },
    "retractions under way: `_told` says from which item to which they go": {
        *("superseding", "superseded_by", "citing", "retractions_passed_on", "retractions_known"),
        *("spreading_next", "spreading_boards"),
    },
    "passes, expiry and leases take all": {
        *("working", "working_among", "going_expired", "going_done", "going_logs", "going_least", "expiring"),
        "touched_since",
        *("next_expiry", "lapsing_boards", "duties_of_the_absent", "awaited_and_absent"),
        *("boards_waiting_over", "tasks_waiting_over", "duties_of", "runs_idle", "run_moved", "turns_repeat"),
        *(
            "questions_unanswered",
            "agreeing_and_absent",
            "agreements_lapsing",
            "going_band",
            "going_plain",
            "restored_since",
        ),
    },
    "what an operator's rules let be forgotten, and how it was, asked of items that were found for the agent": {
        *("archive_numbers", "forgettable", "anything_forgotten", "forgotten_by", "finding_forget"),
        *("deliveries_forget", "kept_forget"),
    },
    "an operator's command that brings what stands under read rules: it names what it may not move": {
        *("bound_among", "kept_entry", "concerns_keep", "deliveries_keep", "figures_drop", "figures_fill"),
    },
    "counting all texts anew by another tokenizer: nobody is shown any": {
        *("counted_items", "counted_versions", "counted_working"),
    },
    "where the log was at an instant, or so many events ago: no word of what happened": {
        *("event_since", "event_of_agents", "event_from", "event_at", "log_reach"),
    },
    "the search index holds all: a search confirms its hits with the store": {
        *("outbox_oldest", "outbox_empty", "archived_keys", "settled_keys", "outbox_items", "settled_sums"),
        *("waiting_of_board", "waiting_items", "archived_page", "history_outbox"),
    },
    "to choose an index: entries that match are asked for with the predicate": {
        "parts_counted",
        "live_keys_counted",
    },
    "use: counted for what was read, told to nobody": {"agents_seen", "items_read", "items_sighted"},
    "the log for all who follow it: `Event.visible_to` says to whom each event goes": {"events_whole"},
    "a board whole, as the operator exports and imports it": {
        *("history_private", "history_owners", "history_item", "history_unfinished", "history_debateless"),
        *("history_let_go", "history_counters", "history_edges"),
        *("history_owed_again", "history_looks", "history_watching"),
    },
    "writes": {
        *("outbox_done", "retractions_clear", "spreading_done", "held_drop", "held_clear", "version_keep"),
    },
}
"""Statements over those tables that ask nobody's permission, and why not."""
BY_HAND = {
    "of events": re.compile(r"\bevent\.owner (?:==|!=|in |not in )"),
    "sql": re.compile(r"\bowner\s*(?:=|<>|!=|IN\b|NOT IN\b)"),
    "py": re.compile(r"\bowner (?:IN\b|NOT IN\b|<> |= ['?])|\.owner (?:==|!=|in |not in )"),
}
ELSEWHERE = {
    "agents.sql": ("SET owner = excluded.owner", "FROM principal WHERE owner = ?1"),  # whom an agent acts for
    "tokens.sql": ("owner <> ?2 AND (revoked_at",),  # whom a token speaks for
    "reading.sql": ("AND e.owner = m.owner",),  # a mark that the agent may see
    # the entries of a key that bear one mark, or one of those that the agent's own may bear; whom an agent acts for
    "posting.sql": ("AND owner = ?2 AND key = ?3", "AND owner = m.mark", "WHERE p.owner = own.name"),
    # marks of read rules that items get, and the entry of a key that bears one
    "read_rules.sql": ("AND owner = ?2 AND key = ?3", "SET owner = m.mark", "SET owner = ?3, concerns"),
    "votes.py": ("v.owner not in own",),  # for whom votes count
    "decisions.py": ("d.owner not in own",),  # for whom decisions count
    "duplicates.sql": ("AND i.owner = ?5 AND VISIBLE(i.owner, ?3)",),  # the agent's own that bears one mark
}
"""The same words where they are about something else."""


def queries() -> dict[str, str]:
    folder = resources.files("blackboard_mcp.storage.sqlite") / "queries"
    named: dict[str, str] = {}
    for file in folder.iterdir():
        parts = re.split(r"^-- name: (\w+)$", file.read_text("utf-8"), flags=re.MULTILINE)[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            named[name] = re.sub(r"^--.*\n", "", body, flags=re.MULTILINE)
    return named


def test_every_statement_that_reads_what_agents_may_not_all_see_says_who_may() -> None:
    exempt = [name for names in WITHOUT.values() for name in names]
    assert len(exempt) == len(set(exempt))
    named = queries()
    asking = {name for name, text in named.items() if set(re.findall(r"(?:FROM|JOIN)\s+(\w+)", text)) & SEEN}
    # What examines a file for the operator asks of all that is in it.
    silent = {name for name in asking if not WORDS.search(named[name]) and not name.startswith("examine_")}
    assert silent == set(exempt)
    assert len(asking - silent) > 45


def test_nothing_but_the_one_place_spells_out_who_may_see() -> None:
    root = Path(__file__).parents[3]
    files = [
        file
        for part in ("protocols", "storage", "server")
        for pattern in ("*.py", "*.sql")
        for file in (root / part).rglob(pattern)
        if not {"migrations", "testing", ".venv"} & set(file.parts)
        and file.name not in ("visibility.py", "schema.sql")  # which says what the migrations say
    ]
    assert len(files) > 200
    spelled = [
        f"{file.relative_to(root)}: {line.strip()}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        if BY_HAND["of events" if "server" in file.parts else file.suffix[1:]].search(line)
        and not any(words in line for words in ELSEWHERE.get(file.name, ()))
    ]
    assert spelled == []


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "VISIBLE(i.owner, ?3)",
            r"(i.owner IN ('', ?3, 'team:' || coalesce(.*p.agent = ?3), ?3)) OR i.owner GLOB.*)",
        ),
        (
            "VISIBLE(owner, ?)",
            r"(owner IN ('', ?, 'team:' || coalesce(.*p.agent = ?), ?)) OR owner GLOB 'read:*'.*)",
        ),
        ("PUBLIC(i.owner) AND HIDDEN(owner)", "i.owner = '' AND owner <> ''"),
        ("SHARED(s.owner, item.owner)", "s.owner IN ('', item.owner)"),
        ("ORDER BY NEAREST(owner, ?3)", "ORDER BY owner NOT GLOB .*, owner = ?3, owner"),
    ],
)
def test_the_words_are_written_out(text: str, meaning: str) -> None:
    assert re.fullmatch(re.escape(meaning).replace(r"\.\*", ".*"), sight.expanded(text))


def test_no_word_is_left_in_a_statement() -> None:
    assert not [
        name
        for name, text in queries().items()
        if re.search(r"\b[A-Z]{6,7}\([a-z_.]*owner", sight.expanded(text))
    ]


def test_statements_and_viewers_mean_the_same() -> None:
    raw = driver.library().connect(":memory:")
    raw.execute("CREATE TABLE principal(agent TEXT PRIMARY KEY, owner TEXT)")
    raw.executemany(
        "INSERT INTO principal VALUES (?, ?)", [("alice", "acme"), ("bob", "acme"), ("carol", "other")]
    )
    raw.executescript(
        """CREATE TABLE rule_reader(mark TEXT, principal TEXT);
        INSERT INTO rule_reader VALUES ('read:a', 'alice'), ('read:b', 'team:acme'), ('read:c', 'role:steward'),
            ('read:d', '*'), ('read:e', ':');
        CREATE TABLE acting_role(place INTEGER, who TEXT, role TEXT);
        INSERT INTO acting_role VALUES (1, 'dave', 'steward'), (2, 'carol', 'steward'), (1, 'bob', 'observer');"""
    )
    owners = {"alice": "acme", "bob": "acme", "carol": "other", "dave": "dave", "acme": "acme"}
    reads = {"alice": "abd", "bob": "bd", "carol": "d", "dave": "cd", "acme": "bd"}
    kept = [f"read:{rule}{of}" for rule in "abcdefg" for of in ("", ":dave", ":eve")]
    marks = ["", *owners, *(team_of(name) for name in (*owners, "other", "")), *kept, "read:", "read"]
    for agent, owner in owners.items():
        asked = sight.expanded("SELECT VISIBLE(m.owner, ?2) FROM (SELECT ?1 AS owner, 1 AS board) m")
        for mark in marks:
            seen = bool(raw.execute(asked, (mark, agent)).fetchone()[0])
            viewer = Viewer(agent, owner, [f"read:{rule}" for rule in reads[agent]])
            assert seen == viewer.sees(mark), (agent, mark)
    everybody = [mark for mark in marks if raw.execute(asked, (mark, "")).fetchone()[0]]
    assert everybody == ["", team_of(""), "read:d", "read:d:dave", "read:d:eve"], (
        "who is nobody sees what everybody does; no owner is called nothing"
    )
    raw.close()
