"""Parses DRBD's status: /proc/drbd, the output of ``drbdsetup show``, the kernel's log. Pure.

``driver`` and ``setup`` call it. A minor in /proc/drbd, with the lines of a resynchronization:

     0: cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----
        ns:0 nr:20480 dw:20480 dr:0 al:0 bm:0 lo:0 pe:1 ua:0 ap:0 ep:1 wo:f oos:45056
        [=====>..............] sync'ed: 31.3% (45056/65536)K
        finish: 0:00:04 speed: 10,240 (10,240) want: 20,480 K/sec
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

UNCONFIGURED = "Unconfigured"
STANDALONE = "StandAlone"
UP_TO_DATE = "UpToDate"
ATTEMPT = "StandAlone -> Unconnected"
_MINOR = re.compile(r"^ *(\d+): cs:(\w+)(?: ro:(\w+)/(\w+) ds:(\w+)/(\w+))?")
_SYNCED = re.compile(r"sync'ed: *([\d.]+)%")
_FINISH = re.compile(r"finish: *(\d+):(\d\d):(\d\d)")
_REASONS = {
    "Authentication of peer failed": "authentication failed, as its peer has another shared secret",
    "Split-Brain detected": "split brain, as both nodes have written to it while disconnected",
    "Unrelated data": "its peer has the data of another disk",
    "incompatible": "its peer has incompatible settings",
}


@dataclass(frozen=True)
class Minor:
    """A minor's status in the kernel's terms; percent done and seconds remaining while it resynchronizes."""

    connection: str
    role: str = ""
    local: str = ""
    peer: str = ""
    percent: float | None = None
    seconds: int | None = None

    @property
    def configured(self) -> bool:
        """Return whether the minor has a disk or a peer."""
        return self.connection != UNCONFIGURED

    @property
    def degraded(self) -> bool:
        """Return whether there are fewer than two connected, up-to-date copies."""
        return (self.connection, self.local, self.peer) != ("Connected", UP_TO_DATE, UP_TO_DATE)


def minors(text: str) -> dict[int, Minor]:
    """Return the minors in /proc/drbd, by number."""
    by_number: dict[int, Minor] = {}
    blocks = re.split(r"(?m)^(?= *\d+: cs:)", text)
    for block in blocks[1:]:
        if head := _MINOR.match(block):
            synced, finish = _SYNCED.search(block), _FINISH.search(block)
            by_number[int(head[1])] = Minor(
                connection=head[2],
                role=head[3] or "",
                local=head[5] or "",
                peer=head[6] or "",
                percent=float(synced[1]) if synced else None,
                seconds=int(finish[1]) * 3600 + int(finish[2]) * 60 + int(finish[3]) if finish else None,
            )
    return by_number


@dataclass(frozen=True)
class Configuration:
    """A minor's configuration: resource, local disk and metadata, both addresses as ``host:port``, network options."""

    resource: str
    data: str = ""
    meta: str = ""
    local: str = ""
    remote: str = ""
    net: Mapping[str, str] | None = None


def configuration(text: str) -> Configuration | None:
    """Return the configuration of a minor from the output of ``drbdsetup show``; None if it has none."""
    head = re.search(r"resource (\S+) \{", text)
    if head is None:
        return None

    def value(pattern: str, section: str) -> str:
        match = re.search(pattern, section)
        return match[1] if match else ""

    local = text.partition("_this_host {")[2]
    remote = text.partition("_remote_host {")[2].partition("}")[0]
    net = text.partition("net {")[2].partition("}")[0]
    address = r"address\s+\w+ (\S+);"
    return Configuration(
        resource=head[1],
        data=value(r'(?m)^\s*disk\s+"([^"]*)"', local),
        meta=value(r'(?m)^\s*(?:flexible-)?meta-disk\s+"([^"]*)"', local),
        local=value(address, local.partition("volume")[0]),
        remote=value(address, remote),
        net={name: setting.strip('"') for name, setting in re.findall(r"(?m)^\s*([\w-]+)\s+([^;]+);", net)},
    )


def reason(log: str, *, resource: str, minor: int) -> str:
    """Return why the kernel ended the last attempt to connect, from its log; empty if the log has no reason."""
    for line in reversed(log.splitlines()):
        if f"drbd {resource}:" in line or f"drbd{minor}:" in line:
            if ATTEMPT in line:
                return ""
            for message, meaning in _REASONS.items():
                if message in line:
                    return meaning
    return ""
