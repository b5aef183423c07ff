"""The machine that a command runs on: its folders, what ssconf says of the cluster, files that options name.

The folders are those of ``gantry.runtime.paths``; the commands import no other room, so the few lines stand here
again. Without a root they are the system's own, ``GANTRY_ROOT`` moves all of them below it.
"""

import contextlib
import os
import socket
import sys

from gantry.cli import errors

SYSTEM = {"lib": "/var/lib/gantry", "run": "/run/gantry", "log": "/var/log/gantry"}


def folder(kind: str) -> str:
    """Return the folder for ``lib``, ``run`` or ``log``."""
    root = os.environ.get("GANTRY_ROOT", "").rstrip("/")
    return f"{root}/{kind}" if root else SYSTEM[kind]


def master_socket() -> str:
    """Return the master daemon's socket."""
    return folder("run") + "/master.sock"


def master_log() -> str:
    """Return where the master daemon writes what it does."""
    return folder("log") + "/master-daemon.log"


def ssconf(key: str) -> str:
    """Return a value of ssconf, empty when this machine has none (contracts/configuration.md#ssconf)."""
    try:
        return read_file(f"{folder('lib')}/ssconf/ssconf_{key}").strip()
    except errors.CommandError:
        return ""


def read_file(path: str) -> str:
    """Return the text of a file that the user named; ``-`` is the standard input."""
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise errors.InvalidError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise errors.InvalidError(f"cannot read {path}: it is no text") from None


def write_file(path: str, text: str) -> None:
    """Write a file that the user named, as a whole: who reads it sees the old one or the new one; ``-`` is stdout."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        # what /dev/stdout leads to may be a regular file, and is not to be replaced either
        if path.startswith("/dev/") or (os.path.exists(path) and not os.path.isfile(path)):
            with open(path, "w", encoding="utf-8") as device:
                device.write(text)
        else:
            _replace(os.path.realpath(path), text)
    except OSError as error:
        raise errors.CommandError(f"cannot write {path}: {error.strerror}") from None


def _replace(path: str, text: str) -> None:
    fresh = f"{path}.new-{os.getpid()}"
    try:
        with open(fresh, "x", encoding="utf-8") as file:
            file.write(text)
        if os.path.exists(path):
            os.chmod(fresh, os.stat(path).st_mode & 0o7777)
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        raise


def program(name: str) -> str:
    """Return the path of a program that was installed with this one, or its bare name for ``PATH`` to find."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else name


def is_here(node: str) -> bool:
    """Tell whether a node, by name or address, is this machine.

    The host's name says so, or that the node's address can be bound: nodes in network namespaces share a host name.
    """
    name = socket.gethostname()
    if node in (name, name.partition(".")[0]):
        return True
    pairs = (line.split() for line in ssconf("node_primary_ips").splitlines())
    address = dict(pair for pair in pairs if len(pair) == 2).get(node, node)
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_can_bind(family, where) for family, _, _, _, where in found)


def _can_bind(family: int, where: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(where)
        except OSError:
            return False
    return True


def without_master() -> errors.CommandError:
    """Say why there is no socket: no cluster here, a master elsewhere, or a master daemon that is down."""
    master = ssconf("master_node")
    if not master:
        return errors.CommandError(
            "this machine is not part of a cluster: it has no ssconf and no master daemon",
            hint="gnt-cluster init makes a cluster, gnt-node add on a master takes this machine into one",
            exit_code=5,
        )
    if is_here(master):
        return errors.CommandError(
            f"the master daemon is not running: no socket {master_socket()}",
            hint=f"start gantry-masterd; it writes what happens to {master_log()}",
        )
    return errors.CommandError(
        f"this is not the master node; the master is {master}", hint="run the command there", exit_code=11
    )
