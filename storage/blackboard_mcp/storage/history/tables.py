"""The tables of the schema in a board's history, and the form of their rows in the file.

Every table is here with all its columns: a test compares this module with the schema. A new table of a board's truth
is one more `Table` below; it is then exported, imported, compared and left out of `--public` without further code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from blackboard_mcp.protocols.access import Role as MemberRole
from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.agenda import TaskState
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.debates import DebateState, Duty, ObligationState, Outcome
from blackboard_mcp.protocols.items import EdgeKind, Status, Zone
from blackboard_mcp.protocols.messages.request_result import RequestState
from blackboard_mcp.protocols.runs import RunState
from blackboard_mcp.protocols.stages import StageState
from blackboard_mcp.protocols.values import dataclass

from .forms import ANY, BYTES, DELETED, FLAG, INSTANT, ITEM, OBJECT, TEXT, TEXTS, WHOLE, WHOLES, RowForm, word


class ColumnRole(StrEnum):
    """The relation of a table to a board: its truth, computed from the truth, or data of the whole installation."""

    TRUTH = "truth"
    DERIVED = "derived"
    INSTALLATION = "installation"


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `columns` are stored in the history, `derived` are columns that are computed again.

    Rows with `item` (the column that names an item) are on the line of the last event about that item; `index` finds
    them if the key does not. Rows with `debate` (the column that names a debate) are on the line of that debate's root
    item. Rows with `beside_event` are on the line of the first event of their `agent` at their instant `at`, if there
    is one. All others are on the last line. `private` rows concern one agent only, and are left out of a public file.
    Derived tables are compared by the columns `compared`, or not at all if there are none. `triggered` tables are
    filled by triggers as items are written.
    """

    name: str
    role: ColumnRole
    key: tuple[str, ...] = ()
    columns: Mapping[str, RowForm] = field(default_factory=dict)
    derived: tuple[str, ...] = ()
    item: str = ""
    index: str = ""
    debate: str = ""
    beside_event: bool = False
    private: bool = False
    compared: tuple[str, ...] = ()
    triggered: bool = False


CONTENT: Mapping[str, RowForm] = {
    "version": WHOLE,
    "text": TEXT,
    "tags": TEXTS,
    "metadata": OBJECT,
    "tokens": WHOLE,
    "sha256": TEXT,
    "updated_at": INSTANT,
    "updated_by": TEXT,
    "written_at": INSTANT,
    "written_by": TEXT,
    "deleted": DELETED,
    "status": TEXT,
}
"""A version of an item with its last status, on the line of the first event at that version."""

ITEM_STANDING: Mapping[str, RowForm] = {
    "version": WHOLE,
    "status": word(Status),
    "zone": word((Zone.WORKING, Zone.ARCHIVE)),
    "importance": WHOLE,
    "author": TEXT,
    "created_at": INSTANT,
    "updated_at": INSTANT,
    "updated_by": TEXT,
    "ttl": WHOLE.or_null(),
    "expires_at": INSTANT.or_null(),
    "seq": WHOLE,
}
"""Fields of an item that may change or that its events do not tell, on the line of its last event."""

EVENT: Mapping[str, RowForm] = {
    "event": TEXT,
    "at": INSTANT,
    "agent": TEXT,
    "item": WHOLE.or_null(),
    "type": TEXT.or_null(),
    "key": TEXT.or_null(),
    "version": WHOLE.or_null(),
    "thread": WHOLE.or_null(),
    "owner": TEXT,
    "tags": TEXTS,
    "data": OBJECT,
    "concerns": TEXTS,
}
"""An event; empty fields are left out of the line."""

BOARD: Mapping[str, RowForm] = {
    "title": TEXT,
    "parent": TEXT.or_null(),
    "lifecycle": word(Lifecycle),
    "config": OBJECT,
    "core": OBJECT,
    "last_number": WHOLE,
    "created_at": INSTANT,
    "pressure": WHOLE,
}

EDGE: Mapping[str, RowForm] = {"source": ITEM, "kind": word(EdgeKind), "target": ITEM}

