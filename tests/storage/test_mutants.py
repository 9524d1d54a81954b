"""The suite sees what it is there to see: with each of these mistakes put in, a named check fails.

A check is a test of the conformance kit, run by hand on a store with the mistake, or the walk against
the model, asked which invariant broke.
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols import guard
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.debates import ObligationState
from blackboard_mcp.protocols.errors import BlackboardError, StoreError
from blackboard_mcp.protocols.events import LEFT, EventType
from blackboard_mcp.protocols.guard import Hold, spread
from blackboard_mcp.protocols.items import Draft, Edge, EdgeKind, Status, Zone
from blackboard_mcp.storage.operation import Operation, Rows
from blackboard_mcp.storage.operations.access import members
from blackboard_mcp.storage.operations.debates import answers as answering
from blackboard_mcp.storage.operations.debates import calls, decisions
from blackboard_mcp.storage.operations.debates import debates as debating
from blackboard_mcp.storage.operations.items import (
    deletion,
    endorsements,
    posting,
    questions,
    retraction,
    statuses,
)
from blackboard_mcp.storage.operations.items import edges as linking
from blackboard_mcp.storage.operations.leaving import candidates, guard_index, pruning, summaries
from blackboard_mcp.storage.operations.ledger import idempotency as repeating
from blackboard_mcp.storage.operations.ledger import read_set, rows
from blackboard_mcp.storage.operations.ledger.ledger import Ledger, load_any
from blackboard_mcp.storage.postgres.engine import PostgresEngine
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.postgres.writing import Writer
from blackboard_mcp.storage.sqlite import group
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from blackboard_mcp.storage.testing.walk.machine import walk
from blackboard_mcp.storage.testing.walk.walks import inline, stride
from profiles import HISTORIES, WALKED, draw_alike_everywhere

Mutate = Callable[[pytest.MonkeyPatch], None]


def statement(name: str, text: str) -> Mutate:
    """Another text for a named statement."""
    return lambda patch: patch.setitem(rows._statements(), name, text)


def one_hop(patch: pytest.MonkeyPatch) -> None:
    """The guard looks at the neighbours of a debate and no further."""

    def near(starts: Iterable[Hold]) -> Generator[tuple[Hold, ...], Iterable[Edge], None]:
        walk = spread([hold for hold in starts if hold.depth < 2])
        try:
            layer = next(walk)
            while True:
                edges = yield layer
                layer = walk.send([] if any(hold.depth for hold in layer) else edges)
        except StopIteration:
            return

    patch.setattr(guard_index, "spread", near)


def nothing_held(patch: pytest.MonkeyPatch) -> None:
    """Only what is owed is held: an answered critique leaves in the middle of its debate."""
    patch.setattr(guard_index, "spread", lambda starts: iter(()))


def edges_later(patch: pytest.MonkeyPatch) -> None:
    """The guard's index is not told of edges that join what it holds to what it does not."""
    patch.setattr(guard_index, "steps", lambda edge, position: None)


def close_forgets(patch: pytest.MonkeyPatch) -> None:
    """What a debate held goes free when it closes, although another debate holds it as well."""

    def again(no: int, dropped: Collection[int]) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(guard_index, "_hold_again", again)


def close_keeps(patch: pytest.MonkeyPatch) -> None:
    """What a debate held stays held when it closes."""

    def release(no: int, debate: int) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(guard_index, "release", release)


def close_starts_anew(patch: pytest.MonkeyPatch) -> None:
    """What is held again is looked for from the debates alone, not from what others hold next to it."""
    statement("edges_from_held", "SELECT 1, '', 1, 1, 1, 1 WHERE 0 AND ?1 AND ?2")(patch)


def any_status(patch: pytest.MonkeyPatch) -> None:
    """What is final is left again."""
    patch.setattr(statuses, "TRANSITIONS", {status: frozenset(Status) for status in Status})


def evict_without_event(patch: pytest.MonkeyPatch) -> None:
    """Items leave and the log says nothing."""

    emit = Ledger.emit

    def silent(
        self: Ledger, event: EventType, item: rows.ItemRow | None = None, **more: Any
    ) -> rows.Steps[int]:
        if item is not None and event in LEFT:
            return item.seq
        return (yield from emit(self, event, item, **more))

    def silent_all(
        self: Ledger, events: Iterable[tuple[Any, rows.ItemRow, Any, Any]], **more: Any
    ) -> rows.Steps[list[int]]:
        return [item.seq for _, item, _, _ in events]
        yield  # a generator

    patch.setattr(Ledger, "emit", silent)
    patch.setattr(Ledger, "emit_all", silent_all)


