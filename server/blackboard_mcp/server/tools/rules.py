"""The tool `constraint` of the set `memory`: the rules of a board."""

from __future__ import annotations

from typing import Annotated, Any, Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.late_models import rule_wire
from blackboard_mcp.protocols.rules import MAX_RULE, MAX_SCOPE, Strength
from pydantic import BaseModel, Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.rendering import Rendering
from ..answers.rules import ruled_lines
from ..input.capture import MAX_MESSAGE
from ..input.posts import ONE_OR_MORE, Id, check_text
from ..usecases.rules import Ruled, Rules
from .tool import Answer, Caller, ToolSet

BoardId = Annotated[str, Field(max_length=64)]
Body = Annotated[str, Field(max_length=MAX_RULE)]
StrengthName = Annotated[
    Strength, WithJsonSchema({"type": "string", "maxLength": 8, "description": "strict, prefer, suggest"})
]
Scope = Annotated[
    str, Field(max_length=MAX_SCOPE), WithJsonSchema({"type": "string", "maxLength": MAX_SCOPE})
]
CheckName = Annotated[str, Field(max_length=MAX_SCOPE, description="absent:GLOB, exists:GLOB")]
Ids = Annotated[list[Id], Field(max_length=20), ONE_OR_MORE]
Reason = Annotated[str, Field(max_length=300, description="why")]
Message = Annotated[str, Field(max_length=MAX_MESSAGE, description="the user's")]
_ALONE: Final = {
    "confirm": frozenset({"confirm"}),
    "message": frozenset({"message"}),
    "retire": frozenset({"retire", "id"}),
    "text": frozenset({"text", "strength", "scope", "id", "check"}),
}


class RuleTools:
    """The tool with which agents read, propose, make and retire rules."""

    def __init__(self, rules: Rules, rendering: Rendering) -> None:
        self._rules = rules
        self._say = rendering

    def register(self, tools: ToolSet) -> None:
        """Adds the tool `constraint`."""
        tools.add(
            self.constraint,
            name="constraint",
            title="Rules",
            description="Lists rules; text or a user's message proposes some, confirm makes them.",
            needs=TOOLS["constraint"],
            output=lambda: rule_wire.ConstraintAnswer,
        )

    async def constraint(
        self,
        caller: Caller,
        text: Body | None = None,
        strength: StrengthName | None = None,
        scope: Scope | None = None,
        id: Id | None = None,
        confirm: Ids | None = None,
        retire: Reason | None = None,
        message: Message | None = None,
        check: CheckName | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Lists the rules, or changes them by one of `text`, `confirm`, `retire` and `message`."""
        given: dict[str, Any] = {
            "text": text,
            "strength": strength,
            "scope": scope,
            "id": id,
            "confirm": confirm,
            "retire": retire,
            "message": message,
            "check": check,
        }
        if text is not None and not text.strip():
            raise InvalidInput("The text of a rule must not be empty. Nothing was changed.")
        _check_together({name for name, value in given.items() if value is not None}, retire, id)
        agent = caller.agent
        once = caller.once_key if any(value is not None for value in given.values()) else None
        for words in (text, retire, message):
            check_text(words or "")
        if confirm is not None:
            done = await self._rules.confirm(agent, board, confirm, once_key=once)
        elif message is not None:
            done = await self._rules.capture(agent, board, message, once_key=once)
        elif retire is not None and id is not None:
            done = await self._rules.retire(agent, board, id, retire.strip(), once_key=once)
        elif text is not None:
            done = await self._rules.propose(
                agent, board, text.strip(), strength, scope, id_=id, check=check, once_key=once
            )
        else:
            done = await self._rules.standing(agent, board)
        lines = ruled_lines(done, proposed=message is not None)
        return Answer(
            lambda: self._say.with_footer("\n".join(lines), done.seq, done.attention), lambda: _wire(done)
        )


def _check_together(given: set[str], retire: str | None, id_: str | None) -> None:
    """Checks that the arguments ask for one thing.

    Raises:
        InvalidInput: they do not.
    """
    if not given:
        return
    does = next((name for name in _ALONE if name in given), None)
    if does is None or not given <= _ALONE[does]:
        raise InvalidInput(
            "constraint takes text (with strength, scope, check, id), or confirm, or retire with id, or message. "
            "Nothing was changed."
        )
    if does == "retire" and (id_ is None or not (retire or "").strip()):
        raise InvalidInput(
            "retire is the reason, with the id of the rule. Nothing was changed; "
            'constraint(id="K-3", retire="…").'
        )


def _wire(done: Ruled) -> BaseModel:
    return rule_wire.ConstraintAnswer(
        revision=done.book.revision,
        rules=[rule_wire.wire_rule(rule) for rule in done.book.rules],
        proposals=[
            rule_wire.WireProposal(
                id=one.id,
                text=one.text,
                strength=one.strength,
                scope=one.scope,
                author=one.author,
                check=one.check or None,
                replaces=one.replaces,
                by_model=one.by_model,
            )
            for one in done.proposals
        ],
        written=list(done.written),
        more=len(done.left),
        more_from=done.left[0] if done.left else None,
        model=done.model or None,
        seq=done.seq,
    )
