"""This machine's membership: its node in the cluster, and whether it has a master candidate's copy of the state.

The programs that need the state read it before they open anything; ``role`` refuses in the same words.
"""

from collections.abc import Sequence

from gantry import errors
from gantry.lib_files import member as member_file
from gantry.lib_files import ssconf as ssconf_file
from gantry.runtime import interface, paths


def read(disk: interface.Disk, folders: paths.Paths) -> member_file.Member:
    """Return this machine's node, from the file that its node daemon wrote when it joined."""
    try:
        return member_file.decode(disk.read(member_file.path(folders.certificates)))
    except FileNotFoundError:
        raise errors.ConfigurationError(
            "this machine is not part of a cluster", hint="add it with gnt-node add on the master of a cluster"
        ) from None


def name(disk: interface.Disk, folders: paths.Paths) -> str:
    """Return the name of this machine's node; empty without a cluster."""
    try:
        return read(disk, folders).node
    except errors.ConfigurationError:
        return ""


def check_candidate(runtime: interface.Runtime, folders: paths.Paths) -> None:
    """Raise WrongStateError, which lists the candidates, if this machine has no candidate's copy of the state."""
    disk = runtime.disk
    own = read(disk, folders)
    if not disk.exists(folders.config) or not disk.exists(f"{folders.certificates}/authority.key"):
        path = ssconf_file.path(folders.ssconf, "master_candidates")
        raise not_candidate_error(own.node, disk.read(path).decode().split() if disk.exists(path) else [])


def not_candidate_error(node: str, names: Sequence[str]) -> errors.WrongStateError:
    """Return the error for a command on a node that is not a candidate; ``names`` are the candidates."""
    return errors.WrongStateError(
        f"node {node} is not a master candidate and has no copy of the state",
        hint=f"run the command on a master candidate: {', '.join(names) or '(this node does not know any)'}",
    )
