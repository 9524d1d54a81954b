"""The size of a JSON document: its values, counted in its bytes before anything parses it.

A message of 4 MiB can hold a million values, and whoever validates them one by one takes seconds over it.
Imports nothing, so that every wire can ask.
"""

from __future__ import annotations

from typing import Final

MAX_MESSAGE_VALUES: Final = 50_000
"""Most values of a message, by `holds_too_much`: what the arguments of a tool may hold, and the rest."""
TOO_MUCH: Final = f"a request has at most {MAX_MESSAGE_VALUES:,} JSON values; send less in one call"


def holds_too_much(document: bytes | bytearray, most: int = MAX_MESSAGE_VALUES) -> bool:
    """Whether a document has more than `most` commas and opening brackets outside its strings.

    Takes milliseconds for megabytes. What is no JSON may be counted wrong; UTF-16 always is too much.
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
