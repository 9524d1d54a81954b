"""The place of a database file: private folders and files, free room, and file systems without WAL support."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path

from blackboard_mcp.protocols.errors import StoreDamaged, StoreError

# On these file systems shared memory is not coherent, so WAL would silently lose writes.
_NO_SHARED_MEMORY = frozenset(
    {"virtiofs", "9p", "nfs", "nfs4", "cifs", "smb3", "smbfs", "vboxsf", "prl_fs"}
    | {"fuse.grpcfuse", "fuse.osxfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "fuse.virtiofs"}
)

PROBE = ".probe"
"""The ending of the names of files that are created to test for room."""
_LIMITS = frozenset({errno.EFBIG, *((errno.EDQUOT,) if hasattr(errno, "EDQUOT") else ())})
_NO_ROOM = _LIMITS | {errno.ENOSPC}
_FEW_POSTS = 64 << 10


def prepare(path: Path) -> None:
    """Creates the folder (mode 0700) and an empty file (0600) if they are missing; leaves existing ones unchanged.

    Raises:
        StoreError: the folder or the file cannot be created, read or written.
        StoreDamaged: the file is too short for a database; SQLite would take it for an empty one.
    """
    try:
        _make_folder(path.parent)
        try:
            # Exclusive, because closing a database file that this process has open would drop its locks.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            if path.is_dir():
                raise StoreError(f"{path} is a folder; name the database file inside it.") from None
            if not os.access(path, os.R_OK | os.W_OK):
                wrong = (
                    "lies on a read-only file system, which has to be mounted for writing"
                    if is_read_only(path)
                    else "may not be read and written; check its owner and mode"
                )
                raise StoreError(f"{path} {wrong}.") from None
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
    """Returns the error number if there is no room beside `path`: a full disk, a quota, or a limit on file sizes.

    Returns 0 if there is room for a few posts. It is for errors of SQLite that do not tell the cause.
    """
    largest = 0
    for file in (path, log):
        with contextlib.suppress(OSError):
            largest = max(largest, os.stat(file).st_size if file is not None else 0)
    probe = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PROBE}")
    handle = -1
    try:
        handle = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        # First bytes that need room; then one byte far behind, which a limit on size would refuse.
        left = _FEW_POSTS
        while left > 0:
            left -= os.write(handle, bytes(left))
        os.lseek(handle, largest + _FEW_POSTS, os.SEEK_SET)
        os.write(handle, b"x")
    except OSError as error:
        return error.errno if error.errno in _NO_ROOM and error.errno is not None else 0
    finally:
        if handle >= 0:
            # A failing disk may report the error only at the close.
            with contextlib.suppress(OSError):
                os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(probe)
    return 0


def lack_of_space(folder: Path) -> int:
    """Returns the error number if there is no room in a folder, else 0; leaves no file behind."""
    return lack(folder / "room", None)


def is_at_a_limit(path: Path, log: Path | None) -> bool:
    """Tells whether a quota or a limit on file sizes refuses writes; SQLite calls that a failed disk."""
    return lack(path, log) in _LIMITS


def is_read_only(path: Path) -> bool:
    """Tells whether nothing can be written on the file system of `path`, whoever tries."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def bears_wal(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    """Tells whether several processes may share a write-ahead log beside `path`; true if unknown."""
    return file_system(path, mountinfo) not in _NO_SHARED_MEMORY


def file_system(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Returns the type of the file system of `path`, such as "ext4"; "" if unknown."""
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
    """Creates a folder and its parents, all with mode 0700."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    # exist_ok: several processes may start at once.
    folder.mkdir(mode=0o700, exist_ok=True)


def _unescape(field: str) -> str:
    """Returns a field of `mountinfo` without its octal escapes."""
    if "\\" not in field:
        return field
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
