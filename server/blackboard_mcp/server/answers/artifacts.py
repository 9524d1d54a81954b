"""Answers about files as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.rules import BOARD, RuleBook
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import ArtifactContent, Revision, Written

from ..text.lines import clip, flat, in_quotes, named, quoted, relative_age, visible, word
from ..usecases.workspace import Folder, Listing

if TYPE_CHECKING:
    from blackboard_mcp.storage.workspace.search import ArtifactHit, Outline

    from ..usecases.checks import CheckState
    from ..usecases.file_checks import Look

MAX_SHOWN: Final = 24_000
"""Most characters of a file in one answer."""
DEFAULT_LINES: Final = 400
"""Most lines in an answer to a call that names no end."""
MAX_DIFF: Final = 16_000
MAX_OUTLINE: Final = 8_000
_OUTLINED: Final = 600
_TITLE: Final = 60
_LINE: Final = 200
_MESSAGE: Final = 100
_RULES: Final = 20
"""Most rules that an answer names."""
_UNUSUAL: Final = re.compile("[\v\f\r\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file, from `start` to `end`, both 0 if there are none. `cut`: the last one is not whole."""

    lines: tuple[str, ...]
    start: int
    end: int
    total: int
    cut: bool
    crlf: bool

    @property
    def text(self) -> str:
        """The lines as they stand in the file, joined by line feeds."""
        return "\n".join(self.lines)


def excerpt_of(content: ArtifactContent, start: int, end: int | None) -> Excerpt | None:
    """Returns the asked lines as far as an answer holds them; `None` if the file is not text."""
    if content.revision.lines is None:
        return None
    text = content.body.decode()
    crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    lines = text.replace("\r\n", "\n").split("\n") if crlf else text.split("\n")
    if lines[-1] == "":
        lines.pop()
    last = min(len(lines), start + DEFAULT_LINES - 1 if end is None else end)
    shown: list[str] = []
    room = MAX_SHOWN
    for line in lines[start - 1 : last]:
        if len(line) > room:
            if not shown:
                return Excerpt((line[:room],), start, start, len(lines), cut=True, crlf=crlf)
            break
        shown.append(line)
        room -= len(line) + 1
    return Excerpt(
        tuple(shown),
        start if shown else 0,
        start + len(shown) - 1 if shown else 0,
        len(lines),
        cut=False,
        crlf=crlf,
    )


def size_words(revision: Revision) -> str:
    """Returns how long a file is, as `240 lines, 9.1 kB` or `binary, 3.0 kB`."""
    lines = "binary" if revision.lines is None else f"{revision.lines:,} line{'s' * (revision.lines != 1)}"
    return f"{lines}, {_bytes(revision.size)}"


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1_000 else f"{size / 1_000:,.1f} kB"


def written_lines(written: Written, book: RuleBook, agent: str, look: Look, *, unseen: bool) -> list[str]:
    """Returns what a write did, and the rules for its path, whole.

    `unseen` says that the agent may not know what was there before.
    """
    now, former = written.revision, written.former
    path, name = visible(now.path), named(now.path)
    if not written.changed:
        lines = [f"{name} has this content already, at rev {now.number}"]
        return [*lines, *_faulty(look), *rules_whole(book, now.path)]
    if now.op == "deleted":
        back = f'artifact_history(path="{path}", revision={now.before}, restore=true)'
        lines = [f"deleted {name} in rev {now.number}; {back} brings it back"]
    else:
        new = "new; revisions are numbered over all files" if now.number > 1 else "new"
        was = new if former is None else f"was rev {former.number} by {word(former.agent)}"
        lines = [f"{name} rev {now.number} ({size_words(now)}), {was}"]
    if former is not None and former.agent != agent and unseen:
        lines.append(
            f'you named no expected revision: artifact_history(path="{path}", revision={now.number}, diff=true) shows '
            f"what this changed of {word(former.agent)}'s"
        )
    return [*lines, *_faulty(look), *rules_whole(book, now.path)]


