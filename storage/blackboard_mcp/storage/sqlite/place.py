"""The place of a database file: makes folder and file private, and knows which mounts bear no WAL."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path

from blackboard_mcp.protocols.errors import StoreDamaged, StoreError

# Shared memory of these is not coherent between their users: WAL on them loses writes silently.
_NO_SHARED_MEMORY = frozenset(
    {"virtiofs", "9p", "nfs", "nfs4", "cifs", "smb3", "smbfs", "vboxsf", "prl_fs"}
    | {"fuse.grpcfuse", "fuse.osxfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.virtiofs"}
)

PROBE = ".probe"
"""How the name of a file ends that was made to look for room."""
_LIMITS = frozenset({errno.EFBIG, *((errno.EDQUOT,) if hasattr(errno, "EDQUOT") else ())})
_NO_ROOM = _LIMITS | {errno.ENOSPC}
_FEW_POSTS = 64 << 10


def prepare(path: Path) -> None:
    """Make the folder (0700) and an empty file (0600) where they are missing; leave existing ones alone.

    Raises:
        StoreError: the folder or the file cannot be made, read or written.
        StoreDamaged: the file is too short to be a database; SQLite would call it an empty one.
    """
    try:
        _make_folder(path.parent)
        try:
            # Exclusive: opening and closing a database file that this process has open drops its locks.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if path.is_dir():
                raise StoreError(f"{path} is a folder; name the database file inside it.") from None
            if not os.access(path, os.R_OK | os.W_OK):
                raise StoreError(f"{path} may not be read and written; check its owner and mode.") from None
            if 0 < path.stat().st_size < 512:
                raise StoreDamaged(f"{path} is not a database; choose another path.") from None
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise StoreError(f"The folder {path.parent} may not be written; the database needs it.")
    except OSError as error:
        reason = (
            "the file system is read-only" if error.errno == errno.EROFS else error.strerror or str(error)
        )
        raise StoreError(f"Cannot make the database {path}: {reason}.") from error


def lack(path: Path, log: Path | None) -> int:
    """What leaves no room beside `path`, as an error number: a full disk, a quota, a limit on the size of files.

    0 where there is room for a few posts. For errors in which SQLite does not say so.
    """
    largest = 0
    for file in (path, log):
        with contextlib.suppress(OSError):
            largest = max(largest, os.stat(file).st_size if file is not None else 0)
    probe = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PROBE}")
    handle = -1
    try:
        handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        # First what needs room; then, since a hole takes none, a byte where a limit on size would show.
        left = _FEW_POSTS
        while left > 0:
            left -= os.write(handle, bytes(left))
        os.lseek(handle, largest + _FEW_POSTS, os.SEEK_SET)
        os.write(handle, b"x")
    except OSError as error:
        return error.errno if error.errno in _NO_ROOM and error.errno is not None else 0
    finally:
        if handle >= 0:
            # A disk that fails may say so at the close only.
            with contextlib.suppress(OSError):
                os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(probe)
    return 0


def lack_of_space(folder: Path) -> int:
    """What leaves no room in a folder, as an error number; 0 where there is some. Leaves nothing behind."""
    return lack(folder / "room", None)


def is_at_a_limit(path: Path, log: Path | None) -> bool:
    """Whether a quota or a limit on the size of files refuses writes: SQLite calls that a failure of the disk."""
    return lack(path, log) in _LIMITS


def bears_wal(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    """Whether several processes may share a write-ahead log beside `path`; True where nothing is known."""
    return file_system(path, mountinfo) not in _NO_SHARED_MEMORY


def file_system(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of file system that `path` lies on, such as "ext4"; "" where nothing is known."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        lines = mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    folder = path.parent.resolve()
    above = {str(folder), *map(str, folder.parents)}
    longest, kind = -1, ""
    for line in lines:
        fields, _, source = line.partition(" - ")
        try:
            mount = _unescape(fields.split(" ")[4])
            named = source.split(" ")[0]
        except IndexError:
            continue
        # Later lines lie over earlier ones at the same place.
        if mount in above and len(mount) >= longest:
            longest, kind = len(mount), named
    return kind


def _make_folder(folder: Path) -> None:
    if folder.exists():
        return
    _make_folder(folder.parent)
    # exist_ok: several processes may start at once.
    folder.mkdir(mode=0o700, exist_ok=True)


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
