"""Standing watches of topics (key, tag, type or thread), until they are ended or their agent has left."""

from __future__ import annotations

import json

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import StandingWatch
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.topics import Topic, TopicKind, exact_topics, matching_globs

from ...operation import Write
from ..ledger.idempotency import repeatable
from ..ledger.ledger import Ledger, get_board, load, load_visible, open_ledger
from ..ledger.rows import ItemRow, Steps, dumps, instant, sql

MAX_STANDING = 50
MAX_ON_BOARD = 5_000
MAX_GLOBS = 500
"""The most different globs on a board; each may have to be compared with a new entry's key."""


def watchers_of(ledger: Ledger, item: ItemRow) -> Steps[list[str]]:
    """Returns the agents who watch a topic of the item, longest first; none if some cannot see the item."""
    if not (ledger.watched and item.public):
        return []
    # Nobody watches a conversation that begins only now.
    thread = None if item.thread == item.number >= ledger.first_number else item.thread
    topics = exact_topics(item.type, thread, json.loads(item.tags))
    if item.key is not None:
        topics.append(str(Topic(TopicKind.KEY, item.key)))
        globs = [row[0] for row in (yield sql("watched_globs"), (ledger.no, item.key))]
        topics += matching_globs(item.key, globs)
    return [row[0] for row in (yield sql("watchers_of_topics"), (ledger.no, dumps(topics)))]


def _named(ledger: Ledger, topic: Topic) -> Steps[Topic]:
    """Returns the topic, for a thread with the number of its first item.

    Raises:
        UnknownReference: the agent sees no such item.
        Refused: not everybody may see the item.
    """
    if topic.kind is not TopicKind.THREAD:
        return topic
    number = int(topic.value)
    found = yield from load_visible(ledger.no, [number], ledger.agent, ledger.board.id)
    if not found[number].public:
        raise Refused(
            f"{found[number].id} is {found[number].visibility}: nobody debates it. Nothing was changed."
        )
    return Topic(TopicKind.THREAD, str(found[number].thread))


@repeatable(list[StandingWatch])
def watch_topic(
    write: Write, board: str, agent: str, topic: Topic, *, once: Once | None = None
) -> Steps[list[StandingWatch]]:
    """Makes the agent watch the topic from now on; returns all its standing watches, the oldest first.

    Nothing changes if it watches the topic already.

    Raises:
        UnknownReference: the board or the thread does not exist.
        Refused: the agent or the board has too many watches, or the thread is private.
    """
    ledger = yield from open_ledger(write, board, agent)
    topic = yield from _named(ledger, topic)
    held = [row[0] for row in (yield sql("watches"), (ledger.no, agent))]
    if str(topic) in held:
        return (yield from watches(board, agent))
    if len(held) >= MAX_STANDING:
        raise Refused(
            f"You watch {MAX_STANDING} topics on '{board}', which is the limit. Nothing was changed; "
            f'debate(op="unwatch", id="{held[0]}") ends one.'
        )
    if (yield sql("watches_on_board"), (ledger.no,))[0][0] >= MAX_ON_BOARD:
        raise Refused(
            f"{MAX_ON_BOARD:,} topics are watched on '{board}', which is the limit. Nothing was changed."
        )
    globs = "*" in topic.value and (yield sql("globs_on_board"), (ledger.no,))[0][0]
    if globs and topic.kind is TopicKind.KEY and globs >= MAX_GLOBS:
        raise Refused(
            f"{MAX_GLOBS} globs of keys are watched on '{board}', which is the limit. Nothing was changed; "
            "whole keys, tags, types and threads can be watched still."
        )
    ledger.note(ChangeKind.WATCH, name=str(topic))
    yield sql("watch_add"), (ledger.no, agent, str(topic), write.now)
    yield from ledger.was_here()
    yield from ledger.emit(EventType.WATCH_BEGAN, data={"watcher": agent, "topic": str(topic)})
    yield from ledger.close()
    return (yield from watches(board, agent))


@repeatable(list[StandingWatch])
def unwatch_topic(
    write: Write, board: str, agent: str, topic: Topic, *, once: Once | None = None
) -> Steps[list[StandingWatch]]:
    """Ends a standing watch; returns the agent's remaining ones, the oldest first. Duties that it caused remain.

    Raises:
        Conflict: the agent does not watch the topic.
    """
    ledger = yield from open_ledger(write, board, agent)
    topic = yield from _named(ledger, topic)
    held = [row[0] for row in (yield sql("watches"), (ledger.no, agent))]
    if str(topic) not in held:
        raise Conflict(
            f'You do not watch {topic}. Nothing was changed; debate(op="status", id="{topic}") says what you watch.'
        )
    ledger.note(ChangeKind.WATCH, name=str(topic))
    yield from ledger.was_here()
    yield from end_watch(ledger, agent, str(topic), "unwatched")
    yield from ledger.close()
    return (yield from watches(board, agent))


def end_watch(ledger: Ledger, agent: str, topic: str, reason: str) -> Steps[None]:
    """Ends a standing watch, with its event."""
    yield sql("watch_drop"), (ledger.no, agent, topic)
    yield from ledger.emit(
        EventType.WATCH_ENDED, data={"watcher": agent, "topic": topic, "reason": reason}, concerns=[agent]
    )


def watches(board: str, agent: str) -> Steps[list[StandingWatch]]:
    """Returns the agent's standing watches, the oldest first; threads are named by the id of their first item."""
    row = yield from get_board(board)
    rows = yield sql("watches"), (row.no, agent)
    begin = len(TopicKind.THREAD) + 1
    threads = [int(r[0][begin:]) for r in rows if r[0].startswith(f"{TopicKind.THREAD}:")]
    known = yield from load(row.no, threads, agent)
    named = {f"thread:{n}": f"thread:{item_id(item.type, n)}" for n, item in known.items()}
    return [StandingWatch(named.get(str(topic), str(topic)), instant(since)) for topic, since in rows]