def _faulty(look: Look) -> list[str]:
    if look.fault is None:
        return []
    said = f"syntax: {visible(look.fault.text)}; {look.fault.item} stands in every view until the file can be read"
    return [said]


def violated_lines(look: Look) -> list[str]:
    """Returns how files violate rules after a write; that nobody looked yet, if so."""
    if not look.done:
        return ["written, but not checked yet; that comes by itself, and wait() tells what is wrong with it"]
    return [
        f"{visible(one.text)}; {one.item} stands in every view until that ends" for one in look.violations
    ]


def checked_lines(checks: Sequence[CheckState]) -> list[str]:
    """Returns what the operator's checks last gave for a path, and which of them run again after a write."""
    told = []
    for one in checks:
        if one.item is None:
            told.append(f"{one.name} has not run yet")
        else:
            told.append(f"{one.name} {'passed' if one.ok else 'failed'} at rev {one.revision} ({one.item})")
            told[-1] += "" if one.fresh else ", stale"
    again = not all(one.fresh for one in checks)
    return [f"checks: {'; '.join(told)}{' → runs by itself, wait() tells' if again else ''}"] if told else []


def rules_whole(book: RuleBook, path: str) -> list[str]:
    """Returns the rules in force for a path, whole."""
    if not book.mine:
        return []
    lines = [f"{book.label}, in force for {named(path)}:"]
    for rule in book.mine:
        lead = f"{rule.id} ({flat(rule.bounds)})" if rule.bounds else rule.id
        said = quoted(rule.text)
        lines += [f"{lead}: {said[0]}"] if len(said) == 1 else [f"{lead}:", *said]
    return lines


def rules_named(book: RuleBook) -> list[str]:
    """Returns the ids of the rules in force for a path, and which of them changed since the agent saw them.

    Rules for the whole board stand in every view: they are named only if they changed.
    """
    new = [rule.id for rule in book.unseen]
    named = [rule.id for rule in book.mine if rule.scope != BOARD or rule.id in new]
    if not named:
        return []
    said = f"{book.label}, here: {_some(named)}"
    return [f"{said}; newer than your last view: {_some(new)} → read()" if new else said]


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _RULES
    return ", ".join(ids[:_RULES]) + (f" and {more} more" if more > 0 else "")


def content_lines(content: ArtifactContent, found: Excerpt | None, now: datetime, *, then: bool) -> list[str]:
    """Returns a file's lines behind their numbers, under a line on the file. `then`: it may be a former one."""
    revision = content.revision
    path = visible(revision.path)
    head = f"{named(revision.path)} rev {revision.number} by {word(revision.agent)} {relative_age(revision.at, now)}"
    if found is None:
        return [f"{head}, {size_words(revision)}: no text to show"]
    notes = [
        f"lines {found.start}-{found.end} of {found.total:,}" if found.start else f"{found.total:,} lines"
    ]
    notes += ["line ends CRLF"] if found.crlf else []
    lines = [f"{head}, {', '.join(notes)}:"]
    lines += [f"{number}\t{_shown(line)}" for number, line in enumerate(found.lines, found.start)]
    at = f", revision={revision.number}" if then else ""
    if found.cut:
        lines.append(
            f"line {found.end} goes on beyond {MAX_SHOWN:,} characters, which is all that is shown of it"
        )
    if found.start and found.end < found.total:
        lines.append(
            f'{found.total - found.end:,} more: artifact_read(path="{path}", start={found.end + 1}{at})'
        )
    return lines


def _shown(line: str) -> str:
    """Returns a line of a file with what would end it, or hide in it, as escapes; tabs stay."""
    return _UNUSUAL.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(line))


