"""Sentences, numbers, ids and marks of texts, from which summaries are chosen and by which they are checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from blackboard_mcp.protocols.items import Item, ItemType

from ...text.lines import clip, one_line

LONGEST = 320
"""Most characters of a sentence; the rest is cut."""
READ = 20_000
"""Characters of a text that are read; of a longer text, its start and its end."""
_ANNOUNCED = 240
"""Most characters of an announcement together with its list."""

CODE = re.compile(
    r"```.*?```|^[ \t]*```[^\n]*\n.*\Z|^[ \t]*~~~[^\n]*\n.*?(?:^[ \t]*~~~[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_TAKEN_BACK = re.compile(r"\bTERMINATE\b|\bexitcode: 0 \(execution succeeded\)", re.IGNORECASE)
_CODE_LINE = re.compile(
    r"^(?:(?:from|import|def|class|return|for|while|if|elif|else|try|except|with|print|assert)\b.*[:()=\[]|"
    r"[\w.\[\]'\"]+ *[+\-*/]?= *\S|[\w.]+\(.*\)[;:]?$|[{}\[\]();,]+$|#!|//|\$ |>>> |\s*at \w+[.(])"
)
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+.*$|^\s*(?:[=\-*_]\s*){3,}$")
BULLET = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,3}[.)]|[a-z][.)])\s+")
_MARKS = re.compile(r"\*\*|__|`|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])")
_LINK = re.compile(r"!?\[([^\]\n]{1,200})\]\((?:[^()\s]|\([^()\s]*\)){1,500}\)")
TAG = re.compile(r"<[/!?]?[A-Za-z](?:[^<>\n]{0,200}>|[\w:-]{0,20}\s+[\w:-]{1,30}\s*=)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9À-ÖØ-ÞА-ЯΑ-Ω])|(?<=[。！？])")
_SHORTENED = re.compile(r"(?:\b(?:e\.g|i\.e|vs|cf|Dr|Mr|Ms|Mrs|St|No|Fig|al|etc|approx|[A-Z])\.|^\d{1,3}\.)$")
_LABELLED = re.compile(
    r"^\W{0,3}(?:[Nn]o|[Nn]one|[Nn]ot|[Nn]othing|[Ss]ame|[Aa]s|[Aa]gree\w{0,3})\b[^.]{0,60}"
    r"\b(?:with|than|as|of|to|from|option|plan|case) [A-Z]\.$"
)
"""Pattern of a verdict that ends with the letter of its object, where the letter is no initial of a name."""
_WORD = re.compile(r"[^\W_]{2,}(?:['’][^\W\d_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z")
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nor|cannot|without|neither|un\w+|in(?:correct|valid|sufficient)|\w+n['’]t)\b"
)
CITATION = re.compile(r"\[((?:[A-Z]-\d+(?:@\d+)?)(?:\s*[,;]\s*[A-Z]-\d+(?:@\d+)?)*)\]")
"""Pattern of ids in brackets, which name the sources of a line."""
ID = re.compile(r"(?<![\w-])[A-Z]-\d{1,15}(?:@\d{1,9})?(?![\w-])")
"""Pattern of anything that looks like the id of an item."""
SOURCES = re.compile(r"^[ \t]*Sources:[ \t]*(.*)$", re.MULTILINE)
_STOP = frozenset(
    re.findall(
        r"\w+",
        "the a an and or of to in on at is are was were be been it its this that these those for with as by from "
        "we you i he she they them our your their will would can could should has have had do does did if then "
        "than so there here which what who when where how all any each more most some such into about also",
    )
)


def sentences(item: Item) -> Iterator[str]:
    """Yields the sentences of an item's prose, one line each, without code, headings and markdown signs."""
    text = item.text
    if len(text) > READ:
        text = f"{text[: READ // 2]}\n\n{text[-READ // 2 :]}"
    if item.type is ItemType.SUMMARY:
        text = CITATION.sub("", SOURCES.sub("", text))
    text = CODE.sub("\n\n", text)
    text = _MARKS.sub("", TAG.sub(" ", _LINK.sub(r"\1", text)))
    for unit in _units(text.split("\n")):
        start = 0
        for match in SENTENCE_END.finditer(unit):
            said = unit[start : match.start()]
            if not _SHORTENED.search(said[-8:]) or (len(said) < LONGEST and _LABELLED.search(said)):
                yield from _clean(said)
                start = match.end()
        yield from _clean(unit[start:])


def _units(lines: Sequence[str]) -> Iterator[str]:
    """Yields paragraphs and list entries; a short list is joined with the line that announces it."""
    unit, listed = "", 0
    for raw in lines:
        line = raw.strip()
        if not line and unit.endswith(":"):
            continue
        if not line or _HEADING.match(raw) or _CODE_LINE.match(line[:LONGEST]):
            yield unit
            unit, listed = "", 0
            continue
        bullet = BULLET.match(line)
        if bullet is not None:
            entry = line[bullet.end() :]
            if (listed or unit.endswith(":")) and len(unit) + len(entry) < _ANNOUNCED:
                unit = f"{unit} {entry}" if unit.endswith(":") else f"{unit.rstrip('.;,')}; {entry}"
                listed += 1
                continue
            yield unit
            unit, listed = entry, 0
        elif unit and not listed and (line[0].islower() or unit[-1] not in ".:!?"):
            unit = f"{unit} {line}"
        else:
            yield unit
            unit, listed = line, 0
    yield unit


def _clean(sentence: str) -> Iterator[str]:
    plain = one_line(_TAKEN_BACK.sub("", sentence[: 4 * LONGEST]))
    plain = CITATION.sub(r"\1", plain).strip(" -–—|>#")
    if plain and not plain.endswith(":") and any(map(str.isalnum, plain)):
        yield clip(plain, LONGEST)


def numbers(text: str) -> list[str]:
    """Returns the numbers in the prose of `text`, each once, without thousands separators, ids and list
    numbers.
    """
    prose = ID.sub(" ", CODE.sub("\n", text))
    prose = "\n".join(BULLET.sub("", line) for line in prose.split("\n"))
    found = (match[0] for match in _NUMBER.finditer(prose))
    return list(dict.fromkeys(n.replace(",", "") if _THOUSANDS.match(n) else n for n in found))


def terms(text: str) -> frozenset[str]:
    """Returns the words of `text` that carry meaning, in lower case."""
    return frozenset(w for w in _WORD.findall(text.lower()) if w not in _STOP)


def denials(text: str) -> frozenset[str]:
    """Returns the words of `text` that deny something, in lower case."""
    return frozenset(_DENIAL.findall(text.lower()))
