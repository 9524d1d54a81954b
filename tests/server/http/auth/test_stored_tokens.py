"""The tokens of the store as they are verified: what counts, what does not, and what is remembered."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal, Role, Scope, Trust
from blackboard_mcp.protocols.credentials import ENDING_SECONDS, TokenState
from blackboard_mcp.protocols.errors import BlackboardError, Refused, Unauthorized, UnknownReference
from blackboard_mcp.server.access.tokens import new_access_token, read_access_token
from blackboard_mcp.server.http.auth import failures as failures_module
from blackboard_mcp.server.http.auth import stored as stored_module
from blackboard_mcp.server.http.auth.authenticating import Authenticator
from blackboard_mcp.server.http.auth.failures import Failures
from blackboard_mcp.server.http.auth.stored import REMEMBERED_SECONDS, StoredTokens
from blackboard_mcp.storage.store import SqlBoardStore

START = datetime(2026, 11, 21, 9, tzinfo=UTC)


class Hand:
    """A clock of both kinds that is moved by hand; `off` is by how much the machine's is wrong."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.off = timedelta()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed) + self.off

    def monotonic(self) -> float:
        return self.passed


class Site:
    """A store with tokens, and an authenticator over it."""

    def __init__(self, store: SqlBoardStore, hand: Hand, verifier: type[StoredTokens] = StoredTokens) -> None:
        self.store, self.hand = store, hand
        self.stored = verifier(store, hand, monotonic=hand.monotonic)
        self.authenticator = Authenticator([self.stored], hand, in_force=self.stored.in_force)

    async def issue(self, agent: str = "alice", seconds: float | None = None, **more: Any) -> str:
        ends = None if seconds is None else self.hand.now() + timedelta(seconds=seconds)
        given = {"owner": agent, "roles": {"*": Role.CONTRIBUTOR}, "expires_at": ends, **more}
        made, text = new_access_token(agent=agent, now=self.hand.now(), **given)
        await self.store.add_token(made)
        return text

    async def revoke(self, text: str) -> None:
        await self.store.revoke_token(text.split("_")[1])

    async def who(self, text: str) -> Principal | None:
        return await self.authenticator.principal({"authorization": f"Bearer {text}"})

    async def counts(self, text: str) -> bool:
        try:
            return await self.who(text) is not None
        except Unauthorized:
            return False


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    hand = Hand()
    store = await SqlBoardStore.open(None, clock=hand)
    yield Site(store, hand)
    await store.close()


async def test_a_token_stands_for_whom_it_was_made_for(site: Site) -> None:
    text = await site.issue(
        "bob",
        60,
        owner="acme",
        roles={"main": Role.STEWARD, "*": Role.OBSERVER},
        scopes=frozenset({Scope.READ}),
        trust=Trust.LOW,
    )
    who = await site.who(text)
    assert who == Principal(
        agent="bob",
        owner="acme",
        roles={"main": Role.STEWARD, "*": Role.OBSERVER},
        scopes=frozenset({Scope.READ}),
        via="token",
        credential=text.split("_")[1],
        expires_at=START + timedelta(seconds=60),
        trust=Trust.LOW,
    )
    assert await site.store.owner_of("bob") == "acme"


async def only_what_counts_is_taken(site: Site) -> None:
    """What every verifier of stored tokens must hold."""
    good, other = await site.issue("alice"), await site.issue("bob")
    brief, ended = await site.issue("carol", 10), await site.issue("dave")
    await site.revoke(ended)
    assert await site.counts(good)
    assert await site.counts(brief)
    assert not await site.counts(good[:17] + other[17:])
    assert not await site.counts(good[:17] + "A" * 43)
    assert not await site.counts(ended)
    site.hand.passed = 9.999
    assert await site.counts(brief)
    site.hand.passed = 10.0
    assert not await site.counts(brief)
    assert await site.counts(other)


