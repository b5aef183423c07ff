"""The decisions of ``gnt-cluster upgrade``: pure, from what the nodes report and what the command has recorded.

The state of an upgrade is on the nodes: which version is installed, with which version the node daemon was started,
whether the node waits for a confirmation. The record has what they do not know: where each node came from, and whether
the queue was drained before.
"""

import enum
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gantry.cli import client, errors

VERSION = re.compile(r"(?:[0-9]{1,9}:)?([0-9]+)(?:\.([0-9]+))?[A-Za-z0-9.+~-]*", re.ASCII)
"""A version of a Debian package; the groups are the first two numbers of the release."""

ORDER = ("regular", "candidate", "master")
"""The roles of nodes in the order of their upgrade."""


class Node(NamedTuple):
    """A node in the answer of ``QueryPackages``; with an ``error`` the rest is unknown."""

    name: str
    role: str
    offline: bool
    error: str
    installed: str
    started: str
    busy: bool
    unconfirmed: bool
    fault: str

    def has(self, version: str) -> bool:
        """Return whether the node works with a version, as a whole."""
        return not (self.error or self.busy) and self.installed == self.started == version


class Record(NamedTuple):
    """An upgrade that has begun: its target, the former version of each node, whether the queue was drained before."""

    target: str
    former: Mapping[str, str]
    drained: bool

    def text(self) -> str:
        """Return the record as it is written to a file."""
        return json.dumps(self._asdict(), indent=1) + "\n"


class Progress(enum.Enum):
    """How far a node has come."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


def nodes(answer: object) -> list[Node]:
    """Return the nodes in an answer, in the order of their upgrade; fields of later versions are left out."""
    rows = [client.expect(row, dict) for row in client.expect(answer, list)]
    parsed = [Node(str(row["node"]), *(row[field] for field in Node._fields[1:])) for row in rows]
    return sorted(parsed, key=lambda node: (ORDER.index(node.role), node.name))


def record(text: str) -> Record:
    """Return the record in the text of a file."""
    try:
        value = json.loads(text)
        return Record(str(value["target"]), dict(value["former"]), bool(value["drained"]))
    except (ValueError, KeyError, TypeError):
        raise errors.CommandError("the record of the last upgrade cannot be read", hint="remove it") from None


def check_version(version: str) -> str:
    """Return a version that the user typed; InvalidError unless a Debian package can have it."""
    if len(version) > 100 or not VERSION.fullmatch(version):
        raise errors.InvalidError(
            f"{version!r} is not a version of a Debian package",
            hint="apt-cache madison gantry-node shows those that exist",
        )
    return version


def are_neighbours(version: str, target: str) -> bool:
    """Return whether two releases may work together: at most one apart in either direction.

    >>> are_neighbours("1.0", "1.1.3-2"), are_neighbours("1.2", "1.0"), are_neighbours("1.7", "2.0")
    (True, False, True)
    """
    (old_major, old_minor), (new_major, new_minor) = sorted((_release(version), _release(target)))
    if old_major == new_major:
        return new_minor - old_minor <= 1
    return new_major - old_major == 1 and new_minor == 0


def _release(version: str) -> tuple[int, int]:
    match = VERSION.fullmatch(version)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def obstacles(cluster_nodes: Sequence[Node], target: str) -> list[str]:
    """Return why an upgrade cannot begin, or continue, as the nodes are."""
    problems = []
    for node in cluster_nodes:
        if node.offline:
            continue
        if node.error:
            problems.append(f"{node.name}: {node.error}")
        elif not node.installed:
            problems.append(f"{node.name}: {node.fault or 'Gantry was not installed from Debian packages'}")
        elif not are_neighbours(node.installed, target):
            problems.append(
                f"{node.name}: {node.installed} and {target} are more than one release apart; choose one in between"
            )
    return problems


def remaining(cluster_nodes: Sequence[Node], version: str) -> list[Node]:
    """Return the online nodes that do not work with a version, or are not confirmed."""
    online = [node for node in cluster_nodes if not node.offline]
    return [node for node in online if not node.has(version) or node.unconfirmed]


def progress(node: Node | None, version: str) -> tuple[Progress, str]:
    """Return how far a node has come on its way to a version, which has begun; and why, if that failed.

    The daemon restarts on the way, so the command waits for a node whose status is unknown.
    """
    if node is None or node.error or node.busy:
        return Progress.WAITING, ""
    if node.has(version):
        return Progress.DONE, ""
    if node.fault:
        return Progress.FAILED, node.fault
    if node.installed != version and not node.unconfirmed:
        return Progress.FAILED, f"it went back to {node.installed}, as its daemon did not work with {version}"
    return Progress.WAITING, ""
