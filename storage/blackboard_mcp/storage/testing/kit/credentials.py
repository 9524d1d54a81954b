"""Tests of access tokens, for stores that keep them: they persist, end for good, and belong to no board."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from blackboard_mcp.protocols.access import Role, Scope, Trust
from blackboard_mcp.protocols.credentials import ENDING_SECONDS, AccessToken, CredentialStore, TokenState
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference
from blackboard_mcp.protocols.store import BoardStore

from ..harness import HandClock, Table
from .fixtures import CAPABILITIES

TOKENS = "access tokens"


def new(clock: HandClock, id_: str, agent: str = "alice", **more: Any) -> AccessToken:
    """Returns a new token; its role is contributor on every board unless `more` says otherwise."""
    given = {"owner": agent, "roles": {"*": Role.CONTRIBUTOR}, "created_at": clock.now(), **more}
    return AccessToken(id=id_, digest=id_.encode().ljust(32, b"."), agent=agent, **given)


def keeper(store: BoardStore, name: str) -> CredentialStore:
    """Returns the store as a keeper of tokens; skips the test if it is none."""
    CAPABILITIES.setdefault(name, {})[TOKENS] = there = hasattr(store, "add_token")
    if not there:
        pytest.skip(f"{name} keeps no {TOKENS}")
    return cast(CredentialStore, store)


class CredentialTests:
    @pytest.fixture
    def tokens(self, store: BoardStore) -> CredentialStore:
        return keeper(store, type(self).__name__)

    async def test_a_token_is_found_as_it_was_kept(self, tokens: CredentialStore, clock: HandClock) -> None:
        assert not await tokens.has_tokens()
        assert await tokens.find_token("t1") is None
        whole = new(
            clock,
            "t1",
            owner="acme",
            roles={"main": Role.STEWARD, "*": Role.OBSERVER},
            scopes=frozenset({Scope.READ, Scope.POST}),
            trust=Trust.LOW,
            expires_at=clock.now() + timedelta(days=1),
        )
        await tokens.add_token(whole)
        assert await tokens.has_tokens()
        assert await tokens.find_token("t1") == whole
        assert await tokens.find_token("T1") is None
        clock.advance(1)
        await tokens.add_token(other := new(clock, "t0", "bob", scopes=frozenset()))
        assert await tokens.tokens() == [whole, other]
        with pytest.raises(Conflict):
            await tokens.add_token(new(clock, "t1", "carol"))
        assert await tokens.tokens() == [whole, other]

    async def test_a_token_ends_for_good_and_is_kept(self, tokens: CredentialStore, clock: HandClock) -> None:
        await tokens.add_token(first := new(clock, "t1", expires_at=clock.now() + timedelta(seconds=10)))
        clock.advance(5)
        ended = await tokens.revoke_token("t1")
        assert ended == replace(first, revoked_at=clock.now())
        clock.advance(10)
        assert await tokens.revoke_token("t1") == ended
        assert await tokens.find_token("t1") == ended
        assert ended.state(clock.now()) is TokenState.REVOKED
        assert await tokens.has_tokens()
        with pytest.raises(UnknownReference):
            await tokens.revoke_token("t2")

    async def test_an_expired_token_is_kept(self, tokens: CredentialStore, clock: HandClock) -> None:
        await tokens.add_token(one := new(clock, "t1", expires_at=clock.now() + timedelta(seconds=10)))
        assert one.state(clock.now() + timedelta(seconds=9)) is TokenState.ACTIVE
        assert one.state(clock.now() + timedelta(seconds=10)) is TokenState.EXPIRED
        clock.advance(100)
        assert await tokens.tokens() == [one]
        assert await tokens.has_tokens()

    async def test_an_agent_acts_for_whom_its_tokens_that_count_say(
        self, tokens: CredentialStore, store: BoardStore, clock: HandClock
    ) -> None:
        assert await tokens.token_of_agent("alice") is None
        ends = clock.now() + timedelta(seconds=10)
        await tokens.add_token(made := new(clock, "t1", owner="acme", expires_at=ends))
        assert await tokens.token_of_agent("alice") == made
        assert await store.owner_of("alice") == "acme"
        assert await tokens.token_of_agent("acme") is None
        with pytest.raises(Refused):
            await tokens.add_token(new(clock, "t2", owner="other"))
        assert await tokens.find_token("t2") is None
        assert await store.owner_of("alice") == "acme"
        clock.advance(10)
        assert await tokens.token_of_agent("alice") is None
        clock.advance(ENDING_SECONDS)
        await tokens.add_token(made := new(clock, "t2", owner="other"))
        assert await tokens.token_of_agent("alice") == made
        assert await store.owner_of("alice") == "other"
        await tokens.revoke_token("t2")
        assert await tokens.token_of_agent("alice") is None
        clock.advance(ENDING_SECONDS)
        await tokens.add_token(new(clock, "t3"))
        assert await store.owner_of("alice") == "alice"

    async def test_while_calls_of_an_ended_token_may_go_on_its_agent_gets_no_other_owner_or_trust(
        self, tokens: CredentialStore, store: BoardStore, clock: HandClock
    ) -> None:
        ends = clock.now() + timedelta(seconds=9)
        await tokens.add_token(new(clock, "t1", owner="acme"))
        await tokens.add_token(new(clock, "t2", owner="acme", expires_at=ends))
        clock.advance(9)
        await tokens.revoke_token("t1")
        for late in (1, ENDING_SECONDS - 1):
            for other in (new(clock, "t3", owner="other"), new(clock, "t3", owner="acme", trust=Trust.LOW)):
                with pytest.raises(Refused, match="may go on for 5 seconds"):
                    await tokens.add_token(other)
            assert await store.owner_of("alice") == "acme"
            clock.advance(late)
        await tokens.add_token(new(clock, "t3", owner="other", trust=Trust.LOW))
        assert await store.owner_of("alice") == "other"

    async def test_an_agent_is_relied_on_as_its_tokens_that_count_say(
        self, tokens: CredentialStore, clock: HandClock
    ) -> None:
        await tokens.add_token(new(clock, "t1", trust=Trust.LOW))
        with pytest.raises(Refused, match="relied on as low"):
            await tokens.add_token(new(clock, "t2"))
        assert await tokens.find_token("t2") is None
        await tokens.add_token(new(clock, "t2", trust=Trust.LOW))
        for id_ in ("t1", "t2"):
            await tokens.revoke_token(id_)
        clock.advance(ENDING_SECONDS)
        await tokens.add_token(new(clock, "t3"))

    async def test_use_is_recorded_forwards(self, tokens: CredentialStore, clock: HandClock) -> None:
        await tokens.add_token(new(clock, "t1"))
        later = clock.now() + timedelta(seconds=5)
        await tokens.tokens_used({"t1": later, "none": later})
        await tokens.tokens_used({"t1": clock.now()})
        found = await tokens.find_token("t1")
        assert found is not None
        assert found.used_at == later
        assert len(await tokens.tokens()) == 1

    async def test_tokens_of_another_store_are_taken_over_with_their_ends(
        self, tokens: CredentialStore, clock: HandClock
    ) -> None:
        await tokens.add_token(here := new(clock, "t1"))
        await tokens.add_token(ended := new(clock, "t2", "bob"))
        await tokens.revoke_token("t2")
        at = clock.now() + timedelta(seconds=1)
        there = [
            replace(here, revoked_at=at),
            ended,
            new(clock, "t3", "carol"),
            new(clock, "t4", revoked_at=at),
        ]
        for _ in range(2):
            await tokens.keep_tokens(there)
            states = {one.id: one.state(at) for one in await tokens.tokens()}
            assert states == {
                "t1": TokenState.REVOKED,
                "t2": TokenState.REVOKED,
                "t3": TokenState.ACTIVE,
                "t4": TokenState.REVOKED,
            }

    async def test_tokens_are_of_no_board(self, tokens: CredentialStore, at: Table, clock: HandClock) -> None:
        await at.post("alice", "a")
        before = (await at.standing(), await at.events())
        await tokens.add_token(new(clock, "t1"))
        await tokens.revoke_token("t1")
        assert (await at.standing(), await at.events()) == before

    async def test_what_one_handle_does_to_tokens_the_other_knows_at_once(
        self, handles: tuple[Table, Table], clock: HandClock
    ) -> None:
        one, two = (keeper(table.store, type(self).__name__) for table in handles)
        await one.add_token(new(clock, "t1"))
        assert await two.has_tokens()
        ended = await two.revoke_token("t1")
        assert await one.find_token("t1") == ended
