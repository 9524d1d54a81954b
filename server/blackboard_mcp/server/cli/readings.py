"""Printing of a board's answers for people: one function for each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.items import LETTERS
from blackboard_mcp.protocols.names import SYSTEM

from ..text.lines import clip, forgotten, one_line
from .advice import for_people
from .output import DIM, GOOD, ID, OPEN, Part, as_json, line, name, table

if TYPE_CHECKING:
    from blackboard_mcp.protocols.board_wire import BoardAnswer, BoardsAnswer, CoreAnswer
    from blackboard_mcp.protocols.debate_wire import DebateAnswer, WatchesAnswer
    from blackboard_mcp.protocols.plan_wire import PlanAnswer
    from blackboard_mcp.protocols.request_wire import RequestAnswer
    from blackboard_mcp.protocols.wire import (
        ExplainAnswer,
        ItemsAnswer,
        PostAnswer,
        SearchAnswer,
        WireItem,
        WireRemark,
    )

Given = Mapping[str, Any]
"""The arguments of the command by name, and the name of its board as `board`."""
_TYPES = {letter: str(type_).lower().replace("_", " ") for type_, letter in LETTERS.items()}
_SOME = 5
_WIDTH = 160
"""The most characters of a text in a list."""
_REMARKS = {
    "criticised": "{about} said so already: withdraw {id} if it adds nothing",
    "over": "{about} fell already: no debate opens on it",
    "fallen": "{about} said the same and was taken back: say what is new",
    "numbers": "differs only in numbers or a denial from {about}",
    "close": "{about} said about the same and was taken back: say what is new",
    "claim": "speaks against {about} of others: a claim, until its author or a debate agrees",
    "near": "{about} nearly repeat it",
    "asks": "waits for an answer by {fields}",
    "answers": "{about} still waits for {fields}",
    "solves": "{about}: still open; what is solved: `blackboard-mcp post --id {first} --status RESOLVED`",
    "unasked": "does not ask {fields}: a text that begins with @{fields} does",
    "undebated": "is no critique, so it opens no debate on {about}",
    "reads": "{fields} may only read here, and cannot answer",
    "unknown": "{fields} was never on this board",
    "unseen": "on the same matter, and not shown to you yet: {about}",
}
_SETTLES = {
    "answer": "waits for nobody any more",
    "reply": "waits for nobody any more, unless you asked it yourself",
}


def type_of(id_: str) -> str:
    """Returns the type of an item in words, from its id: `F-3` is a fact."""
    return _TYPES.get(id_[:1], "item")


def when(at: datetime) -> str:
    """Returns an instant as local time, with the date unless it is today."""
    here = at.astimezone()
    return (
        f"{here:%H:%M:%S}"
        if here.date() == datetime.now().astimezone().date()
        else f"{here:%Y-%m-%d %H:%M:%S}"
    )


def some(names: Sequence[str]) -> str:
    """Returns the first `_SOME` names joined by commas, and how many more there are."""
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(names[:_SOME]) + more


def posted(answer: PostAnswer, given: Given) -> None:
    """Prints the posted or changed items, and the board's remarks on them."""
    over = any(remark.kind == "over" for remark in answer.remarks)
    again = {remark.id for remark in answer.remarks if remark.kind == "same"}
    joined = {remark.id: remark.about for remark in answer.remarks if remark.kind == "joined"}
    for item in answer.items:
        if item.id in again:
            line((item.id, ID), " says the same already, by you: nothing was posted twice")
        elif item.id in answer.endorsed:
            line((item.id, ID), " says the same already: counted as your support, nothing was posted twice")
        elif item.version > 1 or item.updated_at > item.created_at:
            line((item.id, ID), f" is at version {item.version}, {_stands(item)}")
        else:
            line("posted ", type_of(item.id), " ", (item.id, ID), *_key(item), f" on {given['board']}")
            for about in item.edges.get("critiques", ()) if not over else ():
                line((f"  {_opened(about, item, joined.get(item.id, ()))}", DIM))
    for remark in answer.remarks:
        if remark.kind not in ("same", "joined"):
            line((f"  {_remark(remark)}", DIM))


def _opened(about: str, critique: WireItem, joined: Sequence[str]) -> str:
    if joined and about.startswith("C-"):
        return f"joins the debate on {some(joined)}: {about}'s author answers, then you judge the answer"
    if critique.debate == "OPEN":
        return f"a debate on {about} is open: its author answers, then you judge the answer"
    return f"no debate is open on {about}: a critique of an item of your own opens none"


def _key(item: WireItem) -> tuple[Part, ...]:
    return () if item.key is None else (f" as {item.key}",)


def _stands(item: WireItem) -> str:
    return f"{item.status}, importance {item.importance}"