@pytest.mark.parametrize("years", [-30, 30])
async def test_a_clock_that_jumps_moves_expiry_with_it_and_brings_back_nothing_that_was_revoked(
    site: Site, years: int
) -> None:
    lasting, brief = await site.issue("alice"), await site.issue("bob", 10)
    ended = await site.issue("carol", 3_600)
    await site.revoke(ended)
    assert [await site.counts(text) for text in (lasting, brief, ended)] == [True, True, False]
    site.hand.off = timedelta(days=365 * years)
    assert [await site.counts(text) for text in (lasting, brief, ended)] == [True, years < 0, False]
    # Revoked while the clock is wrong, and what was remembered of it is forgotten in true seconds.
    await site.revoke(lasting)
    site.hand.passed += REMEMBERED_SECONDS
    assert [await site.counts(text) for text in (lasting, brief, ended)] == [False, years < 0, False]
    late = await site.issue("dave", 10)
    assert await site.counts(late)
    await site.stored.record_use()
    site.hand.off = timedelta()
    assert [await site.counts(text) for text in (lasting, brief, ended)] == [False, True, False]
    # Issued by a clock that was slow it has ended long ago; by one that was fast, it will end when it says.
    assert await site.counts(late) == (years > 0)
    site.hand.passed = 10.0
    assert not await site.counts(brief)


async def test_only_a_token_that_is_known_whole_unexpired_and_unrevoked_counts(site: Site) -> None:
    await only_what_counts_is_taken(site)


class ComparesTheIdAlone(StoredTokens):
    async def verify(self, token: str) -> Principal | None:
        parts = read_access_token(token)
        known = None if parts is None else await self._store.find_token(parts[0])
        return None if known is None or known.revoked_at is not None else known.principal


class ForgetsExpiry(StoredTokens):
    async def verify(self, token: str) -> Principal | None:
        found = await super().verify(token)
        return None if found is None else replace(found, expires_at=None)


class ForgetsRevocation(StoredTokens):
    async def verify(self, token: str) -> Principal | None:
        parts = read_access_token(token)
        known = None if parts is None else await self._store.find_token(parts[0])
        if known is None or parts is None or not hmac.compare_digest(parts[1], known.digest):
            return None
        return known.principal


@pytest.mark.parametrize("mutant", [ComparesTheIdAlone, ForgetsExpiry, ForgetsRevocation])
async def test_a_verifier_that_leaves_out_one_of_these_is_found_out(
    site: Site, mutant: type[StoredTokens]
) -> None:
    with pytest.raises(AssertionError):
        await only_what_counts_is_taken(Site(site.store, site.hand, mutant))


async def test_what_is_remembered_of_a_token_ends_in_two_seconds(site: Site) -> None:
    text = await site.issue()
    assert await site.counts(text)
    await site.revoke(text)
    site.hand.passed += REMEMBERED_SECONDS
    assert not await site.counts(text)
    site.hand.passed += 60
    assert not await site.counts(text)


@pytest.mark.parametrize(
    "text",
    ["", "x", "bbt_", "bbt_000000000000_", "BBT_{}", "{}x", " {}", "{} ", "{}\n", "bbt_000000000000_{}", "é"],
)
async def test_a_text_that_is_no_token_stands_for_nobody(site: Site, text: str) -> None:
    good = await site.issue()
    assert not await site.counts(text.replace("{}", good))


async def test_one_secret_has_one_text(site: Site) -> None:
    good = await site.issue()
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    alike = [good[:-1] + digit for digit in digits]
    secret = base64.urlsafe_b64decode(good[17:] + "=")
    same = [text for text in alike if base64.urlsafe_b64decode(text[17:] + "=") == secret]
    assert len(same) == 4
    assert [text for text in alike if await site.counts(text)] == [good]


async def test_the_same_is_said_of_every_token_that_does_not_count(site: Site) -> None:
    ended, expired = await site.issue("alice"), await site.issue("bob", 1)
    await site.revoke(ended)
    site.hand.passed = 5
    said = set()
    for text in (ended, expired, "x", ended[:17] + "A" * 43):
        with pytest.raises(Unauthorized) as raised:
            await site.who(text)
        said.add((raised.value.message, raised.value.challenge))
    assert len(said) == 1