def decide_outside(patch: pytest.MonkeyPatch) -> None:
    """A pass moves what it chose, whatever has happened since."""

    def stay(*given: Any) -> rows.Steps[set[int]]:
        return set()
        yield  # a generator

    patch.setattr(pruning, "_stay", stay)


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    """The caller hears of success before the COMMIT that makes it true."""
    honest = group.GroupWriter._attempt

    def attempt(self: group.GroupWriter, raw: Any, job: group.Job, **more: Any) -> None:
        honest(self, raw, job, **more)
        if job.error is None:
            settle = functools.partial(_resolve, job.future, job.result)
            job.future.get_loop().call_soon_threadsafe(settle)

    patch.setattr(group.GroupWriter, "_attempt", attempt)
    commit = Writer.commit

    async def whatever(self: Writer, *given: Any) -> None:
        await commit(self, *given)

    patch.setattr(Writer, "commit", whatever)


def _resolve(future: Any, result: Any) -> None:
    if not future.done():
        future.set_result(result)


def author_may_close(patch: pytest.MonkeyPatch) -> None:
    """Consensus counts the author under criticism."""

    def settle(opened: Ledger, debate: debating.Open, _: Rows | None) -> rows.Steps[bool]:
        listed = yield rows.sql("obligations_of_debates"), (opened.no, rows.numbers([debate.id]))
        if not any(row[2] == "acknowledge" and row[3] == "acknowledged" for row in listed):
            return False
        yield from debating.close(
            opened, debate, debating.DebateState.CONSENSUS, "agreed", debating.Outcome.STANDS
        )
        return True

    patch.setattr(debating, "_settle_if_agreed", settle)


def critics_agree_with_themselves(patch: pytest.MonkeyPatch) -> None:
    """A critic acknowledges before there is an answer to judge."""

    def unanswered(no: int, debate: int) -> rows.Steps[list[int]]:
        return []
        yield  # a generator

    patch.setattr(answering, "unanswered", unanswered)
    look, summon = debating._open_debates, answering.summon

    def answered(*given: Any) -> rows.Steps[list[debating.Open]]:
        listed = yield from look(*given)
        for debate in listed:
            debate.waiting.clear()
        return listed

    def at_once(
        ledger: Ledger, debate: int, root: int, waiting: Collection[int] = ()
    ) -> rows.Steps[list[str]]:
        return (yield from summon(ledger, debate, root, []))

    patch.setattr(debating, "_open_debates", answered)
    patch.setattr(debating, "_judging", lambda *_: ObligationState.OUTSTANDING)
    for module in (answering, debating):
        patch.setattr(module, "summon", at_once)


def anybody_answers(patch: pytest.MonkeyPatch) -> None:
    """What anybody says to a critique is the answer to it."""

    def may(ledger: Ledger, critique: rows.ItemRow, asked: Rows) -> rows.Steps[bool]:
        return True
        yield  # a generator

    patch.setattr(answering, "_may_answer", may)


def forget_versions(patch: pytest.MonkeyPatch) -> None:
    """A new version overwrites the former one."""
    statement("version_keep", "SELECT ?1, ?2 WHERE 0")(patch)


def delete_without_a_version(patch: pytest.MonkeyPatch) -> None:
    """A delete leaves the version where it is."""
    real = rows.sql("item_delete").replace("version = ?3", "version = ?3 - 1")
    statement("item_delete", real)(patch)
    statement("version_keep", rows.sql("version_keep") + " AND ?1 = ?1 ON CONFLICT DO NOTHING")(patch)


def versions_with_gaps(patch: pytest.MonkeyPatch) -> None:
    """A version after a tombstone begins one further on."""
    statement("item_delete", rows.sql("item_delete").replace("version = ?3", "version = ?3 + 1"))(patch)


def delete_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """A delete does not ask the guard."""

    def free(ledger: Ledger, row: rows.ItemRow) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(deletion, "_free", free)


def tombstones_as_live(patch: pytest.MonkeyPatch) -> None:
    """Who reads the key of a deleted entry finds the tombstone."""
    statement("items_by_key", rows.sql("items_by_key").replace("updated_by, deleted", "updated_by, 0"))(patch)


def no_cycle_check(patch: pytest.MonkeyPatch) -> None:
    statement("depends_reaches", "SELECT 1 WHERE 0 AND ?1 AND ?2 AND ?3")(patch)


def supersede_unguarded(patch: pytest.MonkeyPatch) -> None:
    def nothing(no: int, wanted: Iterable[int]) -> rows.Steps[set[int]]:
        return set()
        yield  # a generator

    patch.setattr(guard_index, "protected_among", nothing)


def replies_ignored(patch: pytest.MonkeyPatch) -> None:
    """The guard does not follow `replies_to`."""
    honest = guard.steps

    def steps(edge: Edge, position: int) -> int | None:
        return None if edge.kind is EdgeKind.REPLIES_TO else honest(edge, position)

    patch.setattr(guard, "steps", steps)
    patch.setattr(guard_index, "steps", steps)


