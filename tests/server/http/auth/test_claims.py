"""Names made from what an issuer calls its subjects."""

from __future__ import annotations

from blackboard_mcp.server.http.auth.claims import name_of


def test_two_subjects_never_get_one_name() -> None:
    assert name_of("ann@example.com") == "ann@example.com"
    names = [
        "auth0|5",
        "auth0-5",
        "auth0 5",
        "auth0/5",
        "system",
        "A\u0308nnchen",
        "Onnchen",
        "\uff21nn",
        "\ud800nn",
        "x" * 65,
        "x" * 66,
        "..",
        "-",
    ]
    for name in ("Ännchen", "анна", "小明"):
        assert name_of(name) == name
    derived = [name_of(name) for name in names]
    assert len({*derived, "Ännchen"}) == len(names) + 1
    assert all(name_of(name) not in derived for name in derived if name not in names)