def _remark(remark: WireRemark) -> str:
    if remark.kind == "answers" and not remark.fields:
        told = _SETTLES.get(type_of(remark.id), "is settled by an answer only")
        return f"{some(remark.about)} {told}"
    if remark.kind == "unknown":
        remark = remark.model_copy(update={"fields": remark.fields[:1]})
    about = some(remark.about) + (f" and {remark.more} more" if remark.more else "")
    told = _REMARKS.get(remark.kind, remark.kind + " {about}")
    return told.format(
        id=remark.id,
        first=next(iter(remark.about), ""),
        about=about,
        fields=some(remark.fields) or "whoever knows",
    )


def whole(answer: ItemsAnswer) -> None:
    """Prints items with their whole texts, indented, and the listed versions on a line each."""
    from blackboard_mcp.protocols.version_wire import versions_of

    from ..answers.explanations import begin_anew
    from ..answers.versions import version_lines

    for item in answer.items:
        line(
            (item.id, ID),
            f"@{item.version} {type_of(item.id)} by ",
            name(item.author),
            f", {_stands(item)}, {item.zone}",
        )
        if item.forgotten is not None:
            line(f"  {forgotten(item.forgotten)}")
            line(f"  sha256 of what it said: {item.sha256}")
        if item.deleted:
            line(f"  {for_people(begin_anew(item))}")
        for text in item.text.splitlines():
            line(f"  {text}")
    for versions in answer.versions:
        for told in version_lines(versions_of(versions), datetime.now(UTC)):
            line(for_people(told))
    if answer.missing:
        line(f"not found: {', '.join(answer.missing)}")


def listed(answer: ItemsAnswer, given: Given) -> None:
    """Prints items on a line each, and whether older ones match too."""
    for item in answer.items:
        line(*_line(item))
    if not answer.items:
        line("nothing matches")
    elif answer.cursor is not None:
        line((f"older ones match too; --limit {given['limit']} leaves them out", DIM))


def found(answer: SearchAnswer, given: Given) -> None:
    """Prints archived items on a line each, with the reason why each left, and its neighbours below."""
    for item in answer.items:
        left = answer.left.get(item.id)
        line(*_line(item, answer.excerpts.get(item.id)), f" (left: {left})" if left else "")
        for near in answer.neighbours:
            if near.of == item.id:
                line(f"  {near.place} it: ", *_line(near.item))
    if not answer.items:
        line("nothing in the archive matches")
    if answer.notice:
        line((for_people(answer.notice), DIM))
    line((f"mode {answer.mode}", DIM))


def end(answer: object) -> None:
    """Ends the command with exit code 1 if none of the named ids was found."""
    if getattr(answer, "missing", ()) and not any(
        getattr(answer, found, ()) for found in ("items", "versions", "explanations")
    ):
        raise click.exceptions.Exit(1)


def explained(answer: ExplainAnswer, given: Given) -> None:
    """Prints the id of each item, and below it why the item stays or why it left."""
    for one in answer.explanations:
        line((one.id, ID), f" {type_of(one.id)}, {one.zone}")
        for said in one.says:
            line(f"  {for_people(said)}")
        if one.seen:
            seen = [f"{one_line(sight.agent)} {when(sight.last_at)} ({sight.last_way})" for sight in one.seen]
            line(f"  seen by {some(seen)}")
        if one.never_seen_by:
            line(f"  never seen by {some([one_line(agent) for agent in one.never_seen_by])}")
    if answer.missing:
        line(f"not found: {', '.join(answer.missing)}")


def _line(item: WireItem, text: str | None = None) -> tuple[Part, ...]:
    """Returns the parts of one line for an item: its id, type, author, state and the beginning of its text.

    `text` replaces the item's own text.
    """
    stands = "" if item.status == "ACTIVE" else f", {item.status}"
    stands += f", {item.zone}" if item.zone != "working" else ""
    return (
        (item.id, ID),
        f" {type_of(item.id)}",
        *_key(item),
        " by ",
        name(item.author),
        f"{stands}, {when(item.updated_at)}: {clip(item.text if text is None else text, _WIDTH)}",
    )


def debated(answer: DebateAnswer, given: Given) -> None:
    """Prints the state of a debate, decisions that wait for confirmation, and who owes what."""
    if answer.state is None:
        line((answer.item, ID), ": agreed" if "reason" in given else ": no debate is open on it")
        return
    settled = answer.state == "CONSENSUS"
    # A critique's id names the debate, and what came of it is the debated item's.
    became = f": {answer.root or answer.item} {answer.outcome}" if answer.outcome else ""
    became += f", replaced by {answer.gave_way_to}" if answer.gave_way_to else ""
    line((answer.item, ID), ": the debate is ", (answer.state, GOOD if settled else OPEN), became)
    for decision in answer.decisions:
        line(
            "  ",
            name(decision.agent),
            f" decided that it {decision.outcome}; another owner has to confirm it",
        )
    for owed in answer.outstanding:
        line("  waits for ", name(owed.agent), f" to {owed.duty} ", (owed.item, ID))


