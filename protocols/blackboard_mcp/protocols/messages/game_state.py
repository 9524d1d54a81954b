"""Game state: turns, moves and the player whose turn it is, for anything that is played in turns."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from ..errors import Conflict
from .base import ID, Body, Count, Facts, KeyShape, MessageProtocol, Name, Part, States


class GameStatus(StrEnum):
    """The status of a game."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    OVER = "OVER"
    ABANDONED = "ABANDONED"


GAME_STATES = States(
    first=frozenset({"WAITING", "RUNNING"}),
    moves={
        "WAITING": frozenset({"RUNNING", "ABANDONED"}),
        "RUNNING": frozenset({"OVER", "ABANDONED"}),
        "OVER": frozenset(),
        "ABANDONED": frozenset(),
    },
)


class Game(Body):
    """The state of a game after a turn; `players` are in the order in which they move."""

    status: GameStatus
    turn: Count
    players: Annotated[tuple[Name, ...], Field(min_length=1, max_length=32)]
    state: Facts = Field(default_factory=dict)
    winners: Annotated[tuple[Name, ...], Field(max_length=32)] = ()

    def model_post_init(self, _: object, /) -> None:
        """Checks that each player is listed once and that winners are players.

        Raises:
            ValueError: they are not.
        """
        if len(set(self.players)) != len(self.players):
            raise ValueError("a player stands there twice")
        if not set(self.winners) <= set(self.players):
            raise ValueError("winners are players")

    @property
    def to_move(self) -> str | None:
        """The player whose turn it is, or `None` if the game does not run; turn 0 is the first player's."""
        return self.players[self.turn % len(self.players)] if self.status is GameStatus.RUNNING else None

    def after(self, player: str, state: dict[str, object]) -> Game:
        """Returns the game with `state` after the player's move.

        Raises:
            Conflict: it is not this player's turn.
        """
        if player != self.to_move:
            whose = "the game does not run" if self.to_move is None else f"it is {self.to_move}'s move"
            raise Conflict(f"{player[:64]} cannot move: {whose}. Nothing was changed.", to_move=self.to_move)
        return Game(status=self.status, turn=self.turn + 1, players=self.players, state=state)


class Move(Body):
    """A move of the player whose turn it is."""

    player: Name
    move: Facts


class GameState(MessageProtocol):
    """Play in turns on a state that everybody sees.

    A referee writes the game, one version a turn, with `expected_version` of the last: of two who think
    that it is their turn one is refused. The player to move writes the move of that turn, with
    `expected_version=0`, so that no move is made twice.
    """

    name: ClassVar[str] = "game-state"
    states: ClassVar[States | None] = GAME_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("game", (ID,), Game, "the referee, one version a turn"),
        KeyShape(
            "move",
            (ID, Part("turn", "number")),
            Move,
            "the player whose turn it is, with expected_version 0",
        ),
    )

    def game_key(self, id: str) -> str:
        return self.key("game", id=id)

    def move_key(self, id: str, turn: int) -> str:
        return self.key("move", id=id, turn=turn)
