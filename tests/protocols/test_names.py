"""Names of agents: which there can be, which look alike, and where texts mention them."""

from __future__ import annotations

import unicodedata

import pytest
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.names import _prototypes, alike, check_name, is_reserved, mentions


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("alice", "alice"),
        ("a.b_c@d-9", "a.b_c@d-9"),
        ("j\u00fcrgen", "j\u00fcrgen"),
        ("ju\u0308rgen", "j\u00fcrgen"),
        ("\u0430\u043d\u043d\u0430", "\u0430\u043d\u043d\u0430"),
        ("\u5c0f\u660e", "\u5c0f\u660e"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("\u00e9" * 64, "\u00e9" * 64),
        ("e\u0301" * 64, "\u00e9" * 64),
    ],
)
def test_a_name_is_letters_of_any_script_in_composed_form(given: str, kept: str) -> None:
    assert check_name(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        *(
            "",
            "a b",
            "a/b",
            "a:b",
            "a\n",
            "x" * 65,
            "\u00e9" * 65,
            "system",
            "bob\u200b",
            "bob\u202e",
            "bob\U0001f600",
        ),
        *(
            "\uff42\uff4f\uff42",
            "\ufb01n",
            "\U0001d41bob",
            "\u00aab",
            "\u0663",
            "\u3164",
            "a\u034f",
            "a\ufe0f",
        ),
        *("\u0301a", "-\u0301", "a" + "\u0323" * 9, "%C3%BC", "a\x00", "\ud800", "\U000e0041"),
    ],
)
def test_what_is_no_name_is_refused_and_says_what_is(given: str) -> None:
    with pytest.raises(InvalidInput, match="letters of any script, digits 0-9"):
        check_name(given)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alice", "ALICE"),
        ("alice", "\u0430lice"),
        ("alice", "al\u0456ce"),
        ("bill", "biIl"),
        ("bill", "BILL"),
        ("bob", "\u0412ob"),
        ("agent-0", "agent-O"),
        ("agent-1", "agent-l"),
        ("agent-1", "agent-I"),
        ("modem", "modern"),
        ("stra\u00dfe", "strasse"),
        ("\u0391\u03bd\u03bd\u03b1", "\u03b1\u03bd\u03bd\u03b1"),
    ],
)
def test_names_that_may_be_taken_for_each_other_look_alike(one: str, other: str) -> None:
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alice", "alicia"),
        ("worker-i", "worker-l"),
        ("agent-1", "agent-2"),
        ("a.b", "a-b"),
        ("jurgen", "j\u00fcrgen"),
        ("\u0430\u043d\u043d\u0430", "anna"),
        ("\u5c0f\u660e", "\u5c0f\u670b"),
    ],
)
def test_names_that_read_differently_do_not(one: str, other: str) -> None:
    assert not alike(one, other)


def test_of_many_workers_none_look_alike() -> None:
    for names in ([f"worker-{n}" for n in range(120)], [f"worker-{chr(97 + n)}" for n in range(26)]):
        assert not [(a, b) for a in names for b in names if a < b and alike(a, b)]


def test_words_for_others_are_reserved_and_names_with_them_are_not() -> None:
    assert all(
        map(is_reserved, ("me", "Me", "m\u0435", "you", "all", "aII", "everyone", "EVERYONE", "System"))
    )
    assert not any(map(is_reserved, ("mei", "younes", "allan", "me.too", "systems", "every-one", "ben")))


def test_the_data_holds_what_names_can_hold_alone_and_each_look_is_its_own() -> None:
    looked = _prototypes()
    assert 1_500 < len(looked) < 4_000
    new = {chr(n) for n in range(0x1CCD6, 0x1CCFA)}  # special forms since Unicode 16, which Python 3.14 knows
    alone = looked.keys() - new
    assert all(len(one) == 1 and unicodedata.normalize("NFKC", one) == one for one in alone)
    assert looked["\u0430"] == "a"
    for text in looked.values():
        again = "".join(looked.get(c, c) for c in unicodedata.normalize("NFD", text))
        assert unicodedata.normalize("NFD", again) == unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ben, @ana: and @ben.", ["ben", "ana"]),
        ("ask @j\u00fcrgen. Or @ju\u0308rgen!", ["j\u00fcrgen"]),
        ("@\u0430\u043d\u043d\u0430: so", ["\u0430\u043d\u043d\u0430"]),
        ("@ben\u8bf7\u770b", ["ben"]),
        ("@\u5c0f\u660e \u8bf7\u770b\uff0c@\u674e\u96f7\u3002", ["\u5c0f\u660e", "\u674e\u96f7"]),
        ("@ben's, mail@ben.io, @ @. @ben.io", ["ben", "ben.io"]),
    ],
)
def test_a_text_mentions_names_of_any_script(text: str, names: list[str]) -> None:
    assert mentions(text) == names
