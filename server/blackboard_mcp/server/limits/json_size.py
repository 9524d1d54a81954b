"""The size of a JSON document in values, estimated from its bytes before anything parses it.

A message of 4 MiB can hold a million values, which take seconds to validate one by one. This module imports
nothing, so that every transport can use it.
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_VALUES: Final = 50_000
"""Most values in one message, counted as in `holds_too_much`: the arguments of a tool and everything around
them.
"""
TOO_MUCH: Final = f"a request has at most {MAX_MESSAGE_VALUES:,} JSON values; send less in one call"


def holds_too_much(document: bytes | bytearray, most: int = MAX_MESSAGE_VALUES) -> bool:
    """Tells whether a document has more than `most` commas and opening brackets outside its strings.

    It takes milliseconds for megabytes. A document that is no JSON may be counted wrong; UTF-16 above `most`
    always counts as too much.
    """
    if document.count(b",") + document.count(b"[") + document.count(b"{") <= most:
        return False
    if b"\0" in document:
        return True
    plain = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * most + 2:  # every string is a value or a key
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") > most