TABLES: tuple[Table, ...] = (
    Table(
        "board",
        ColumnRole.TRUTH,
        ("id",),
        BOARD,
        (
            *("no", "id", "seq", "working_items", "working_tokens"),
            *("archived_items", "private_items", "private_tokens", "copied"),
        ),
    ),
    Table(
        "item",
        ColumnRole.TRUTH,
        ("number",),
        {
            **{"number": ITEM, "type": TEXT, "key": TEXT.or_null(), "thread": ITEM, "owner": TEXT},
            **CONTENT,
            **ITEM_STANDING,
        },
        ("superseded", "analysed", "debated"),
    ),
    Table("item_version", ColumnRole.TRUTH, ("number", "version"), {"number": ITEM, **CONTENT}),
    Table("edge", ColumnRole.TRUTH, ("source", "kind", "target"), EDGE),
    Table("event", ColumnRole.TRUTH, ("seq",), {"seq": WHOLE, **EVENT}),
    Table(
        "debate",
        ColumnRole.TRUTH,
        ("id",),
        {
            "id": WHOLE,
            "root": ITEM,
            "state": word(DebateState),
            "opened_by": TEXT,
            "explicit": FLAG,
            "opened_at": INSTANT,
            "moved_at": INSTANT,
            "closed_by": TEXT.or_null(),
            "closed_at": INSTANT.or_null(),
            "outcome": TEXT,
            "gave_way_to": WHOLE.since(0).once("amended_to"),
            "confirmed_by": TEXT.since(""),
            "reason": TEXT,
        },
        item="root",
        index="debate_root",
    ),
    Table(
        "debate_critique",
        ColumnRole.TRUTH,
        ("debate", "critique"),
        {"debate": WHOLE, "critique": ITEM, "answer": WHOLE.since(-1)},
        debate="debate",
    ),
    Table(
        "vote",
        ColumnRole.TRUTH,
        ("debate", "owner"),
        {
            **{"debate": WHOLE, "owner": TEXT, "agent": TEXT, "version": WHOLE},
            **{"approve": FLAG, "reason": TEXT, "at": INSTANT},
        },
        debate="debate",
    ),
    Table(
        "decision",
        ColumnRole.TRUTH,
        ("debate", "owner"),
        {
            **{"debate": WHOLE, "owner": TEXT, "agent": TEXT, "version": WHOLE, "outcome": word(Outcome)},
            **{"gave_way_to": WHOLE.once("amended_to"), "reason": TEXT, "at": INSTANT},
        },
        debate="debate",
    ),
    Table(
        "obligation",
        ColumnRole.TRUTH,
        ("agent", "item", "duty", "debate"),
        {
            **{"agent": TEXT, "item": ITEM, "duty": word(Duty), "debate": WHOLE},
            **{"state": word(ObligationState), "reason": TEXT, "since": INSTANT},
        },
        item="item",
        index="obligation_item",
    ),
    Table(
        "endorsement",
        ColumnRole.TRUTH,
        ("item", "agent"),
        {"item": ITEM, "agent": TEXT, "tags": TEXTS, "metadata": OBJECT, "at": INSTANT},
        item="item",
    ),
    Table(
        "retraction",
        ColumnRole.TRUTH,
        ("item", "source"),
        {
            **{"item": ITEM, "source": ITEM, "kind": word(EdgeKind), "via": ITEM},
            **{"status": TEXT, "successor": ITEM.or_null(), "seq": WHOLE},
        },
        item="item",
    ),
    Table(
        "agreed_claim",
        ColumnRole.TRUTH,
        ("target", "kind", "source"),
        {
            **{"source": ITEM, "kind": word((EdgeKind.SUPERSEDES, EdgeKind.REFUTES)), "target": ITEM},
            **{"agent": TEXT, "at": INSTANT},
        },
        item="target",
    ),
    Table(
        "agreement",
        ColumnRole.TRUTH,
        ("item",),
        {"item": ITEM, "asked_by": TEXT, "enough": WHOLE, "reached": FLAG, "asked_at": INSTANT},
        item="item",
    ),
    Table("undecided", ColumnRole.TRUTH, ("number",), {"number": ITEM}, item="number"),
    Table(
        "spreading",
        ColumnRole.TRUTH,
        ("source", "item"),
        {
            **{"source": ITEM, "item": ITEM, "after": WHOLE},
            **{"status": TEXT, "successor": ITEM.or_null(), "agent": TEXT},
        },
        item="source",
    ),
    Table(
        "summary_request",
        ColumnRole.TRUTH,
        ("thread",),
        {
            **{"thread": WHOLE, "item": ITEM, "seen": ANY, "seq": WHOLE, "opened_at": INSTANT},
            **{"due_at": INSTANT, "holder": TEXT.or_null(), "held_until": INSTANT.or_null(), "lease": WHOLE},
        },
        item="item",
    ),
    Table(
        "request",
        ColumnRole.TRUTH,
        ("number",),
        {
            **{"number": ITEM, "asker": TEXT, "agent": TEXT, "skill": TEXT, "state": word(RequestState)},
            **{"live": FLAG, "opened_at": INSTANT, "deadline": INSTANT, "due_at": INSTANT, "holder": TEXT},
            **{"held_until": INSTANT, "lease": WHOLE, "parts": WHOLE, "partial": WHOLE, "answer": WHOLE},
            **{"reason": TEXT, "ended_by": TEXT, "ended_at": INSTANT},
        },
        item="number",
    ),
    Table(
        "request_declined",
        ColumnRole.TRUTH,
        ("number", "agent"),
        {"number": ITEM, "agent": TEXT, "reason": TEXT, "at": INSTANT},
        item="number",
    ),
    Table(
        "skill",
        ColumnRole.TRUTH,
        ("agent", "skill"),
        {"agent": TEXT, "skill": TEXT, "since": INSTANT},
        private=True,
    ),
    Table(
        "item_trust",
        ColumnRole.TRUTH,
        ("number",),
        {"number": ITEM, "trust": word(Trust)},
        item="number",
    ),
    Table(
        "item_use",
        ColumnRole.TRUTH,
        ("number",),
        {"number": ITEM, "reads": WHOLE, "last_read": INSTANT},
        item="number",
        private=True,
    ),
    Table(
        "sighting",
        ColumnRole.TRUTH,
        ("item", "agent"),
        {
            **{"item": ITEM, "agent": TEXT, "first_at": INSTANT, "first_way": TEXT},
            **{"last_at": INSTANT, "last_way": TEXT},
        },
        item="item",
        private=True,
    ),
    Table(
        "agent",
        ColumnRole.TRUTH,
        ("name",),
        {
            **{"name": TEXT, "posts": WHOLE, "first_seen": INSTANT, "last_seen": INSTANT},
            "waits_until": INSTANT.since(0),
        },
        private=True,
    ),
    Table(
        "shown",
        ColumnRole.TRUTH,
        ("agent",),
        {"agent": TEXT, "cursor": WHOLE, "above": WHOLES, "told": WHOLES},
        private=True,
    ),
    Table(
        "subscription",
        ColumnRole.TRUTH,
        ("id",),
        {
            **{"id": TEXT, "agent": TEXT, "name": TEXT, "filter": OBJECT},
            **{"cursor": WHOLE, "created_at": INSTANT, "used_at": INSTANT},
        },
        private=True,
    ),
    Table(
        "subscription_expired",
        ColumnRole.TRUTH,
        ("agent", "id"),
        {
            **{"agent": TEXT, "id": TEXT, "name": TEXT, "filter": OBJECT, "cursor": WHOLE},
            **{"created_at": INSTANT, "used_at": INSTANT, "expired_at": INSTANT},
        },
        private=True,
    ),
    Table(
        "member",
        ColumnRole.TRUTH,
        ("agent",),
        {"agent": TEXT, "role": word(MemberRole)},
    ),
    Table(
        "consumer_group",
        ColumnRole.TRUTH,
        ("name",),
        {
            **{"name": TEXT, "filter": OBJECT, "created_by": TEXT, "created_at": INSTANT},
            **{"max_attempts": WHOLE, "cursor": WHOLE, "used_at": INSTANT},
        },
    ),
    Table(
        "delivery",
        ColumnRole.TRUTH,
        ("consumers", "seq"),
        {
            **{"consumers": TEXT, "seq": WHOLE, "attempt": WHOLE, "tries": WHOLE, "last": FLAG},
            **{"worker": TEXT, "until": INSTANT, "dead": FLAG, "why": TEXT},
        },
    ),
    Table(
        "idempotency",
        ColumnRole.TRUTH,
        ("agent", "key"),
        {
            **{"agent": TEXT, "key": TEXT, "digest": TEXT, "answer": ANY},
            **{"at": INSTANT, "expires_at": INSTANT},
        },
        beside_event=True,
        private=True,
    ),
    Table(
        "watch",
        ColumnRole.TRUTH,
        ("agent", "topic"),
        {"agent": TEXT, "topic": TEXT, "since": INSTANT},
        private=True,
    ),
    Table(
        "participant",
        ColumnRole.TRUTH,
        ("agent",),
        {
            **{"agent": TEXT, "role": TEXT, "interests": ANY, "joined_at": INSTANT, "left_at": INSTANT},
            "protocols": TEXTS.since("[]"),
        },
    ),
    Table(
        "task",
        ColumnRole.TRUTH,
        ("number",),
        {
            **{"number": WHOLE, "title": TEXT, "text": TEXT, "skill": TEXT, "worker": TEXT},
            **{"trigger_if": TEXT, "triggered": FLAG, "priority": WHOLE, "stage": WHOLE, "required": FLAG},
            **{"verify": TEXT, "retries": WHOLE, "paths": TEXTS, "state": word(TaskState)},
            **{"blockers": WHOLE, "attempts": WHOLE, "failures": WHOLE, "holder": TEXT, "lease": WHOLE},
            **{"length": WHOLE, "until": INSTANT, "waits_on": TEXT, "waits_for": WHOLES, "result": WHOLE},
            **{"why": TEXT, "created_by": TEXT, "created_at": INSTANT, "moved_at": INSTANT},
            "dead_end": TEXT,
            "cost": WHOLE.since(0),
        },
    ),
    Table(
        "agenda_budget",
        ColumnRole.TRUTH,
        ("set_by",),
        {
            **{"steps": WHOLE, "tokens": WHOLE, "cost": WHOLE, "seconds": WHOLE, "used_steps": WHOLE},
            **{"used_tokens": WHOLE, "used_cost": WHOLE, "used_seconds": WHOLE, "set_by": TEXT, "told": FLAG},
        },
    ),
    Table("task_after", ColumnRole.TRUTH, ("task", "after_task"), {"task": WHOLE, "after_task": WHOLE}),
    Table("sub_board", ColumnRole.TRUTH, ("task",), {"task": WHOLE, "spec": OBJECT, "since": WHOLE}),
    Table(
        "task_attempt",
        ColumnRole.TRUTH,
        ("task", "lease", "at"),
        {
            **{"task": WHOLE, "lease": WHOLE, "agent": TEXT, "how": TEXT, "note": TEXT, "at": INSTANT},
            "result": WHOLE.since(0),
        },
    ),
    Table(
        "reservation",
        ColumnRole.TRUTH,
        ("lease", "pattern"),
        {
            **{"lease": WHOLE, "pattern": TEXT, "shared": FLAG, "agent": TEXT, "task": WHOLE},
            **{"length": WHOLE, "until": INSTANT},
        },
    ),
    Table(
        "stage",
        ColumnRole.TRUTH,
        ("number",),
        {
            **{"number": WHOLE, "parent": WHOLE, "title": TEXT, "kind": word(("stage", "milestone"))},
            **{"state": word(StageState), "entry_if": TEXT, "exit_if": TEXT, "required_if": TEXT},
            **{"needed": WHOLE, "entry_held": FLAG, "manual": FLAG, "autocomplete": FLAG},
            **{"created_by": TEXT, "moved_at": INSTANT, "why": TEXT},
        },
    ),
    Table(
        "condition_term",
        ColumnRole.TRUTH,
        ("term", "kind", "number"),
        {"term": TEXT, "kind": TEXT, "number": WHOLE},
    ),
    Table("condition_due", ColumnRole.TRUTH, ("kind", "number"), {"kind": TEXT, "number": WHOLE}),
    Table(
        "run",
        ColumnRole.TRUTH,
        ("number",),
        {
            **{"number": WHOLE, "problem": WHOLE, "state": word(RunState), "phase": TEXT, "strategy": TEXT},
            **{"fallback": TEXT, "agents": TEXTS, "round": WHOLE, "max_rounds": WHOLE, "budget": OBJECT},
            **{"spent": OBJECT, "coordinator": TEXT, "decider": TEXT, "sealed": FLAG, "coordinate": TEXT},
            **{"decide": TEXT, "idle": WHOLE, "started_by": TEXT, "started_at": INSTANT},
            **{"moved_at": INSTANT, "stamp": WHOLE, "malformed": WHOLE, "stalls": WHOLE, "resets": WHOLE},
            **{"reason": TEXT, "answer": WHOLE, "strategy_state": OBJECT},
        },
    ),
    Table(
        "run_turn",
        ColumnRole.TRUTH,
        ("run", "lease"),
        {
            **{"run": WHOLE, "lease": WHOLE, "round": WHOLE, "agent": TEXT, "kind": TEXT, "until": INSTANT},
            **{"instruction": TEXT, "state": TEXT, "text": TEXT, "item": WHOLE, "at": INSTANT},
        },
    ),
    Table(
        "run_offer",
        ColumnRole.TRUTH,
        ("run", "agent"),
        {"run": WHOLE, "agent": TEXT, "offer": WHOLE},
    ),
    Table("rule_change", ColumnRole.TRUTH, ("item",), {"item": WHOLE, "mark": TEXT, "revision": WHOLE}),
    Table("rules_seen", ColumnRole.TRUTH, ("agent",), {"agent": TEXT, "revision": WHOLE}),
    Table(
        "artifact_revision",
        ColumnRole.TRUTH,
        ("revision",),
        {
            **{
                "revision": WHOLE,
                "path": TEXT,
                "folded": TEXT,
                "op": word(("written", "deleted", "restored")),
            },
            **{"before": WHOLE, "size": WHOLE, "lines": WHOLE.or_null(), "blob": TEXT, "agent": TEXT},
            **{"message": TEXT, "at": INSTANT, "body": BYTES},
        },
        beside_event=True,
    ),
    Table(
        "artifact",
        ColumnRole.DERIVED,
        ("path",),
        compared=("path", "folded", "revision", "gone"),
        triggered=True,
    ),
    Table("concern", ColumnRole.DERIVED, ("agent", "seq"), compared=("agent", "seq", "item")),
    # Several debates and edges may be right as the first that reached an item.
    Table("held", ColumnRole.DERIVED, ("number",), compared=("number",)),
    Table("finding", ColumnRole.DERIVED, ("fingerprint", "number"), compared=("fingerprint", "number")),
    Table(
        "figure",
        ColumnRole.DERIVED,
        ("owner", "zone", "type", "status"),
        compared=("owner", "zone", "type", "status", "items", "tokens"),
        triggered=True,
    ),
    Table("share", ColumnRole.DERIVED, ("author",), compared=("author", "items", "tokens"), triggered=True),
    Table("stored", ColumnRole.DERIVED, ("agent",), compared=("agent", "bytes"), triggered=True),
    Table("key_part", ColumnRole.DERIVED, ("part", "number"), compared=("part", "number"), triggered=True),
    # The looks of names are computed when a new agent comes.
    Table("look", ColumnRole.DERIVED),
    Table("outbox", ColumnRole.DERIVED),
    Table("principal", ColumnRole.INSTALLATION),
    Table("read_rules", ColumnRole.INSTALLATION),
    Table("rule_reader", ColumnRole.INSTALLATION),
    Table("shown_role", ColumnRole.INSTALLATION),
    Table("kept_mark", ColumnRole.INSTALLATION),
    Table("agent_trust", ColumnRole.INSTALLATION),
    Table("token", ColumnRole.INSTALLATION),
    Table("lease", ColumnRole.INSTALLATION),
)

BY_NAME: Mapping[str, Table] = {table.name: table for table in TABLES}

_OWN = frozenset({"board", "item", "item_version", "edge", "event"})
"""Tables whose rows have members of their own in the lines."""

OF_ITEMS = tuple(
    t for t in TABLES if t.role is ColumnRole.TRUTH and (t.item or t.debate) and t.name not in _OWN
)
AT_END = tuple(
    t for t in TABLES if t.role is ColumnRole.TRUTH and not (t.item or t.debate) and t.name not in _OWN
)
