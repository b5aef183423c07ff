"""What DRBD tells: /proc/drbd, ``drbdsetup show``, the kernel's log. Pure.

``driver`` and ``setup`` call it. A line of /proc/drbd, with the lines of a resynchronisation under it:

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
    "Authentication of peer failed": "its peer does not know the same secret",
    "Split-Brain detected": "both nodes have written to it since they parted (split brain)",
    "Unrelated data": "its peer holds the data of another disk",
    "incompatible": "its peer has other settings",
}


@dataclass(frozen=True)
class Minor:
    """A minor as the kernel describes it, in its words; percent and seconds while it resynchronises."""

    connection: str
    role: str = ""
    local: str = ""
    peer: str = ""
    percent: float | None = None
    seconds: int | None = None

    @property
    def configured(self) -> bool:
        """Tell whether it has a disk or a peer."""
        return self.connection != UNCONFIGURED

    @property
    def degraded(self) -> bool:
        """Tell whether there is less than two good copies that follow each other."""
        return (self.connection, self.local, self.peer) != ("Connected", UP_TO_DATE, UP_TO_DATE)


def minors(text: str) -> dict[int, Minor]:
    """Read /proc/drbd."""
    found: dict[int, Minor] = {}
    blocks = re.split(r"(?m)^(?= *\d+: cs:)", text)
    for block in blocks[1:]:
        if head := _MINOR.match(block):
            synced, finish = _SYNCED.search(block), _FINISH.search(block)
            found[int(head[1])] = Minor(
                connection=head[2],
                role=head[3] or "",
                local=head[5] or "",
                peer=head[6] or "",
                percent=float(synced[1]) if synced else None,
                seconds=int(finish[1]) * 3600 + int(finish[2]) * 60 + int(finish[3]) if finish else None,
            )
    return found


@dataclass(frozen=True)
class Shown:
    """How a minor is set up: resource, local disk and metadata, both addresses as ``host:port``, network options."""

    resource: str
    data: str = ""
    meta: str = ""
    local: str = ""
    remote: str = ""
    net: Mapping[str, str] | None = None


def shown(text: str) -> Shown | None:
    """Read what ``drbdsetup show`` prints of one minor; None when it has nothing."""
    head = re.search(r"resource (\S+) \{", text)
    if head is None:
        return None

    def word(pattern: str, where: str) -> str:
        found = re.search(pattern, where)
        return found[1] if found else ""

    here = text.partition("_this_host {")[2]
    there = text.partition("_remote_host {")[2].partition("}")[0]
    net = text.partition("net {")[2].partition("}")[0]
    address = r"address\s+\w+ (\S+);"
    return Shown(
        resource=head[1],
        data=word(r'(?m)^\s*disk\s+"([^"]*)"', here),
        meta=word(r'(?m)^\s*(?:flexible-)?meta-disk\s+"([^"]*)"', here),
        local=word(address, here.partition("volume")[0]),
        remote=word(address, there),
        net={name: value.strip('"') for name, value in re.findall(r"(?m)^\s*([\w-]+)\s+([^;]+);", net)},
    )


def reason(log: str, *, resource: str, minor: int) -> str:
    """Return why the kernel gave up the last attempt to connect, from its log; empty when it did not say."""
    for line in reversed(log.splitlines()):
        if f"drbd {resource}:" in line or f"drbd{minor}:" in line:
            if ATTEMPT in line:
                return ""
            for words, meaning in _REASONS.items():
                if words in line:
                    return meaning
    return ""