def summary_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A summary takes the place of its sources whatever became of them while it was written."""

    def standing(no: int, thread: int, seen: Mapping[int, int]) -> rows.Steps[dict[int, rows.ItemRow] | None]:
        return (yield from load_any(no, seen)) or None

    patch.setattr(summaries, "_standing", standing)


def waive_silently(patch: pytest.MonkeyPatch) -> None:
    """What is owed lapses, and the log says nothing."""

    def waive(opened: Ledger, owed: Rows, reason: str) -> rows.Steps[None]:
        for row in owed:
            yield from debating.settle_duty(opened, row, ObligationState.WAIVED, reason)

    patch.setattr(debating, "waive", waive)
    patch.setattr(calls, "waive", waive)


def supersede_at_once(patch: pytest.MonkeyPatch) -> None:
    """What a post supersedes leaves before the debate that the same post opens."""
    honest = linking.connect

    def connect(opened: Ledger, row: rows.ItemRow, *said: Any) -> rows.Steps[list[linking.Replaced]]:
        replaced = yield from honest(opened, row, *said)
        yield from linking.supersede(opened, replaced)
        return []

    patch.setattr(linking, "connect", connect)


def same_but_for_edges(patch: pytest.MonkeyPatch) -> None:
    """A finding that rests on something else is taken for the same."""
    honest = endorsements.find

    def find(opened: Ledger, draft: Draft, edges: Any) -> rows.Steps[rows.ItemRow | None]:
        return (yield from honest(opened, draft, ()))

    patch.setattr(endorsements, "find", find)


def same_whatever_is_asked(patch: pytest.MonkeyPatch) -> None:
    """A question mark is taken for spelling."""
    honest = endorsements.normal_form
    patch.setattr(endorsements, "normal_form", lambda text: honest(text.rstrip("?")))
    patch.setattr(endorsements, "fingerprint", lambda text: honest(text.rstrip("?")))


def one_step(patch: pytest.MonkeyPatch) -> None:
    """Notices reach what cites the retracted item and go no further."""
    patch.setattr(retraction, "_PASSED_ON", ())
    text = rows.sql("citing")
    statement(
        "citing", text.replace("WHERE board = ?1 AND target = ?2", "WHERE ?5 AND board = ?1 AND target = ?2")
    )(patch)


def notices_for_all(patch: pytest.MonkeyPatch) -> None:
    """What rests on a private item says so to everybody."""

    def told(ledger: object, source: rows.ItemRow, row: rows.ItemRow) -> rows.Steps[bool]:
        return True
        yield  # a generator

    patch.setattr(retraction, "_told", told)


def opened(*names: str) -> Mutate:
    """Statements that forget to ask who may see what they find."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        for name in names:
            seen = rows.sql(name)
            text = ANYBODY.sub(r"\1 = \1 AND \2 = \2", INDEXED.sub("", seen))
            assert text != seen
            patch.setitem(rows._statements(), name, text)

    return mutate


def every_board_is_a_team(patch: pytest.MonkeyPatch) -> None:
    """Who is of one team is of all."""
    for name in rows._statements():
        text = rows.sql(name)
        if ANYBODY.search(text):
            wider = ANYBODY.sub(r"(\1 IN ('', \2) OR \1 LIKE 'team:%')", INDEXED.sub("", text))
            patch.setitem(rows._statements(), name, wider)


ANYBODY = re.compile(r"\b([a-z.]*owner) IN \('', (\?\d), 'team:' \|\| coalesce\(.*?\), \?\d\)\)")
"""The words of SQL that decide visibility, but for read rules."""
INDEXED = re.compile(r"\b[a-z.]*owner IN \(SELECT '' .*? FROM kept_mark\) AND ")
"""Words of SQL that only bring a statement to an index."""
OWN_OWNER = "(SELECT owner FROM principal WHERE agent = ?2)"
NEVER_OWED = "SELECT number FROM held WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2))"
VOTES_MOVED_ON = (
    "SELECT v.debate, v.owner, v.agent, i.version, v.approve, v.reason, v.at FROM vote v "
    "JOIN debate d ON d.board = v.board AND d.id = v.debate JOIN item i ON i.board = d.board AND i.number = d.root "
    "WHERE v.board = ?1 AND v.debate IN (SELECT value FROM json_each(?2))"
)
DELETE = (
    "DELETE FROM item WHERE board = ?1 AND number IN (SELECT json_extract(value, '$[0]') FROM json_each(?2))"
)
LEAK = (
    "SELECT seq, event, item, type, key, version, thread, agent, tags, at, data, owner, concerns FROM event "
)
LEAK += "WHERE board = ?1 AND seq > ?2 AND ?3 <> '' AND seq <= ?5 ORDER BY seq LIMIT ?4"


