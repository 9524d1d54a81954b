"""How fast boards may be written to: bursts, rates, fair shares, and nothing kept of who went."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.errors import InvalidInput, QuotaExceeded, RateLimited
from blackboard_mcp.server.limits.limits import Limits, limits_of
from blackboard_mcp.server.limits.rates import Quotas, size_of

LIMITS = Limits(posts_per_second=2, posts_burst=100, board_posts_per_second=10, board_posts_burst=200)


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def taken(quotas: Quotas, agent: str, board: str, of: int) -> int:
    """How many of so many single writes went through."""
    count = 0
    for _ in range(of):
        try:
            quotas.charge(agent, board)
            count += 1
        except RateLimited:
            pass
    return count


def test_a_burst_goes_through_and_then_the_rate(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    assert taken(quotas, "a", "main", 150) == 100
    time.now += 10
    assert taken(quotas, "a", "main", 150) == 20
    time.now += 1_000
    assert taken(quotas, "a", "main", 150) == 100


def test_a_batch_counts_its_items_and_is_taken_whole_or_not_at_all(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    quotas.charge("a", "main", 90)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("a", "main", 11)
    assert caught.value.facts["limit"] == "posts_per_second"
    quotas.charge("a", "main", 10)


def test_waiting_as_long_as_is_said_is_enough_and_not_much_too_long(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    quotas.charge("a", "main", 100)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("a", "main", 7)
    seconds = caught.value.facts["retry_after_seconds"]
    assert 3.5 <= seconds <= 3.7
    assert f"send it again in {seconds:g} seconds" in caught.value.message
    time.now += seconds
    quotas.charge("a", "main", 7)


def test_one_who_wrote_more_than_others_is_told_how_long_it_waits_on_a_board_that_is_nearly_used_up(
    time: Time,
) -> None:
    limits = Limits(
        posts_per_second=1_000, posts_burst=10_000, board_posts_per_second=10, board_posts_burst=200
    )
    quotas = Quotas(limits, clock=time)
    for agent, amount in (("a", 100), ("b", 90), ("c", 5)):
        quotas.charge(agent, "main", amount)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("a", "main", 10)
    assert caught.value.facts["limit"] == "board_posts_per_second"
    time.now += caught.value.facts["retry_after_seconds"]
    quotas.charge("a", "main", 10)


def test_the_wait_that_is_told_is_enough_for_every_limit_that_a_call_exceeds(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    quotas.charge("a", "main", 100, LIMITS.bytes_burst)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("a", "main", 1, 1_000_000)
    assert caught.value.facts["limit"] == "bytes_per_second"
    time.now += caught.value.facts["retry_after_seconds"]
    quotas.charge("a", "main", 1, 1_000_000)


def test_a_call_of_more_than_a_burst_is_taken_once_that_is_whole_and_paid_back(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    quotas.charge("a", "main", 6)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("a", "main", 120)
    assert 3 <= caught.value.facts["retry_after_seconds"] <= 3.2
    time.now += caught.value.facts["retry_after_seconds"]
    quotas.charge("a", "main", 120)
    time.now += 10
    assert taken(quotas, "a", "main", 5) == 0
    time.now += 1
    assert taken(quotas, "a", "main", 5) == 2


def test_agents_of_one_owner_have_one_rate_and_others_their_own(time: Time) -> None:
    quotas = Quotas(LIMITS, owner_of=lambda agent: agent.split("-")[0], clock=time)
    assert taken(quotas, "a-1", "main", 60) == 60
    assert taken(quotas, "a-2", "other", 60) == 40
    assert taken(quotas, "b-1", "other", 60) == 60


def test_f58_who_floods_a_board_leaves_the_last_half_to_the_others(time: Time) -> None:
    limits = Limits(
        posts_per_second=1_000, posts_burst=10_000, board_posts_per_second=10, board_posts_burst=200
    )
    quotas = Quotas(limits, clock=time)
    quotas.charge("quiet", "main")
    assert taken(quotas, "flood", "main", 500) == 99
    assert taken(quotas, "quiet", "main", 30) == 30
    assert taken(quotas, "new", "main", 10) == 10
    with pytest.raises(RateLimited) as caught:
        quotas.charge("flood", "main")
    assert caught.value.facts["limit"] == "board_posts_per_second"
    time.now += caught.value.facts["retry_after_seconds"]
    quotas.charge("flood", "main")
    assert taken(quotas, "flood", "elsewhere", 50) == 50


def test_floods_for_an_hour_get_the_rate_and_those_who_write_less_are_never_refused(time: Time) -> None:
    limits = Limits(
        posts_per_second=1_000, posts_burst=10_000, board_posts_per_second=10, board_posts_burst=200
    )
    quotas = Quotas(limits, clock=time)
    floods = 0
    for second in range(3_600):
        time.now += 1
        floods += taken(quotas, "one", "main", 20) + taken(quotas, "two", "main", 20)
        if second % 5 == 0:
            quotas.charge("quiet", "main", 3)
    total = floods + 720 * 3
    assert 3_500 * 10 <= total <= 3_600 * 10 + 200


def test_one_alone_may_use_all_of_a_board(time: Time) -> None:
    limits = Limits(posts_per_second=1_000, posts_burst=10_000, board_posts_burst=200)
    assert taken(Quotas(limits, clock=time), "a", "main", 300) == 200


def test_nothing_is_kept_of_thousands_who_came_and_went(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    most = 0
    for number in range(20_000):
        time.now += 0.1
        quotas.charge(f"agent-{number}", f"board-{number % 3_000}")
        most = max(most, len(quotas))
    assert most < 1_600
    before = len(quotas)
    for number in range(5_000):
        time.now += 0.2
        quotas.charge(f"later-{number}", "main")
    assert len(quotas) < max(before, 1_600)


def test_a_long_text_is_refused_by_its_limit() -> None:
    quotas = Quotas(Limits(post_characters=100))
    quotas.check_text(100)
    with pytest.raises(QuotaExceeded, match="at most 100 characters") as caught:
        quotas.check_text(101)
    assert caught.value.facts == {"limit": "post_characters", "most": 100}


def test_without_limits_nothing_is_counted() -> None:
    quotas = Quotas()
    quotas.check_text(10**9)
    for _ in range(3):
        quotas.charge("a", "main", 10**9)
    assert len(quotas) == 0


BYTES = Limits(
    posts_per_second=1_000,
    posts_burst=1_000_000,
    bytes_per_second=1_000,
    bytes_burst=5_000_000,
    board_bytes_per_second=10_000,
    board_bytes_burst=10_000_000,
)


def test_bytes_have_a_burst_and_a_rate_of_their_own_and_a_refused_write_takes_nothing(time: Time) -> None:
    quotas = Quotas(BYTES, clock=time)
    for _ in range(4):
        quotas.charge("a", "main", size=1_200_000)
    with pytest.raises(
        RateLimited, match=r"send it again in 200\.1 seconds, or post what others need of it"
    ) as caught:
        quotas.charge("a", "main", 500, size=400_000)
    assert caught.value.facts == {"limit": "bytes_per_second", "retry_after_seconds": 200.1}
    quotas.charge("a", "main", size=200_000)
    quotas.charge("a", "main", 100, size=0)
    time.now += 10
    quotas.charge("a", "main", size=10_000)
    with pytest.raises(RateLimited):
        quotas.charge("a", "main", size=100)


def test_who_fills_a_board_with_bytes_leaves_the_last_half_to_the_others(time: Time) -> None:
    quotas = Quotas(BYTES, owner_of=lambda agent: agent.split("-")[0], clock=time)
    quotas.charge("quiet-1", "main", size=1_000)
    quotas.charge("flood-1", "main", size=4_000_000)
    with pytest.raises(RateLimited) as caught:
        quotas.charge("flood-2", "main", size=1_000_000)
    assert caught.value.facts["limit"] == "board_bytes_per_second"
    quotas.charge("quiet-2", "main", size=1_000_000)
    quotas.charge("flood-2", "other", size=900_000)


def test_a_burst_of_bytes_is_never_less_than_one_call_may_write() -> None:
    with pytest.raises(InvalidInput, match="bytes_burst must be from 5,000,000"):
        limits_of({"bytes_burst": 4_999_999}, "limits")


def test_the_size_of_a_post_is_its_text_and_metadata_in_utf_8() -> None:
    assert size_of(None) == 0
    assert size_of("ä" * 10) == 20
    assert size_of("x", {"a": "b"}) == 1 + len('{"a": "b"}')
    assert size_of("\ud800") == 1


def shared(time: Time, count: int) -> list[Quotas]:
    """The quotas of so many servers on the same boards."""
    servers = [Quotas(LIMITS, clock=time) for _ in range(count)]
    for one in servers:
        one.shared = True
    return servers


def tell(servers: list[Quotas]) -> None:
    """Tells each what the others let through."""
    told = [one.taken() for one in servers]
    for n, one in enumerate(servers):
        one.took_elsewhere(each for m, taken in enumerate(told) if m != n for each in taken)


def test_what_one_server_let_through_counts_in_the_others(time: Time) -> None:
    one, other = servers = shared(time, 2)
    assert taken(one, "a", "main", 150) == 100
    tell(servers)
    assert taken(other, "a", "main", 150) == 0
    assert taken(other, "b", "main", 10) == 10
    tell(servers)
    time.now += 10
    assert taken(one, "a", "main", 150) == 20
    tell(servers)
    assert taken(other, "a", "main", 150) == 0


def test_what_several_let_through_at_once_is_paid_back(time: Time) -> None:
    servers = shared(time, 3)
    assert [taken(one, "a", f"board{n}", 150) for n, one in enumerate(servers)] == [100, 100, 100]
    through = 0
    for _ in range(150):
        tell(servers)
        time.now += 1
        for n, one in enumerate(servers):
            through += taken(one, "a", f"board{n}", 1)
            tell(servers)
    assert through == 2 * 150 - 200, "in the long run the rate is that of one server"


def test_a_server_that_was_paused_refuses_nobody_for_what_others_let_through_long_ago(time: Time) -> None:
    one, paused = shared(time, 2)
    tell([one, paused])
    told = []
    for _ in range(100):
        time.now += 1
        assert taken(one, "a", "main", 2) == 2
        told += one.taken()
    assert paused.taken() == []
    paused.took_elsewhere(told)
    assert taken(paused, "a", "main", 150) == 100


def test_a_server_alone_keeps_nothing_to_tell(time: Time) -> None:
    quotas = Quotas(LIMITS, clock=time)
    quotas.charge("a", "main", 5)
    assert quotas.taken() == []
