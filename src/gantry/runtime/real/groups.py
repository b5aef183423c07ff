"""The groups of this machine: which users belong to one, and files and sockets that a group may use.

A group that does not exist on the machine has no members, and is left out.
"""

import contextlib
import grp
import logging
import os
import pwd
import socket
import stat
import struct
from collections.abc import Sequence

log = logging.getLogger(__name__)

CREDENTIALS = struct.Struct("3i")
"""Process, user and group of the peer of a UNIX socket (SO_PEERCRED)."""

_SO_PEERGROUPS = 59
_OPTION_BYTES = 1024
"""The longest option that Python's ``getsockopt`` reads: 256 groups."""

# A POSIX access list (linux/posix_acl_xattr.h): version, then tag, permissions and id of each entry.
_ACL = "system.posix_acl_access"
_ACL_VERSION = struct.pack("<I", 2)
_ACL_ENTRY = struct.Struct("<HHI")
_NO_ID = 0xFFFFFFFF
_OWNER, _OWNING_GROUP, _GROUP, _MASK, _RIGHTS_OF_ALL = 0x01, 0x04, 0x08, 0x10, 0x20
_READ_WRITE = 6


def number(name: str) -> int | None:
    """Return the id of a group, None if the machine does not have it."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def of_peer(connection: socket.socket) -> set[int]:
    """Return the groups of the process that opened a connection, as the kernel recorded them."""
    _, user, group = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    try:
        more = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _OPTION_BYTES)
    except OSError:
        # It has more groups than fit, or the kernel is older than 4.13: then its user's groups count.
        with contextlib.suppress(KeyError):
            return {group, *os.getgrouplist(pwd.getpwuid(user).pw_name, group)}
        return {group}
    return {group, *(member for (member,) in struct.iter_unpack("I", more))}


def names_of_peer(connection: socket.socket) -> tuple[str, ...]:
    """Return the names of a peer's groups; a group without a name is left out."""
    names: list[str] = []
    for gid in sorted(of_peer(connection)):
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(gid).gr_name)
    return tuple(names)


def user_of_peer(connection: socket.socket) -> str:
    """Return the name of the user whose process opened a connection, ``#UID`` if the machine has no name for it."""
    _, user, _ = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


def open_socket(path: str, names: Sequence[str]) -> None:
    """Let the groups connect to a UNIX socket, besides its owner and its owning group; OSError."""
    members = sorted(gid for gid in map(number, names) if gid is not None)
    if not members:
        return
    entries = [
        (_OWNER, _READ_WRITE, _NO_ID),
        (_OWNING_GROUP, _READ_WRITE, _NO_ID),
        *((_GROUP, _READ_WRITE, gid) for gid in members),
        (_MASK, _READ_WRITE, _NO_ID),
        (_RIGHTS_OF_ALL, 0, _NO_ID),
    ]
    try:
        os.setxattr(path, _ACL, _ACL_VERSION + b"".join(_ACL_ENTRY.pack(*entry) for entry in entries))
    except OSError as error:
        log.warning("no access lists at %s (%s): only one group can use the socket", path, error)
        os.chown(path, -1, members[0])


def share(path: str, name: str) -> bool:
    """Let a group read a file; return whether that changed anything. A missing file or group changes nothing."""
    gid = number(name)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    if gid is None or (status.st_gid == gid and stat.S_IMODE(status.st_mode) == 0o640):
        return False
    os.chown(path, -1, gid)
    os.chmod(path, 0o640)
    return True