def kept_later(patch: pytest.MonkeyPatch) -> None:
    """What a call answered is kept in a transaction after that of the call."""
    honest = repeating.remember
    pending: list[tuple[Any, ...]] = []

    def later(*given: Any) -> rows.Steps[None]:
        pending.append(given)
        return
        yield  # a generator

    def twice(write: Callable[..., Any]) -> Callable[..., Any]:
        async def writing(self: Any, operation: Operation[Any]) -> Any:
            answer = await write(self, operation)
            while pending:
                given = pending.pop(0)
                await write(self, lambda given=given: honest(*given))
            return answer

        return writing

    patch.setattr(repeating, "remember", later)
    for engine in (SqliteEngine, PostgresEngine):
        patch.setattr(engine, "write", twice(engine.write))


ANY_OWNER = (
    "SELECT number, type, key, version, deleted FROM item "
    "WHERE board = ?1 AND number IN (SELECT value FROM json_each(?2)) AND ?3 <> ''"
)
ANY_EVENT = (
    "SELECT seq FROM event WHERE board = ?1 AND seq > ?3 AND seq <= ?4 AND ?2 <> '' ORDER BY seq DESC LIMIT 1"
)


def first_only(patch: pytest.MonkeyPatch) -> None:
    """A conflict names the first thing that moved."""
    honest = read_set.Moved.add

    def add(self: read_set.Moved, name: str, present: int, words: str) -> None:
        if not self.now:
            honest(self, name, present, words)

    patch.setattr(read_set.Moved, "add", add)


def counted_anyhow(patch: pytest.MonkeyPatch) -> None:
    """What is written may have been counted by any tokenizer."""
    honest = posting.apply

    def apply(ledger: Ledger, drafts: Sequence[Draft]) -> rows.Steps[tuple[list[int], list[int]]]:
        return honest(ledger, [replace(d, counted_by=ledger.board.config.tokenizer) for d in drafts])

    patch.setattr(posting, "apply", apply)


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """What is written need not have been checked against the board's rules."""
    honest = posting.apply

    def apply(ledger: Ledger, drafts: Sequence[Draft]) -> rows.Steps[tuple[list[int], list[int]]]:
        return honest(ledger, [replace(d, checked=ledger.board.config.validation) for d in drafts])

    patch.setattr(posting, "apply", apply)


def everything_amends(patch: pytest.MonkeyPatch) -> None:
    """Whatever a claim is conceded for, its author has reworded it."""
    patch.setattr(decisions, "behind", lambda row: always({"alice"}))


def always(value: Any) -> rows.Steps[Any]:
    return value
    yield  # a generator


def nobody(*given: Any) -> rows.Steps[tuple[str, ...]]:
    return ()
    yield  # a generator


def nothing_back(board: rows.BoardRow, since: candidates.Lately) -> rows.Steps[set[int]]:
    return set()
    yield  # a generator


def nothing_cited(
    board: rows.BoardRow, since: candidates.Lately
) -> rows.Steps[tuple[dict[int, str], frozenset[int]]]:
    return {}, frozenset()
    yield  # a generator


_grounds = candidates.grounds


def only_of_open_debates(
    board: rows.BoardRow, since: candidates.Lately
) -> rows.Steps[tuple[dict[int, str], frozenset[int]]]:
    return (yield from _grounds(board, candidates.Lately(1 << 62, 1 << 62)))


def without_conditions(patch: pytest.MonkeyPatch) -> None:
    """Whatever a kind and an age fit may be forgotten."""
    kept = rows.sql("forgettable").partition("AND NOT EXISTS")[0].replace("i.zone = 'archive' AND", "")
    patch.setitem(rows._statements(), "forgettable", kept)


def on_any_side(patch: pytest.MonkeyPatch) -> None:
    """A post to a key changes the nearest entry, whatever its visibility."""
    honest = posting.marks_for

    def marks_for(
        board: rows.BoardRow, agent: str, draft: Draft, owner: str | None = None
    ) -> rows.Steps[tuple[str, ...]]:
        return (yield from honest(board, agent, replace(draft, visibility=None), owner))

    patch.setattr(posting, "marks_for", marks_for)