async def test_no_token_is_asked_for_until_there_is_one_and_then_always(site: Site) -> None:
    assert await site.authenticator.principal({}) is None
    assert await site.authenticator.principal({"authorization": "Bearer x"}) is None
    text = await site.issue(seconds=1)
    site.hand.passed = REMEMBERED_SECONDS
    with pytest.raises(Unauthorized):
        await site.authenticator.principal({})
    await site.revoke(text)
    site.hand.passed = 1_000
    with pytest.raises(Unauthorized):
        await site.authenticator.principal({"x-blackboard-agent": "alice"})


async def test_use_is_recorded_afterwards_and_only_forwards(site: Site) -> None:
    text = await site.issue()
    id_ = text.split("_")[1]
    site.hand.passed = 7
    assert await site.counts(text)
    found = await site.store.find_token(id_)
    assert found is not None
    assert found.used_at is None
    await site.stored.record_use()
    await site.store.tokens_used({id_: START})
    found = await site.store.find_token(id_)
    assert found is not None
    assert found.used_at == START + timedelta(seconds=7)


async def test_a_revoked_token_stays_revoked_and_listed(site: Site) -> None:
    text = await site.issue()
    id_ = text.split("_")[1]
    first = await site.store.revoke_token(id_)
    site.hand.passed = 10
    assert await site.store.revoke_token(id_) == first
    assert [(one.id, one.state(site.hand.now())) for one in await site.store.tokens()] == [
        (id_, TokenState.REVOKED)
    ]
    with pytest.raises(UnknownReference):
        await site.store.revoke_token("0" * 12)


async def test_an_agent_acts_for_one_owner_while_a_token_says_so(site: Site) -> None:
    first = await site.issue("alice", owner="acme")
    await site.issue("alice", owner="acme")
    with pytest.raises(Refused, match="acts for one owner"):
        await site.issue("alice", owner="other")
    assert await site.store.owner_of("alice") == "acme"
    for one in await site.store.tokens():
        await site.store.revoke_token(one.id)
    assert first
    site.hand.passed += ENDING_SECONDS
    await site.issue("alice", owner="other")
    assert await site.store.owner_of("alice") == "other"


async def test_a_store_that_cannot_tell_lets_nobody_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    text = await site.issue()
    assert await site.counts(text)

    class Broken(BlackboardError):
        pass

    async def broken(id_: str) -> None:
        raise Broken("the disk is gone")

    site.hand.passed = 3
    monkeypatch.setattr(site.store, "find_token", broken)
    with pytest.raises(Broken):
        await site.who(text)


async def test_memory_of_tokens_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_module, "_REMEMBERED", 3)
    site = Site(site.store, site.hand)
    texts = [await site.issue(f"a{n}") for n in range(6)]
    assert all([await site.counts(text) for text in texts])
    assert len(site.stored._known) == 3
    assert all([await site.counts(text) for text in texts])


def test_a_peer_may_fail_so_often_a_minute_and_no_more() -> None:
    time = SimpleNamespace(now=100.0)
    failures = Failures(3, monotonic=lambda: time.now)
    assert [failures.failed("10.0.0.1") for _ in range(3)] == [0, 0, 0]
    assert 0 < failures.failed("10.0.0.1") <= 61
    assert failures.failed("10.0.0.2") == 0
    time.now += 60
    assert failures.failed("10.0.0.1") == 0


def test_addresses_of_one_customer_fail_together() -> None:
    failures = Failures(1, monotonic=lambda: 5.0)
    assert failures.failed("2001:db8:1:2::1") == 0
    assert failures.failed("::ffff:192.0.2.1") == 0
    assert failures.failed("2001:db8:1:2:ffff::9") > 0
    assert failures.failed("2001:db8:1:3::1") == 0
    assert failures.failed("192.0.2.1") > 0


async def test_only_so_many_who_failed_too_often_wait_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures_module, "_PAUSED", 2)
    monkeypatch.setattr(failures_module, "PAUSE_SECONDS", 3_600.0)
    failures = Failures(1)
    waiting = [asyncio.create_task(failures.pause()) for _ in range(2)]
    await asyncio.sleep(0)
    await failures.pause()
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert failures._paused == 0
