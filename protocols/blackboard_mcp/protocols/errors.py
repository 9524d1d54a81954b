"""Every error of the product.

    BlackboardError
    ├── InvalidInput            the caller's words are off: nothing was changed
    │   └── UnknownReference    an id, key or board that does not exist (or may not be seen)
    ├── CursorExpired           a subscription expired unused, or a place is of no event of the log
    ├── Conflict                the state moved meanwhile: an expected version, a transition
    │   └── RulesMoved          the board's rules or tokenizer are not those that a draft was checked and counted by
    ├── Refused                 understood, and not allowed: a rule of the board, a right, a limit
    │   ├── Forbidden           the caller's role on the board, or the credential's scopes, lack it
    │   │   └── Unpermitted     changes that no access policy has allowed yet
    │   ├── RulesUnseen         rules changed since the agent was shown them
    │   ├── UnderPressure       more is protected than the budget allows: no room for what matters less
    │   ├── RateLimited         too much at once or too fast: the same call is taken later
    │   └── QuotaExceeded       more than one may have or send, however long one waits
    ├── Unauthorized            the request shows no credential that counts (HTTP only)
    ├── StoreError              the store could not do it
    │   ├── StoreBusy           no write lock within the deadline
    │   ├── StoreFull           no room on the disk
    │   │   └── StoreLow        little room on the disk, which is left to what ends work
    │   ├── StoreTooNew         the file was written by a newer version of the product
    │   ├── StoreDamaged        the file is not a board file, or is damaged
    │   └── StoreClosed         used after close, or stopped after a failed write
    ├── IssuerUnavailable       the issuer of an access token cannot be asked, so the token cannot be checked
    ├── Unreachable             no answer from the server within the time a client tries
    ├── ArchiveUnavailable      the search index cannot be opened or read
    └── SummaryFailed           a summariser outside gave no answer that can be read

Each error has a `code`, stable on the wire, and a message that teaches: what was wrong, what is
allowed, that nothing was changed, what to call next. It repeats words of the caller, so it is always one
line, with what hides, moves or ends text as escapes; what comes after it on another line is the server's.
`facts` holds what programs want to read, with JSON values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .visible import escape

if TYPE_CHECKING:
    from .changes import Proposal
    from .rules import RuleBook


class BlackboardError(Exception):
    """The base of all errors of this product."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **facts: Any) -> None:
        self.message = escape(message)
        super().__init__(self.message)
        self.facts = facts


class InvalidInput(BlackboardError):
    """The caller's words are off; nothing was changed."""

    code = "invalid"


class UnknownReference(InvalidInput):
    """Something named does not exist, or may not be seen: the two look the same."""

    code = "not_found"


class CursorExpired(BlackboardError):
    """A place is not kept any more, or was given before the board was restored: `read()`, and go on from its `seq`.

    `facts` hold the `cursor` and the board's `seq`. After a restore they also hold `restored_after`, the last sequence
    up to which the log is unchanged.
    """

    code = "cursor_expired"


class Conflict(BlackboardError):
    """The state moved between the caller's look and the call; nothing was changed."""

    code = "conflict"


class RulesMoved(Conflict):
    """The board's rules of validation or its tokenizer are not those the draft was checked and counted by: do both
    again; nothing was changed."""

    code = "rules_moved"


class Refused(BlackboardError):
    """Understood, and not allowed; nothing was changed."""

    code = "refused"


class Forbidden(Refused):
    """The caller's role on the board, or the scopes of the credential, lack the action; nothing was changed."""

    code = "forbidden"


class Unpermitted(Forbidden):
    """Changes that were not put before the board's access policies, or not as they are by now; nothing was changed.

    Attributes:
        proposal: all of the changes, with their agent; `None` where the error came over a wire.
    """

    code = "unpermitted"

    def __init__(self, message: str, proposal: Proposal | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.proposal = proposal


class RulesUnseen(Refused):
    """Rules in the agent's scope changed since it was shown them; nothing was changed."""

    code = "rules_unseen"
    book: RuleBook | None = None
    """The rules as they are now, where a store raised it."""


class UnderPressure(Refused):
    """More is protected than the board's budget allows, and the post is of low importance; nothing was changed."""

    code = "pressure"


class RateLimited(Refused):
    """Too much at once or too fast; `facts` hold `retry_after_seconds` and the `limit`'s name; nothing was changed."""

    code = "rate_limited"


class QuotaExceeded(Refused):
    """More than one may have or send; `facts` hold the `limit`'s name and its bound as `most`; nothing was changed."""

    code = "quota"


class Unauthorized(BlackboardError):
    """The request shows no credential that counts; nothing was changed, and nothing is told of what there is.

    `challenge` is the value of the answer's `WWW-Authenticate` header.
    """

    code = "unauthorized"

    def __init__(self, message: str, *, challenge: str = "Bearer", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.challenge = challenge


class StoreError(BlackboardError):
    """The store could not do what was asked; nothing was changed."""

    code = "unavailable"


class StoreBusy(StoreError):
    """No write lock within the deadline."""

    code = "busy"


class StoreFull(StoreError):
    """No room on the disk."""

    code = "full"


class StoreLow(StoreFull):
    """Little room on the disk, which is left to what ends work: the same call is taken when there is more."""

    code = "low"


class StoreTooNew(StoreError):
    """The file was written by a newer version of the product."""

    code = "too_new"


class StoreDamaged(StoreError):
    """The file is not a board file, or is damaged."""

    code = "damaged"


class StoreClosed(StoreError):
    """The store was closed, or stopped after a failed write."""

    code = "closed"


class IssuerUnavailable(BlackboardError):
    """The issuer of an access token cannot be asked for its keys now, so the token cannot be checked."""

    code = "issuer_unavailable"


class Unreachable(BlackboardError):
    """No answer from the server; the call may have been carried out all the same."""

    code = "unreachable"


class ArchiveUnavailable(BlackboardError):
    """The search index cannot be opened or read; it can be rebuilt from the store."""

    code = "archive_unavailable"


class SummaryFailed(BlackboardError):
    """A summariser outside gave no answer that can be read; the server writes the summary itself."""

    code = "summary_failed"


def error_of(code: str, message: str, facts: Mapping[str, Any]) -> BlackboardError:
    """Returns the error of the class that has the wire code `code`.

    An unknown code gives a `BlackboardError` that has the code in its `facts` as `error`.
    """
    pending: list[type[BlackboardError]] = [BlackboardError]
    while pending:
        kind = pending.pop()
        if kind.code == code:
            return kind(message, **facts)
        pending += kind.__subclasses__()
    return BlackboardError(message, **{**facts, "error": code})
