"""Rules of a board on new texts and metadata, as stewards write them and as boards store them.

A rule with `key` applies to entries whose key matches that glob, a rule without it to every item. Where
several rules apply to an item, it must meet all of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import MAX_METADATA, MAX_TEXT, ItemType
from blackboard_mcp.protocols.keys import check_glob, compile_glob
from blackboard_mcp.protocols.policy import Writing
from blackboard_mcp.protocols.values import dataclass

if TYPE_CHECKING:
    from .schemas import Steps

MAX_RULES: Final = 32
MAX_CHARACTERS: Final = 16_000
"""Most characters of all rules of a board as JSON."""
MAX_NAME: Final = 40
TYPES: Final = tuple(str(type_) for type_ in ItemType if type_ is not ItemType.SUMMARY)
"""Types of items that agents post."""
_SIZES = {
    "max_bytes": MAX_TEXT * 4,
    "max_tokens": MAX_TEXT,
    "max_metadata_bytes": MAX_METADATA * 4,
    "max_depth": 64,
}
FIELDS: Final = {
    "name": f"up to {MAX_NAME} characters, for errors to name the rule by",
    "key": "a glob: the rule is for entries whose key matches; without it, for every item",
    "types": "only items of these types",
    "schema": "JSON Schema: the text is JSON that meets it",
    "metadata_schema": "JSON Schema that the metadata meets",
    "max_bytes": "of the text in UTF-8",
    "max_tokens": "of the text",
    "max_metadata_bytes": "of the metadata as JSON in UTF-8",
    "max_depth": "of lists and objects within each other in the metadata, which is 1 deep itself, and in a text that "
    "`schema` reads",
    "require_key": "true: new items need a key that matches `key`, if any; with `types` only items of these types",
    "validator": "a class of the operator's, by its name at launch",
}
_CHECKS = frozenset(FIELDS) - {"name", "key"}
_NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in something to be written: the rule that it breaks, the place in it (`$` for all of it), and
    what is allowed.
    """

    rule: str
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.path} {self.why}"


@dataclass(frozen=True)
class Looked:
    """Something to be written, with values that several rules need, each computed once."""

    writing: Writing

    @cached_property
    def text_bytes(self) -> int:
        """Bytes of the text in UTF-8."""
        return len((self.writing.text or "").encode())

    @cached_property
    def metadata_bytes(self) -> int:
        """Bytes of the metadata as JSON in UTF-8."""
        return len(json.dumps(dict(self.writing.metadata), ensure_ascii=False).encode())

    @cached_property
    def document(self) -> tuple[Any, str]:
        """The text parsed as JSON and an empty string, or `None` and why it is not JSON."""
        from . import schemas

        try:
            return schemas.read_json(self.writing.text or ""), ""
        except ValueError as error:
            return None, str(error) or "it is none"

    @cached_property
    def depth(self) -> int:
        """Levels of lists and objects in the parsed text."""
        from . import schemas

        return schemas.depth(self.document[0])


@dataclass(frozen=True, slots=True)
class Rule:
    """A checked rule. `said` is the rule as JSON values, `place` its place among the board's rules, from 1."""

    place: int
    said: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The rule's name in errors."""
        if "name" in self.said:
            return f"rule '{self.said['name']}'"
        return f"rule {self.place}" + (f" ({self.said['key']})" if "key" in self.said else "")

    @property
    def validator(self) -> str | None:
        """Name of the rule's validator, or `None`."""
        return self.said.get("validator")

    def concerns(self, writing: Writing) -> bool:
        """Tells whether the rule applies. A rule that requires a key also applies to new items without one."""
        if self.said.get("require_key"):
            return writing.new and str(writing.type) in self.said.get("types", TYPES)
        key = self.said.get("key")
        return key is None or (writing.key is not None and compile_glob(key).matches(writing.key))

    def faults(self, looked: Looked, steps: Steps) -> Iterator[Fault]:
        """Yields the faults that the rule finds, within the steps left in `steps`. Its validator is asked
        elsewhere.
        """
        writing = looked.writing
        said = self.said
        if said.get("require_key"):
            if writing.key is None or ("key" in said and not compile_glob(said["key"]).matches(writing.key)):
                like = f" like {said['key']}" if "key" in said else ""
                yield Fault(self.name, "key", f"must be given{like}: a {writing.type} is an entry here")
            return
        if "types" in said and str(writing.type) not in said["types"]:
            yield Fault(
                self.name, "type", f"must be one of {', '.join(said['types'])}, and is {writing.type}"
            )
        if writing.text is not None:
            yield from self._text(looked, writing.tokens, steps)
        yield from self._metadata(looked, steps)

    def _text(self, looked: Looked, tokens: int, steps: Steps) -> Iterator[Fault]:
        said = self.said
        size = looked.text_bytes if "max_bytes" in said else 0
        if size > said.get("max_bytes", 0):
            yield Fault(self.name, "text", f"may have {said['max_bytes']:,} bytes, and has {size:,}")
        if tokens > said.get("max_tokens", tokens):
            yield Fault(self.name, "text", f"may have {said['max_tokens']:,} tokens, and has {tokens:,}")
        if "schema" not in said:
            return
        from . import schemas

        document, why = looked.document
        if why:
            yield Fault(self.name, "text", f"must be JSON: {why}")
            return
        if "max_depth" in said and looked.depth > said["max_depth"]:
            yield Fault(self.name, "text", f"may be {said['max_depth']} deep, and is deeper")
            return
        for path, why in schemas.faults(said["schema"], document, steps=steps):
            yield Fault(self.name, path, why)

    def _metadata(self, looked: Looked, steps: Steps) -> Iterator[Fault]:
        from . import schemas

        said = self.said
        metadata = dict(looked.writing.metadata)
        if "max_metadata_bytes" in said:
            size = looked.metadata_bytes
            if size > said["max_metadata_bytes"]:
                most = said["max_metadata_bytes"]
                yield Fault(self.name, "metadata", f"may have {most:,} bytes as JSON, and has {size:,}")
        if "max_depth" in said and schemas.depth(metadata) > said["max_depth"]:
            yield Fault(self.name, "metadata", f"may be {said['max_depth']} deep, and is deeper")
        elif "metadata_schema" in said:
            for path, why in schemas.faults(said["metadata_schema"], metadata, steps=steps):
                yield Fault(self.name, "metadata" + path[1:], why)


