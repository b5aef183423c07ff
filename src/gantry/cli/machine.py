"""The machine that a command runs on: Gantry's folders, values of ssconf, and files that options name.

The folders are those of ``gantry.runtime.paths``, repeated here because the commands import no other package. They are
below ``GANTRY_ROOT`` if that variable is set.
"""

import contextlib
import os
import socket
import sys

from gantry.cli import errors

MASTER_UNIT = "gantry-masterd"
SYSTEMD = "/run/systemd/system"
"""Exists while systemd is process 1 of the machine (sd_booted(3))."""
UNIT_FOLDERS = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")

SYSTEM = {"lib": "/var/lib/gantry", "run": "/run/gantry", "log": "/var/log/gantry", "etc": "/etc/gantry"}


def folder(kind: str) -> str:
    """Return the path of the folder ``lib``, ``run``, ``log`` or ``etc``."""
    root = os.environ.get("GANTRY_ROOT", "").rstrip("/")
    return f"{root}/{kind}" if root else SYSTEM[kind]


def master_socket() -> str:
    """Return the path of the master daemon's socket."""
    return folder("run") + "/master.sock"


def has_master_service() -> bool:
    """Return whether the master daemon of this machine is a service of systemd."""
    if os.environ.get("GANTRY_ROOT") or not os.path.isdir(SYSTEMD):
        return False
    return any(os.path.exists(f"{parent}/{MASTER_UNIT}.service") for parent in UNIT_FOLDERS)


def master_log() -> str:
    """Return the path of the master daemon's log, or the command that prints it."""
    if has_master_service():
        return f"journalctl -u {MASTER_UNIT}"
    return folder("log") + "/master-daemon.log"


def rapi_certificate() -> str:
    """Return the path of the certificate and key of the remote API."""
    return folder("lib") + "/rapi.pem"


def ssconf(key: str) -> str:
    """Return a value of ssconf, empty if this machine does not have it (contracts/configuration.md#ssconf)."""
    try:
        return read_file(f"{folder('lib')}/ssconf/ssconf_{key}").strip()
    except errors.CommandError:
        return ""


def read_file(path: str) -> str:
    """Return the text of a file that the user named; ``-`` is standard input."""
    if path == "-":
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise errors.InvalidError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise errors.InvalidError(f"cannot read {path}: the file is not UTF-8 text") from None


def write_file(path: str, text: str) -> None:
    """Replace a file that the user named atomically: readers see the old or the new text; ``-`` is stdout."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        # The target of /dev/stdout may be a regular file, which must not be replaced either.
        if path.startswith("/dev/") or (os.path.exists(path) and not os.path.isfile(path)):
            with open(path, "w", encoding="utf-8") as device:
                device.write(text)
        else:
            _replace(os.path.realpath(path), text)
    except OSError as error:
        raise errors.CommandError(f"cannot write {path}: {error.strerror}") from None


def _replace(path: str, text: str) -> None:
    temporary = f"{path}.new-{os.getpid()}"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        if os.path.exists(path):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def program(name: str) -> str:
    """Return the path of a program that was installed beside this one; otherwise its name, for ``PATH``."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else name


def is_here(node: str) -> bool:
    """Return whether a node, by name or address, is this machine.

    The host name decides, or whether this machine can bind the node's address: nodes in network namespaces share a host
    name.
    """
    name = socket.gethostname()
    if node in (name, name.partition(".")[0]):
        return True
    pairs = (line.split() for line in ssconf("node_primary_ips").splitlines())
    address = dict(pair for pair in pairs if len(pair) == 2).get(node, node)
    try:
        addresses = socket.getaddrinfo(address, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_can_bind(family, sockaddr) for family, _, _, _, sockaddr in addresses)


def _can_bind(family: int, sockaddr: tuple[object, ...]) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(sockaddr)
        except OSError:
            return False
    return True


def without_master() -> errors.CommandError:
    """Return the error for a missing socket: not in a cluster, not the master, or the master daemon is down."""
    master = ssconf("master_node")
    if not master:
        return errors.CommandError(
            "this machine is not part of a cluster: it has no ssconf and no master daemon",
            hint="create a cluster with gnt-cluster init, or add this machine with gnt-node add on a master",
            exit_code=errors.NO_CLUSTER,
        )
    if is_here(master):
        return errors.CommandError(
            f"the master daemon is not running: no socket {master_socket()}",
            hint=f"start gantry-masterd; its log is {master_log()}",
        )
    return errors.CommandError(
        f"this is not the master node; the master is {master}",
        hint="run the command there",
        exit_code=errors.NOT_MASTER,
    )
