"""Other programs' configuration files: read whole, replaced in one step, with a backup of the former contents."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.values import dataclass

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_KEPT: Final = 5
"""The number of newest backups that are kept for each client, beside those that uninstalling may need."""
_BOM: Final = "\ufeff"


def state_folder() -> Path:
    """Returns the folder for records of installations and for backups."""
    from platformdirs import user_state_path

    return user_state_path("blackboard-mcp", appauthor=False)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Lets one process at a time read and change files and the records of them; others wait until it is done.

    Where the folder for records takes no lock, nobody waits.
    """
    handle = None
    with contextlib.suppress(OSError):  # whoever changes something is told why the folder cannot be written
        handle = _locked(state_folder())
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _locked(folder: Path) -> int:
    """Returns a descriptor that holds the folder's lock until it is closed."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if sys.platform == "win32":
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    else:
        handle = os.open(folder, os.O_RDONLY)
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        os.close(handle)
        raise
    return handle


@dataclass(frozen=True, slots=True)
class Contents:
    """A file as it was read. `raw` is `None` if there is no such file."""

    file: Path
    raw: bytes | None

    @classmethod
    def of(cls, file: Path) -> Contents:
        """Reads a file, following links.

        Raises:
            InvalidInput: it exists and cannot be read.
        """
        file = Path(os.path.realpath(file))
        try:
            return cls(file, file.read_bytes())
        except FileNotFoundError:
            return cls(file, None)
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read ({error.strerror}). Nothing was changed.") from None

    @property
    def text(self) -> str:
        """The contents as text, without a byte order mark; "" if there is no file.

        Raises:
            InvalidInput: it is not text in UTF-8.
        """
        try:
            return (self.raw or b"").decode().removeprefix(_BOM)
        except UnicodeDecodeError:
            raise InvalidInput(
                f"{self.file} is not in UTF-8. Save it so in an editor, then try again. Nothing was changed."
            ) from None

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the contents in hexadecimal, or `None` if there is no file."""
        return None if self.raw is None else sha256(self.raw).hexdigest()

    def raw_of(self, text: str) -> bytes:
        """Returns a changed text as bytes, with the byte order mark that the file had."""
        bom = _BOM if (self.raw or b"").startswith(_BOM.encode()) else ""
        return (bom + text).encode()

    def replace(self, raw: bytes | None) -> None:
        """Replaces the file's contents and keeps its mode; `None` removes the file.

        Raises:
            InvalidInput: it cannot be written, or was changed since it was read.
        """
        try:
            if Contents.of(self.file).raw != self.raw:
                raise InvalidInput(
                    f"{self.file} was changed by another program meanwhile: try again. Nothing was changed."
                )
            if raw is None:
                self.file.unlink()
                return
            if self.raw is not None and not os.access(self.file, os.W_OK):
                raise PermissionError(13, "it is read-only")
            write(self.file, raw)
        except OSError as error:
            raise InvalidInput(
                f"{self.file} cannot be written ({error.strerror}): make it and its folder writable for you, then try "
                "again. Nothing was changed."
            ) from None


def write(file: Path, raw: bytes) -> None:
    """Writes a file completely or not at all, with the mode and owner that it had."""
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            with contextlib.suppress(FileNotFoundError):
                there = file.stat()
                Path(name).chmod(there.st_mode & 0o7777)
                if hasattr(os, "chown") and (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(OSError):
                        os.chown(name, there.st_uid, there.st_gid)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def back_up(client: str, contents: Contents, needed: set[str]) -> Path | None:
    """Saves a file's contents as a new backup, and returns its path; `None` if there was no file.

    All but the newest `_KEPT` backups of the client are removed, but never a path in `needed`.
    """
    if contents.raw is None:
        return None
    folder = state_folder() / "backups"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    kept = folder / f"{client}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{contents.file.name}"
    write(kept, contents.raw)
    for old in sorted(folder.glob(f"{client}-2*"))[:-_KEPT]:
        if str(old) not in needed:
            old.unlink(missing_ok=True)
    return kept
