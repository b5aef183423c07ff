"""A DRBD minor in the kernel of a simulated machine, and the texts in which DRBD shows it. ``mirrors`` changes it."""

from dataclasses import dataclass, field

VERSION = "version: 8.4.11 (api:1/proto:86-101)\n"
"""The first line of ``/proc/drbd``."""
UP_TO_DATE, INCONSISTENT, DISKLESS = "UpToDate", "Inconsistent", "Diskless"


@dataclass(eq=False)
class Minor:
    """A minor in a machine's kernel; ``peer`` is the minor that it is connected to."""

    machine: str
    number: int
    resource: str
    size: int = 0
    data: str = ""
    meta: str = ""
    local: str = ""
    remote: str = ""
    net: dict[str, str] = field(default_factory=dict)
    primary: bool = False
    standalone: bool = True
    discard: bool = False
    paused: bool = False
    peer: "Minor | None" = None
    target_since: float | None = None

    @property
    def allows_two_primaries(self) -> bool:
        """Return whether its peer may be primary too."""
        return self.net.get("allow-two-primaries") == "yes"

    @property
    def connection(self) -> str:
        """Return the state of the connection."""
        if self.peer is None:
            return "StandAlone" if self.standalone else "WFConnection"
        if self.target_since is not None:
            return "SyncTarget"
        return "SyncSource" if self.peer.target_since is not None else "Connected"


def configuration(minor: Minor) -> str:
    """Return what ``drbdsetup show`` prints."""
    net = "".join(f'{key} "{value}";\n' for key, value in minor.net.items() if key != "alone")
    remote = f"_remote_host {{\naddress ipv4 {minor.remote};\n}}\n" if minor.remote else ""
    local = f"address ipv4 {minor.local};\n" if minor.local else ""
    disk = f'disk "{minor.data}";\nmeta-disk "{minor.meta}";\n' if minor.data else ""
    volume = f"volume 0 {{\ndevice minor {minor.number};\n{disk}}}\n"
    return f"resource {minor.resource} {{\nnet {{\n{net}}}\n{remote}_this_host {{\n{local}{volume}}}\n}}\n"


def status(minor: Minor, *, disk: str, peer_disk: str) -> str:
    """Return the lines of ``/proc/drbd``; ``disk`` and ``peer_disk`` are the states of the two copies."""
    peer = minor.peer
    if not minor.data and minor.standalone:
        return f" {minor.number}: cs:Unconfigured\n"
    role = "Primary" if minor.primary else "Secondary"
    other = "Unknown" if peer is None else "Primary" if peer.primary else "Secondary"
    states = f"ro:{role}/{other} ds:{disk}/{peer_disk} C r-----\n"
    target = minor.target_since is not None or (peer is not None and peer.target_since is not None)
    more = "\tfinish: 0:00:02 speed: 10,240 (10,240) K/sec\n" if target else ""
    return f" {minor.number}: cs:{minor.connection} {states}{more}"
