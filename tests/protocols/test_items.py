"""References, ids and hashes."""

from __future__ import annotations

import hashlib

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import (
    FINISHED,
    IMPORTANCE,
    LETTERS,
    TRANSITIONS,
    ItemType,
    Ref,
    Status,
    content_hash,
    item_id,
    parse_ref,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("H-17", Ref(17)),
        ("h-17", Ref(17)),
        ("17", Ref(17)),
        (" H-17 ", Ref(17)),
        ("H-17@2", Ref(17, 2)),
        ("17@2", Ref(17, 2)),
        ("X-0", Ref(0)),
        ("F-007", Ref(7)),
        ("H-17@0", Ref(17, 0)),
        ("9" * 15, Ref(int("9" * 15))),
    ],
)
def test_a_reference_is_a_number_with_a_letter_and_a_version_if_you_like(text: str, ref: Ref) -> None:
    assert parse_ref(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "H",
        "H-",
        "H17",
        "HH-17",
        "H-17@",
        "H-17@-1",
        "-17",
        "+17",
        "1.5",
        "1e3",
        "٣",
        "H-٣",
        "１７",
        "H-17\x00",
        "H-17;",
        "17 18",
        "9" * 16,
        "1@" + "9" * 10,
        "1" * 1_000_000,
        "É-1",
        "H–17",
    ],
)
def test_anything_else_is_refused_and_shown_short(text: str) -> None:
    with pytest.raises(InvalidInput) as told:
        parse_ref(text)
    assert len(told.value.message) < 200
    assert "H-17" in told.value.message


@pytest.mark.parametrize("text", ["T-3", " t-3", "T-3@2"])
def test_the_id_of_a_task_is_no_items_and_leads_to_the_task(text: str) -> None:
    with pytest.raises(
        InvalidInput,
        match=r'is a task, and no item has the letter T. Nothing was changed; plan\(why="T-3"\) shows it',
    ):
        parse_ref(text)
    assert "T" not in LETTERS.values()


@given(st.text(max_size=50))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        ref = parse_ref(text)
    except InvalidInput:
        return
    assert ref.number >= 0


@given(st.sampled_from(ItemType), st.integers(0, 10**15 - 1), st.none() | st.integers(0, 10**9 - 1))
def test_an_id_reads_back(type_: ItemType, number: int, version: int | None) -> None:
    text = item_id(type_, number) + ("" if version is None else f"@{version}")
    assert parse_ref(text) == Ref(number, version)


def test_every_type_has_a_letter_of_its_own_and_an_importance() -> None:
    assert set(LETTERS) == set(IMPORTANCE) == set(ItemType)
    assert len(set(LETTERS.values())) == len(ItemType)
    assert set(IMPORTANCE.values()) <= set(range(1, 6))


def test_final_statuses_are_left_by_no_transition() -> None:
    assert set(TRANSITIONS) == set(Status)
    assert {status for status in Status if not TRANSITIONS[status]} == {Status.WITHDRAWN, Status.INVALIDATED}
    assert all(status not in TRANSITIONS[status] for status in Status)
    assert {Status.WITHDRAWN, Status.INVALIDATED, Status.RESOLVED} <= FINISHED


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_hash_is_of_the_bytes(text: str) -> None:
    assert content_hash(text) == hashlib.sha256(text.encode("utf-8")).hexdigest()