def listed_lines(listing: Listing, path: str, now: datetime) -> list[str]:
    """Returns a listing, an entry on each line."""
    lines = []
    for entry in listing.entries:
        if isinstance(entry, Folder):
            lines.append(
                f"{named(entry.path)} {entry.files:,} file{'s' * (entry.files != 1)}, {_bytes(entry.size)}"
            )
        else:
            age = relative_age(entry.at, now)
            lines.append(
                f"{named(entry.path)} rev {entry.number} by {word(entry.agent)} {age}, {size_words(entry)}"
            )
    if listing.after:
        lines.append(f'more: artifact_list(path="{visible(path)}", after="{visible(listing.after)}")')
    if not lines:
        where = f"nothing matches {named(path)}" if path else "no files yet"
        lines.append(f'{where}; artifact_write(path="notes.md", content=…) writes one' if not path else where)
    return lines


def found_lines(hits: Sequence[ArtifactHit], files: int) -> list[str]:
    """Returns what a search found: path, lines and title, and below it the line with most of the words.

    Further parts of the same file follow with their lines and titles only.
    """
    lines = []
    path = None
    for hit in hits:
        title = f" {in_quotes(hit.chunk.title)}" if hit.chunk.title else ""
        where = f"{hit.chunk.start}-{hit.chunk.end}{title}"
        if hit.revision.path == path:
            lines.append(f"also {where}")
            continue
        path = hit.revision.path
        lines.append(f"{named(path)} {where}")
        lines.append(f"{hit.line}\t{_shown(hit.text[:_LINE])}")
    if hits:
        first = hits[0]
        lines.append(
            f'whole: artifact_read(path="{visible(first.revision.path)}", start={first.chunk.start}, '
            f"end={first.chunk.end})"
        )
        return lines
    return [
        f"none of these words stand in the {files:,} file{'s' * (files != 1)} searched; artifact_list() lists them"
    ]


def outline_lines(outlines: Sequence[Outline]) -> list[str]:
    """Returns what is defined in each file, with its first line, within a budget of characters."""
    lines: list[str] = []
    room = MAX_OUTLINE
    for outline in outlines:
        if not outline.parts:
            continue
        told = [f"{part.start} {clip(part.title.rpartition(' > ')[2], _TITLE)}" for part in outline.parts]
        line = f"{named(outline.revision.path)}: {clip(', '.join(told), _OUTLINED)}"
        room -= len(line) + 1
        if room < 0:
            lines.append("the outline goes on; name a folder in it as path")
            break
        lines.append(line)
    return lines


def newer_lines(id_: str, newer: Sequence[tuple[Revision, int]]) -> list[str]:
    """Returns a line for each file that an item names by a former revision: its last revision, and that one."""
    return [
        f"{named(last.path)} {'was deleted in' if last.op == 'deleted' else 'is at'} rev {last.number} by "
        f"{word(last.agent)}, and {id_} names rev {number}: look whether it still holds"
        for last, number in newer
    ]


def revision_lines(
    revisions: Sequence[Revision], now: datetime, path: str, following: int | None
) -> list[str]:
    """Returns revisions, one on each line."""
    lines = [
        f"rev {one.number} {relative_age(one.at, now)} {word(one.agent)} {one.op} {named(one.path)}"
        + (f" ({size_words(one)})" if one.op != "deleted" else "")
        + (f": {in_quotes(clip(one.message, _MESSAGE))}" if one.message else "")
        for one in revisions
    ]
    if following is not None:
        where = f'path="{visible(path)}", ' if path else ""
        lines.append(f"older: artifact_history({where}revision={following})")
    return lines or ["no revisions yet"]


def diff_lines(diff: str) -> list[str]:
    """Returns a diff, each line behind a bar, as far as an answer holds it."""
    lines: list[str] = []
    room = MAX_DIFF
    for line in diff.split("\n"):
        room -= len(line) + 1
        if room < 0:
            lines.append("the diff goes on; artifact_read shows the file before and after")
            break
        lines.append(f"|{_shown(line)}")
    return lines
