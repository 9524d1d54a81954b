"""The channel between a parent and a worker: whole messages, in order, each with its own file."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator

import pytest
from blackboard_mcp.server.http.channel import Channel, Heard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are not sent between processes there")


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    one, other = map(Channel, socket.socketpair())
    yield one, other
    one.close()
    other.close()


def heard(channel: Channel, count: int) -> list[Heard]:
    found: list[Heard] = []
    for _ in range(count + 20):
        found += channel.received() or ()
    assert len(found) == count
    return found


def test_messages_arrive_whole_and_each_file_with_its_own(pair: tuple[Channel, Channel]) -> None:
    one, other = pair
    files = [os.pipe() for _ in range(40)]
    for n, (end, _) in enumerate(files):
        assert one.send(b"t", b"x" * n)
        assert one.send(b"C", b"%d" % n, file=end)
        os.close(end)
    messages = heard(other, 80)
    assert [body for kind, body, file in messages if kind == b"t"] == [b"x" * n for n in range(40)]
    assert all(file is None for kind, _, file in messages if kind == b"t")
    for (_, write), (_, body, file) in zip(files, (m for m in messages if m.kind == b"C"), strict=True):
        assert file is not None
        assert not os.get_inheritable(file)
        os.write(write, b"at " + body)
        assert os.read(file, 9) == b"at " + body
        os.close(file)
        os.close(write)


def test_a_message_larger_than_what_is_read_at_once_waits_for_its_rest(pair: tuple[Channel, Channel]) -> None:
    one, other = pair
    assert one.send(b"s", b"y" * 150_000)
    assert one.send(b"r")
    assert other.received() == []
    assert heard(other, 2) == [Heard(b"s", b"y" * 150_000, None), Heard(b"r", b"", None)]


def test_nothing_waits_for_a_side_that_does_not_read_or_is_gone(pair: tuple[Channel, Channel]) -> None:
    one, other = pair
    sent = 0
    while one.send(b"t", b"%09d" % sent):
        sent += 1
    told = heard(other, sent)
    assert [int(body) for _, body, _ in told] == list(range(sent)), "what was refused was not begun"
    assert one.send(b"e")
    assert other.received() == [Heard(b"e", b"", None)]
    assert other.received() == []
    one.close()
    assert other.received() is None
    assert not other.send(b"e")