def withdrawn(answer: PostAnswer | DebateAnswer, given: Given) -> None:
    """Prints what became of a withdrawn item or critique."""
    if hasattr(answer, "items"):
        for item in answer.items:
            line((item.id, ID), f" is {item.status}")
    else:
        debated(answer, given)


def pinned(answer: DebateAnswer | WatchesAnswer, given: Given) -> None:
    """Prints the topics that the agent watches, or whether an item is kept for it."""
    if not hasattr(answer, "item"):
        topics = ", ".join(answer.watches)
        line(f"debates that open on these ask you: {topics}" if topics else "no topic asks you any more")
    elif given["off"]:
        line((answer.item, ID), " is not kept for you any more")
    else:
        line((answer.item, ID), " stays on the board until you acknowledge it, or let it go with --off")


def asked(answer: RequestAnswer, given: Given) -> None:
    """Prints a request, and its answer or the reason why it has none."""
    request = answer.request
    whom = request.to or f"whoever has the skill {request.skill}"
    line((request.id, ID), " to ", name(whom), f": {request.state}, until {when(request.deadline)}")
    if answer.answer is not None:
        line((answer.answer.id, ID), " by ", name(answer.answer.author))
        for said in answer.answer.text.splitlines():
            line(f"  {said}")
    elif request.state == "OPEN" and not request.offering:
        line(("  nobody of that name or skill was on the board yet", DIM))
    elif request.reason:
        line("  ", name(request.ended_by or SYSTEM), f": {request.reason}")


def brought_back(answer: SearchAnswer, given: Given) -> None:
    """Prints the items that were restored from the archive.

    Raises:
        click.ClickException: the archive has no such item.
    """
    for item in answer.items:
        line((item.id, ID), f" is on {given['board']} again")
    if answer.notice:
        line((for_people(answer.notice), DIM))
    elif not answer.items:
        raise click.ClickException(f"nothing of the id {' '.join(given['items'])} is in the archive")


def core(answer: CoreAnswer, given: Given) -> None:
    """Prints a board's objective, constraints and flags."""
    line((f"core of {given['board']}, version {answer.version}", DIM))
    line("objective: ", answer.objective or "none")
    for place, text in enumerate(answer.constraints, 1):
        line(f"constraint {place}: ", text)
    for flag, on in sorted(answer.flags.items()):
        line(f"flag {flag}: ", ("on", GOOD) if on else ("off", DIM))


def plan(answer: PlanAnswer | dict[str, Any], given: Given) -> None:
    """Prints stages and tasks, or the definition of a plan as JSON."""
    if isinstance(answer, dict):
        as_json(answer)
        return
    depth: dict[str | None, int] = {None: -1}
    for stage in answer.stages:
        depth[stage.id] = depth.get(stage.parent, -1) + 1
        why = f" ({clip(stage.why, _WIDTH)})" if stage.why else ""
        kind = "milestone " if stage.kind == "milestone" else ""
        line(
            "  " * depth[stage.id], (stage.id, ID), f" {kind}{stage.state}{why}: ", clip(stage.title, _WIDTH)
        )
    for task in answer.items:
        state = "ready" if task.ready else str(task.state)
        whom = f" by {task.holder}" if task.holder else ""
        waits = f", waits for {'; '.join(map(one_line, task.blocked_by))}" if task.blocked_by else ""
        line((task.id, ID), f" {state}{whom}{waits}: ", clip(task.title, _WIDTH))
    if not answer.items and not answer.stages:
        line(("no plan", DIM))


def settings(answer: BoardAnswer, given: Given) -> None:
    """Prints a board's figures, members and settings."""
    line(
        (answer.board, ID),
        f": {answer.title}, ",
        answer.lifecycle,
        f" below {answer.parent}" if answer.parent else "",
    )
    line(
        f"working {answer.working_items} items, {answer.working_tokens:,} of {answer.target_tokens:,} tokens; archive "
        f"{answer.archived_items} items"
    )
    if answer.members:
        line("members: " + ", ".join(f"{agent} {role}" for agent, role in answer.members.items()))
    table(("setting", "value"), ((setting, _value(value)) for setting, value in answer.settings.items()))


def _value(value: Any) -> str:
    return ", ".join(map(_value, value)) if isinstance(value, list | tuple) else str(value)


def boards(answer: BoardsAnswer, given: Given) -> None:
    """Prints a table of boards."""
    rows = ((one.id, one.lifecycle or "no posts yet", one.title) for one in answer.boards)
    table(("board", "state", "title"), (((id_, ID), state, title) for id_, state, title in rows))


def agents(answer: Mapping[str, Any], given: Given) -> None:
    """Prints a table of agents."""
    table(
        ("agent", "posts", "last seen"),
        (
            (name(one["name"]), str(one["posts"]), when(datetime.fromisoformat(one["last_seen"])))
            for one in answer["agents"]
        ),
    )