def forgets_by(part: str) -> Mutate:
    """One condition of what may be forgotten is missing: the one with these words."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        first, *conditions = rows.sql("forgettable").split("AND NOT EXISTS")
        kept = [condition for condition in conditions if part not in condition]
        assert len(kept) == len(conditions) - 1
        patch.setitem(rows._statements(), "forgettable", "AND NOT EXISTS".join([first, *kept]))

    return mutate


BY_THE_KIT: list[tuple[str, Mutate, str, dict[str, Any]]] = [
    (
        "forgets what came back",
        without_conditions,
        "test_what_came_back_in_between_is_not_forgotten",
        {"clock": ...},
    ),
    (
        "forgets what is cited",
        forgets_by("e.target = i.number"),
        "test_what_live_items_cite_stays",
        {"clock": ...},
    ),
    (
        "forgets answers",
        forgets_by("e.source = i.number"),
        "test_what_bears_on_a_live_item_stays",
        {"clock": ...},
    ),
    (
        "one-hop guard",
        one_hop,
        "test_a_chain_that_leads_to_a_debate_is_protected_to_its_end",
        {"chain": "mixed"},
    ),
    ("one-hop guard", one_hop, "test_a_chain_that_leads_away_from_a_debate_is_protected_to_its_end", {}),
    ("one-hop guard", one_hop, "test_a_chain_runs_through_archived_items", {}),
    ("closing frees nothing", close_keeps, "test_a_chain_runs_through_archived_items", {}),
    (
        "closing forgets other debates",
        close_forgets,
        "test_what_two_debates_hold_stays_until_both_are_over",
        {},
    ),
    (
        "closing looks at roots alone",
        close_starts_anew,
        "test_what_a_debate_leans_on_stays_when_the_debate_that_held_it_first_is_over",
        {},
    ),
    (
        "guard without obligations",
        statement("protected_among", NEVER_OWED),
        "test_an_unmet_obligation_protects_until_it_is_met_or_waived",
        {},
    ),
    *(
        (
            f"{name} asks nobody",
            opened(name),
            "test_a_team_item_is_absent_for_everybody_else",
            {},
        )
        for name in (
            *(
                "items_by_number",
                "items_by_key",
                "events_after",
                "events_of_item",
                "edges_visible",
                "status_counts",
            ),
            *("tags_of_board", "outbox_of_board", "own_notes"),
        )
    ),
    (
        "every agent is of every team",
        every_board_is_a_team,
        "test_a_team_item_is_absent_for_everybody_else",
        {},
    ),
    (
        "evict without an outbox row",
        statement("outbox_add_all", "SELECT ?1, ?2 WHERE 0"),
        "test_what_moves_is_told_to_the_index_in_the_same_transaction",
        {},
    ),
    (
        "evict by deleting",
        statement("items_archive", DELETE),
        "test_every_text_comes_back_byte_for_byte_with_its_hash",
        {},
    ),
    (
        "evict without an event",
        evict_without_event,
        "test_why_left_names_the_event_of_what_is_in_the_archive",
        {},
    ),
    (
        "what was chosen leaves unseen",
        decide_outside,
        "test_a_critique_during_a_pass_comes_before_it_or_brings_its_target_back",
        {},
    ),
    (
        "agents counted for owners",
        statement("board_opened", rows.sql("board_opened").replace(OWN_OWNER, "NULL")),
        "test_an_owner_has_one_vote_whatever_agents_it_has",
        {},
    ),
    (
        "agents counted for owners",
        statement("owners_of", "SELECT value, value FROM json_each(?1)"),
        "test_a_second_agent_of_the_authors_owner_makes_no_consensus",
        {},
    ),
    (
        "votes on any version",
        statement("votes_of", VOTES_MOVED_ON),
        "test_a_new_version_makes_former_votes_count_no_more",
        {},
    ),
    (
        "leases by the clock alone",
        statement("agents_seen", "SELECT ?1, ?2, ?3"),
        "test_whoever_is_seen_stays_a_watcher",
        {"clock": ...},
    ),
    *(
        (
            "who comes back waits for nobody",
            statement(name, rows.sql(name).replace("THEN excluded.waits_until", "THEN waits_until")),
            check,
            {"clock": ...},
        )
        for name, check in (
            ("agent_seen", "test_who_is_back_first_after_a_night_waits_for_the_others"),
            ("agents_seen", "test_who_stays_away_is_let_off_while_the_author_is_there_and_may_come_back"),
        )
    ),
    (
        "the author closes",
        author_may_close,
        "test_the_author_alone_never_closes_a_debate_of_their_own_opening",
        {},
    ),
    *(
        ("critics agree with themselves", critics_agree_with_themselves, check, {})
        for check in (
            "test_nobody_acknowledges_before_every_critique_is_answered",
            "test_a_critique_opens_a_debate",
        )
    ),
    (
        "anybody answers",
        anybody_answers,
        "test_the_criticised_side_answers",
        {"who": "carol"},
    ),
    (
        "all that is conceded is amended",
        everything_amends,
        "test_what_is_conceded_is_amended_to_ones_own_item_and_falls_to_anothers",
        {"writer": "carol", "outcome": "falls"},
    ),
    ("forget versions", forget_versions, "test_old_versions_stay_readable_byte_for_byte", {"clock": ...}),
    (
        "a delete takes no version",
        delete_without_a_version,
        "test_I22_a_delete_takes_a_version_and_leaves_the_former_ones_readable",
        {"clock": ...},
    ),
    ("delete what is held", delete_what_is_held, "test_I3_what_the_guard_holds_cannot_be_deleted", {}),
    (
        "read tombstones as live",
        tombstones_as_live,
        "test_a_deleted_key_reads_as_missing_and_its_versions_do_not",
        {},
    ),
    (
        "private entries deleted for all to see",
        on_any_side,
        "test_I25_private_and_shared_entries_of_a_key_are_deleted_apart",
        {},
    ),
    ("no check for cycles", no_cycle_check, "test_depends_on_has_no_cycle", {"length": 6}),
    (
        "law left out of snapshots",
        statement("law", "SELECT number, type FROM item WHERE 0 AND ?1 AND ?2"),
        "test_a_snapshot_is_of_one_moment_with_the_law_the_debts_and_the_debates",
        {},
    ),
    ("supersede unguarded", supersede_unguarded, "test_superseding_does_not_get_past_the_guard", {}),
    (
        "supersede before the debate",
        supersede_at_once,
        "test_an_item_put_up_for_debate_does_not_supersede_what_the_debate_reaches",
        {},
    ),
    (
        "replies ignored",
        replies_ignored,
        "test_a_chain_that_leads_to_a_debate_is_protected_to_its_end",
        {"chain": "replies"},
    ),
    (
        "summary unchecked",
        summary_unchecked,
        "test_a_summary_is_thrown_away_when_the_thread_moved",
        {"how": "changed"},
    ),
    (
        "summary unchecked",
        summary_unchecked,
        "test_a_summary_is_thrown_away_when_the_thread_moved",
        {"how": "watched"},
    ),
    (
        "a summary takes importance 5",
        lambda patch: patch.setattr(summaries, "exempt", lambda status, importance: False),
        "test_a_summary_never_stands_for_what_it_must_not",
        {"what": "important"},
    ),
    (
        "a question that waits may leave",
        lambda patch: patch.setattr(questions, "ask", nobody),
        "test_a_question_stays_until_whom_it_names_answers",
        {},
    ),
    (
        "what a debate cites leaves in mid-argument",
        lambda patch: patch.setattr(candidates, "grounds", nothing_cited),
        "test_what_members_of_an_open_debate_cite_stays_with_them",
        {},
    ),
    (
        "what a debate rested on leaves as soon as it is settled",
        lambda patch: patch.setattr(candidates, "grounds", only_of_open_debates),
        "test_what_a_settled_debate_rested_on_stays_a_while",
        {"clock": ...},
    ),
    (
        "what debates cite has no end",
        lambda patch: patch.setattr(candidates, "GROUNDS_SHARE", 1),
        "test_what_debates_cite_stays_as_far_as_there_is_room_and_the_rest_is_named",
        {},
    ),
    (
        "what was restored leaves at once",
        lambda patch: patch.setattr(candidates, "restored", nothing_back),
        "test_what_was_restored_stays_for_a_while",
        {"clock": ...},
    ),
    (
        "nobody is told of open work that left",
        lambda patch: patch.setattr(pruning, "_concerned", nobody),
        "test_who_is_concerned_by_open_work_that_leaves_is_told",
        {},
    ),
    (
        "waive silently",
        waive_silently,
        "test_a_watcher_who_stays_away_is_waived_in_sight",
        {"clock": ...},
    ),
    (
        "a log for everybody",
        statement("events_after", LEAK),
        "test_a_private_item_leaves_no_trace_in_the_log_of_others",
        {},
    ),
    (
        "the same but for edges",
        same_but_for_edges,
        "test_edges_the_first_has_are_no_difference_and_others_are",
        {},
    ),
    (
        "notices go one step",
        one_step,
        "test_a_notice_follows_what_depends_and_derives_and_stops_at_support",
        {},
    ),
    (
        "notices leave what is private",
        notices_for_all,
        "test_a_retracted_private_item_marks_its_owners_private_items_alone",
        {},
    ),
    (
        "a conflict of the first only",
        first_only,
        "test_a_conflict_names_everything_that_moved_and_changes_nothing",
        {},
    ),
    (
        "conflicts on what is private",
        statement("standing_items", ANY_OWNER),
        "test_what_is_private_to_others_reads_as_absent_and_moves_nothing",
        {},
    ),
    (
        "private events move the board",
        statement("last_event", ANY_EVENT),
        "test_what_is_private_to_others_reads_as_absent_and_moves_nothing",
        {},
    ),
    (
        "notices wait for nobody",
        statement("spreading_add", "SELECT 1 WHERE 0 AND ?1 AND ?2 AND ?3 AND ?4 AND ?5 AND ?6"),
        "test_a_wide_and_deep_retraction_reaches_everything_in_slices",
        {},
    ),
    *(
        (
            "an answer is kept after the commit",
            kept_later,
            "test_repetitions_at_the_same_time_apply_once",
            {"name": name},
        )
        for name in ("post", "set_core", "debate_withdraw", "subscribe")
    ),
    (
        "an answer is kept after the commit",
        kept_later,
        "test_a_cancelled_call_is_whole_or_not_there_and_its_repetition_completes_it",
        {},
    ),
    (
        "a key counts for ever",
        statement(
            "idempotency_get",
            "SELECT digest, answer FROM idempotency WHERE board = ?1 AND agent = ?2 AND key = ?3 AND ?4",
        ),
        "test_a_key_counts_no_more_after_its_time_whether_or_not_it_was_swept",
        {"clock": ...},
    ),
    (
        "what counts still is swept",
        statement(
            "idempotency_due",
            "SELECT board, agent, key FROM idempotency WHERE expires_at <= ?1 + 2000000 ORDER BY expires_at LIMIT ?2",
        ),
        "test_what_counts_no_more_is_swept_and_the_rest_stays",
        {"clock": ...},
    ),
    *(
        (
            "a grant is not looked at again",
            lambda patch: patch.setattr(members, "under", lambda write, operation: operation(write)),
            check,
            given,
        )
        for check, given in (
            ("test_no_write_passes_under_a_grant_that_holds_no_more", {"method": "post"}),
            ("test_no_write_passes_under_a_grant_that_holds_no_more", {"method": "take_next"}),
            ("test_of_a_post_and_the_loss_of_its_role_the_first_to_commit_counts", {}),
        )
    ),
    (
        "a lost role is remembered",
        statement("member_drop", "SELECT ?1, ?2"),
        "test_a_role_that_was_taken_away_leaves_what_the_credential_says",
        {},
    ),
    (
        "anybody gives any role",
        lambda patch: patch.setattr(members, "_check_powers", lambda *given: None),
        "test_nobody_gives_or_takes_more_than_they_may_themselves",
        {"before": None, "after": Role.STEWARD},
    ),
    (
        "rules are not asked for",
        unchecked,
        "test_a_board_with_rules_takes_only_what_was_checked_against_those",
        {},
    ),
    (
        "former versions keep their counts",
        statement("count_versions", "SELECT 1 WHERE 0 AND ?1 AND ?2"),
        "test_another_tokenizer_counts_every_version_of_every_item_anew",
        {},
    ),
    (
        "drafts counted by another tokenizer",
        counted_anyhow,
        "test_what_was_counted_by_another_tokenizer_is_not_written",
        {},
    ),
    (
        "restored items keep their time to live",
        statement("item_back", "UPDATE item SET zone = 'working', seq = ?3 WHERE board = ?1 AND number = ?2"),
        "test_I36_what_comes_back_lasts_until_a_time_to_live_is_said_anew",
        {"clock": ...},
    ),
]

BY_THE_WALK: list[tuple[str, Mutate, str]] = [
    ("one-hop guard", one_hop, "guard"),
    ("one-hop guard", one_hop, "I3"),
    ("no closure", nothing_held, "I3"),
    ("no closure", nothing_held, "I5"),
    ("edges that join later", edges_later, "guard"),
    ("edges that join later", edges_later, "I3"),
    ("closing forgets other debates", close_forgets, "guard"),
    ("closing frees nothing", close_keeps, "guard"),
    ("guard without obligations", statement("protected_among", NEVER_OWED), "I4"),
    ("evict by deleting", statement("items_archive", DELETE), "model"),
    ("evict without an event", evict_without_event, "I18"),
    ("evict without an event", evict_without_event, "I19"),
    ("critics agree with themselves", critics_agree_with_themselves, "model"),
    ("forget versions", forget_versions, "I1"),
    ("versions with gaps", versions_with_gaps, "I22"),
    ("delete what is held", delete_what_is_held, "I22"),
    ("read tombstones as live", tombstones_as_live, "I22"),
    ("no check for cycles", no_cycle_check, "I16"),
    (
        "retries applied twice",
        statement("idempotency_get", "SELECT 1 WHERE 0 AND ?1 AND ?2 AND ?3 AND ?4"),
        "I24",
    ),
    ("statuses as one likes", any_status, "I29"),
    ("a log for everybody", statement("events_after", LEAK), "I25"),
    (
        "a grant is not looked at again",
        lambda patch: patch.setattr(members, "under", lambda write, operation: operation(write)),
        "roles",
    ),
    ("replies ignored", replies_ignored, "I3"),
    ("summary unchecked", summary_unchecked, "I14"),
    ("waive silently", waive_silently, "waiver"),
    ("supersede unguarded", supersede_unguarded, "I3"),
    ("the same but for edges", same_but_for_edges, "model"),
    ("the same but for what is asked", same_whatever_is_asked, "I40"),
    ("notices go one step", one_step, "model"),
    ("a question that waits may leave", lambda patch: patch.setattr(questions, "ask", nobody), "guard"),
    (
        "what was restored leaves at once",
        lambda patch: patch.setattr(candidates, "restored", nothing_back),
        "I12",
    ),
]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


IN_SQLITES_WORDS = {
    "forgets what came back",
    "forgets what is cited",
    "forgets answers",
    "closing looks at roots alone",
    "evict without an outbox row",
    "forget versions",
    "no check for cycles",
    "law left out of snapshots",
    "notices go one step",
    "notices wait for nobody",
    "a key counts for ever",
    "former versions keep their counts",
}
"""Mistakes in a statement that PostgreSQL does not understand; operations and checks are the same there."""


@pytest.fixture(params=["file", "postgres"])
async def either(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> AsyncIterator[SqlBoardStore]:
    """A store of each engine."""
    if request.param == "file":
        opened = await SqlBoardStore.open(tmp_path / "board.db", clock=clock)
        yield opened
        await opened.close()
        return
    if any(f"postgres-{name} - " in request.node.name for name in IN_SQLITES_WORDS):
        pytest.skip("the mistake is in SQLite's words")
    opened = await open_postgres_store(postgres_server.address(tmp_path), clock=clock)
    yield opened
    await opened.close()
    postgres_server.give_back(tmp_path)


@pytest.mark.parametrize(
    ("mutate", "check", "given"),
    [pytest.param(m, c, g, id=f"{name} - {c}") for name, m, c, g in BY_THE_KIT],
)
async def test_the_kit_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch,
    either: SqlBoardStore,
    clock: HandClock,
    mutate: Mutate,
    check: str,
    given: dict[str, Any],
) -> None:
    """Without the mistake the check passes: `test_stores.py` runs it."""
    run = getattr(BoardStoreKit(), check)
    told = {name: clock if value is ... else value for name, value in given.items()}
    mutate(monkeypatch)
    with pytest.raises((AssertionError, BlackboardError, pytest.fail.Exception)) as seen:
        await run(at=Table(either), **told)
    assert "failed inside" not in str(seen.value), "the database does not understand the mistake"


SEEN_BEFORE = {
    "no closure - I5": 5,
    "closing forgets other debates - guard": 13,
    "guard without obligations - I4": 13,
    "delete what is held - I22": 13,
    "no check for cycles - I16": 22,
    "replies ignored - I3": 5,
    "the same but for what is asked - I40": 5,
    "notices go one step - model": 13,
    "a grant is not looked at again - roles": 41,
    "retries applied twice - I24": 21,
    "summary unchecked - I14": 22,
    "the same but for edges - model": 13,
}
"""Seeds of walks that saw a mistake after few steps: tried first, before all others."""


@pytest.mark.parametrize(
    ("mutate", "invariant"), [pytest.param(m, i, id=f"{name} - {i}") for name, m, i in BY_THE_WALK]
)
def test_the_walk_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch, mutate: Mutate, invariant: str, request: pytest.FixtureRequest
) -> None:
    """Each invariant by itself: what else the mistake breaks is let pass."""
    first = SEEN_BEFORE.get(request.node.callspec.id)
    draw_alike_everywhere(monkeypatch)  # the seeds are those of the day
    mutate(monkeypatch)
    seeds = sorted(WALKED, key=lambda seed: seed != first)
    outcome = walk(inline, stride(HISTORIES), only={invariant}, seeds=seeds, waits=False)
    assert outcome.broken is not None, outcome.error or "the walk saw nothing"
    with pytest.raises(AssertionError, match=invariant):
        outcome.assert_held(invariant)


# Acknowledged means committed: shown on the engine, where a commit can be made to fail.


async def check_nothing_is_acknowledged_that_was_not_committed(store: SqlBoardStore) -> None:
    """A dangling edge passes its statement and fails the COMMIT, where the constraint is checked."""
    at = Table(store)
    await at.post("alice", "a")

    def dangling() -> rows.Steps[str]:
        yield rows.sql("edge_add"), (1, 1, "supports", 99)
        return "done"

    with pytest.raises(StoreError):
        await store.engine.write(dangling)
    assert (await at.item(1)).edges == ()
    assert await at.zone(await at.post("alice", "b")) is Zone.WORKING


async def test_nothing_is_acknowledged_that_was_not_committed(either: SqlBoardStore) -> None:
    await check_nothing_is_acknowledged_that_was_not_committed(either)


async def test_the_check_sees_an_acknowledgement_before_the_commit(
    monkeypatch: pytest.MonkeyPatch, either: SqlBoardStore
) -> None:
    acknowledge_before_commit(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await check_nothing_is_acknowledged_that_was_not_committed(either)