@lru_cache(maxsize=64)
def rules_of(kept: str) -> tuple[Rule, ...]:
    """Returns the rules in a board's configuration; `kept` is their JSON text, empty for none."""
    return tuple(Rule(place, said) for place, said in enumerate(json.loads(kept or "[]"), 1))


def shown(kept: str) -> list[dict[str, Any]]:
    """Returns the rules as the steward wrote them."""
    return [dict(rule.said) for rule in rules_of(kept)]


def check_rules(given: Any, validators: Collection[str]) -> str:
    """Returns the rules as the JSON text that a board stores; empty for no rules.

    `validators` are the names that this server was launched with.

    Raises:
        InvalidInput: a rule is wrong; the message says what and where.
    """
    if isinstance(given, str):
        raise InvalidInput(f"validation is a list of rules, not a text with one in it. {_NOTHING}")
    if not isinstance(given, list | tuple) or len(given) > MAX_RULES:
        raise InvalidInput(f"validation is a list of at most {MAX_RULES} rules; [] ends them. {_NOTHING}")
    try:
        kept = json.dumps(list(given), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(
            f"validation must be plain JSON (no NaN, not nested without end). {_NOTHING}"
        ) from None
    if len(kept) > MAX_CHARACTERS:
        raise InvalidInput(
            f"validation has {len(kept):,} characters of JSON; {MAX_CHARACTERS:,} are allowed. {_NOTHING}"
        )
    from .schemas import MAX_SCHEMA_STEPS, Steps

    steps = Steps(MAX_SCHEMA_STEPS)
    for place, rule in enumerate(given):
        _check_rule(rule, f"validation[{place}]", validators, steps)
    return kept if given else ""


def _check_rule(rule: Any, where: str, validators: Collection[str], steps: Steps) -> None:
    if not isinstance(rule, dict):
        raise InvalidInput(f"{where} is a rule: an object with some of {', '.join(FIELDS)}. {_NOTHING}")
    for name, value in rule.items():
        if name not in FIELDS:
            raise InvalidInput(f"{where} has '{str(name)[:40]}'; a rule has {', '.join(FIELDS)}. {_NOTHING}")
        _check_field(name, value, f"{where}.{name}", validators, steps)
    if rule.keys().isdisjoint(_CHECKS):
        raise InvalidInput(f"{where} checks nothing; give it one of {', '.join(sorted(_CHECKS))}. {_NOTHING}")
    more = rule.keys() - {"name", "key", "types", "require_key"}
    if rule.get("require_key") and more:
        raise InvalidInput(
            f"{where} requires a key and has {', '.join(sorted(more))} as well: make two rules of it. {_NOTHING}"
        )


def _check_field(name: str, value: Any, where: str, validators: Collection[str], steps: Steps) -> None:
    if name in _SIZES:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _SIZES[name]:
            raise InvalidInput(f"{where} is a whole number from 1 to {_SIZES[name]:,}. {_NOTHING}")
    elif name in ("schema", "metadata_schema"):
        from . import schemas

        schemas.check_schema(value, where, steps)
    elif name == "types":
        if not isinstance(value, list | tuple) or not value or not all(type_ in TYPES for type_ in value):
            raise InvalidInput(f"{where} is a list of types, of {', '.join(TYPES)}. {_NOTHING}")
    elif name == "require_key":
        if value is not True:
            raise InvalidInput(f"{where} is true, or left out. {_NOTHING}")
    elif not isinstance(value, str):
        raise InvalidInput(f"{where} is a text: {FIELDS[name]}. {_NOTHING}")
    elif name == "key":
        check_glob(value)
    elif name == "name":
        if not 0 < len(value) <= MAX_NAME or not value.isprintable():
            raise InvalidInput(f"{where} is a name of 1 to {MAX_NAME} characters on one line. {_NOTHING}")
    elif name == "validator" and value not in validators:
        there = ", ".join(validators) or "none: --validator names them at launch"
        raise InvalidInput(f"{where}: there is no validator '{value[:40]}'; there are: {there}. {_NOTHING}")
