"""DRBD 8.4 in the kernels of all simulated machines: connections, roles, and which copy has which data.

A copy's *version* is a number that changes when its guest may have written while the peer did not listen; the copy
remembers its earlier versions, as DRBD's metadata does. Two copies with one version need no synchronization; a copy
whose version the other remembers is brought up to date; two copies with versions of their own are a split brain.
Minors are lost with the power of their machine, volumes and versions are not.

The state is brought up to date when somebody looks (``Mirrors.update``). Whether a guest wrote is not drawn: a primary
without its peer counts as written to.
"""

import itertools
import random
from collections.abc import Callable, Sequence

from gantry.node.storage.drbd import setup
from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes
from gantry.sim.hardware import minors, volumes

SYNC_SECONDS = 4.0
"""The time of a synchronization, whatever its size."""
SECONDS = (0.005, 0.03)


class Mirrors:
    """All kernels; ``reachable`` returns whether the first machine's messages reach the second and back."""

    def __init__(self, world: simulated.World, *, reachable: Callable[[str, str], bool]) -> None:
        self._world = world
        self._random: random.Random = world.source("mirrors")
        self._reachable = reachable
        self._minors: dict[tuple[str, int], minors.Minor] = {}
        self._versions = itertools.count(1)
        self._volumes: dict[str, volumes.Volumes] = {}
        self._log: dict[str, list[str]] = {}

    def install(self, name: str, group: volumes.Volumes) -> None:
        """Add DRBD to a machine with a volume group."""
        machine = self._world.machine(name)
        self._volumes[name] = group
        machine.processes.programs["drbdsetup"] = self._program(name, self._setup)
        machine.processes.programs["drbdmeta"] = self._program(name, self._metadata)
        machine.processes.programs["dmesg"] = self._program(name, self._messages)
        machine.disk.generated[setup.PROC] = lambda: self._table(name)
        machine.disk.generated[setup.HELPER] = lambda: b"/bin/true"

    def lose_power(self, name: str) -> None:
        """Forget the minors of a machine."""
        for key in [key for key in self._minors if key[0] == name]:
            self._forget(self._minors[key])
        self.update()

    def minor(self, name: str, number: int) -> minors.Minor | None:
        """Return a machine's minor."""
        self.update()
        return self._minors.get((name, number))

    def generation(self, name: str, meta: str) -> volumes.Generation | None:
        """Return the metadata on a volume of a machine; None if it has none, or the volume does not exist."""
        volume = self._volumes[name].at(meta)
        return volume.generation if volume else None

    def volume(self, minor: minors.Minor) -> volumes.Volume | None:
        """Return the volume with a minor's data: the peer's if it has no disk itself."""
        minor = minor if minor.data or minor.peer is None else minor.peer
        return self._volumes[minor.machine].at(minor.data)

    def write(self, minor: minors.Minor, content: bytes) -> None:
        """Write to a device, and to the peer's copy if it listens."""
        for each in (minor, minor.peer):
            if each is not None and (volume := self._volumes[each.machine].at(each.data)):
                volume.content = content

    def _forget(self, minor: minors.Minor) -> None:
        minor.primary = False
        self._part(minor)
        self._minors.pop((minor.machine, minor.number), None)
        self._world.machine(minor.machine).disk.generated.pop(f"/sys/block/drbd{minor.number}/size", None)

    def _program(self, name: str, run: Callable[[str, Sequence[str]], str]) -> processes.Program:
        async def program(call: processes.Invocation) -> commands.Completed:
            await self._world.machine(name).clock.sleep(self._random.uniform(*SECONDS))
            self.update()
            try:
                output = run(name, call.arguments[1:])
            except volumes.Failure as failure:
                return commands.Completed(10, b"", failure.text.encode())
            self.update()
            return commands.Completed(0, output.encode(), b"")

        return program

    def update(self) -> None:
        """Let the kernels notice the present state of links and of each other."""
        for minor in list(self._minors.values()):
            if minor.peer is not None and not self._is_linked(minor, minor.peer):
                self._part(minor)
        for minor in list(self._minors.values()):
            if minor.peer is None and not minor.standalone and (peer := self._listening(minor)):
                self._meet(minor, peer)
        now = self._world.clock.monotonic()
        for minor in list(self._minors.values()):
            if minor.peer is None:
                self._write_alone(minor)
            elif minor.target_since is not None and not (minor.paused or minor.peer.paused):
                self._synchronize(minor, minor.peer, now)

    def _is_linked(self, minor: minors.Minor, peer: minors.Minor) -> bool:
        exists = self._minors.get((peer.machine, peer.number)) is peer
        return exists and not peer.standalone and self._reachable(minor.machine, peer.machine)

    def _listening(self, minor: minors.Minor) -> minors.Minor | None:
        for peer in self._minors.values():
            ends = (peer.local, peer.remote) == (minor.remote, minor.local)
            if ends and peer.machine != minor.machine and not peer.standalone and peer.peer is None:
                return peer if self._reachable(minor.machine, peer.machine) else None
        return None

    def _part(self, minor: minors.Minor) -> None:
        peer = minor.peer
        for each in filter(None, (minor, peer)):
            each.peer = each.target_since = None
            self._write_alone(each)

    def _write_alone(self, minor: minors.Minor) -> None:
        """Give a primary's copy a new version when its peer goes: the guest continues to write."""
        own = self._own(minor)
        if minor.primary and own is not None and own.complete and minor.net.get("alone") != "yes":
            self._renew(own)
            minor.net["alone"] = "yes"

    def _renew(self, own: volumes.Generation) -> None:
        own.history |= {own.version} - {0}
        own.version, own.partial = next(self._versions), False

    def _own(self, minor: minors.Minor) -> volumes.Generation | None:
        return self.generation(minor.machine, minor.meta) if minor.meta else None

    def _meet(self, minor: minors.Minor, peer: minors.Minor) -> None:
        if minor.net.get("shared-secret") != peer.net.get("shared-secret"):
            self._refuse(minor, peer, "Authentication of peer failed, trying again.")
        elif minor.primary and peer.primary and not (minor.allows_two_primaries and peer.allows_two_primaries):
            self._refuse(minor, peer, "incompatible states (both Primary!)")
        else:
            self._compare(minor, peer)

    def _compare(self, minor: minors.Minor, peer: minors.Minor) -> None:
        ours, theirs = self._own(minor), self._own(peer)
        if ours is None or theirs is None or (ours.version == theirs.version and ours.partial == theirs.partial):
            self._join(minor, peer, target=None)
            return
        if ours.version == theirs.version:
            target = minor if ours.partial else peer
        elif ours.version in {0, *theirs.history} or minor.discard:
            target = minor
        elif theirs.version in {0, *ours.history} or peer.discard:
            target = peer
        else:
            related = ours.history & theirs.history
            self._refuse(minor, peer, "Split-Brain detected" if related else "Unrelated data, aborting!")
            return
        source = peer if target is minor else minor
        known = self._own(source)
        own = self._own(target)
        fresh = own is not None and not own.version
        if (target.primary and not fresh) or known is None or not known.complete:
            self._refuse(minor, peer, "Split-Brain detected")
            return
        self._join(minor, peer, target=target)

    def _join(self, minor: minors.Minor, peer: minors.Minor, *, target: minors.Minor | None) -> None:
        minor.peer, peer.peer = peer, minor
        for each in (minor, peer):
            each.discard = False
            each.net["alone"] = ""
        if target is not None:
            self._begin(target)

    def _begin(self, target: minors.Minor) -> None:
        target.target_since = self._world.clock.monotonic()
        own = self._own(target)
        assert own is not None
        own.partial = True

    def _synchronize(self, target: minors.Minor, source: minors.Minor, now: float) -> None:
        assert target.target_since is not None
        ours, theirs = self._own(target), self._own(source)
        if ours is None or theirs is None or now - target.target_since < SYNC_SECONDS:
            return
        ours.version, ours.history, ours.partial = theirs.version, theirs.history, False
        target.target_since = None
        here, there = (self._volumes[each.machine].at(each.data) for each in (target, source))
        if here and there:
            here.content = there.content

    def _refuse(self, minor: minors.Minor, peer: minors.Minor, reason: str) -> None:
        for each in (minor, peer):
            each.standalone = True
            self._say(each, reason)

    def _say(self, minor: minors.Minor, text: str) -> None:
        self._log.setdefault(minor.machine, []).append(f"block drbd{minor.number}: {text}")

    def _messages(self, name: str, words: Sequence[str]) -> str:
        return "\n".join(self._log.get(name, ())[-100:])

    def _metadata(self, name: str, words: Sequence[str]) -> str:
        meta, command = self._volumes[name].at(words[3]), words[-1]
        if meta is None:
            raise volumes.Failure(f"open({words[3]}) failed: No such file or directory")
        if command == "create-md":
            meta.generation = volumes.Generation()
        elif command == "dump-md" and meta.generation is None:
            raise volumes.Failure("No valid meta data found")
        return ""

    def _setup(self, name: str, words: Sequence[str]) -> str:
        command, *rest = words
        handlers: dict[str, Callable[[str, Sequence[str]], str | None]] = {
            "show": lambda name, words: minors.configuration(self._at(name, words[0])),
            "new-resource": lambda name, words: None,
            "del-resource": lambda name, words: None,
            "new-minor": self._new_minor,
            "attach": self._attach,
            "detach": self._detach,
            "disk-options": lambda name, words: None,
            "connect": self._connect,
            "net-options": self._net_options,
            "disconnect": self._disconnect,
            "primary": self._promote,
            "secondary": self._demote,
            "resize": self._resize,
            "pause-sync": self._pause,
            "resume-sync": self._resume,
            "down": self._down,
        }
        return handlers[command](name, rest) or ""

    def _at(self, name: str, number: str) -> minors.Minor:
        minor = self._minors.get((name, int(number)))
        if minor is None:
            raise volumes.Failure(f"{number}: Failure: (127) Device minor not allocated")
        return minor

    def _of(self, name: str, local: str, remote: str) -> minors.Minor:
        ends = _text(local), _text(remote)
        for minor in self._minors.values():
            if minor.machine == name and (minor.local, minor.remote) == ends:
                return minor
        raise volumes.Failure("Failure: (158) Unknown resource")

    def _new_minor(self, name: str, words: Sequence[str]) -> None:
        number = int(words[1])
        minor = self._minors[name, number] = minors.Minor(name, number, words[0])
        generated = self._world.machine(name).disk.generated
        generated[f"/sys/block/drbd{number}/size"] = lambda: str(minor.size * 2048).encode()

    def _attach(self, name: str, words: Sequence[str]) -> None:
        minor, volume = self._at(name, words[0]), self._volumes[name].at(words[1])
        if self.generation(name, words[2]) is None or volume is None:
            raise volumes.Failure(f"{words[0]}: Failure: (119) No valid meta-data signature found.")
        minor.data, minor.meta = words[1], words[2]
        minor.size = minor.size or volume.size
        if (peer := minor.peer) is not None:
            self._part(minor)
            self._meet(minor, peer)

    def _detach(self, name: str, words: Sequence[str]) -> None:
        minor = self._at(name, words[0])
        if minor.primary and self._peer_state(minor) != minors.UP_TO_DATE:
            raise volumes.Failure(f"{words[0]}: State change failed: (-2) Need access to UpToDate data")
        minor.data = minor.meta = ""
        minor.target_since = None
        theirs = self._own(minor.peer) if minor.peer else None
        if minor.peer is not None and theirs is not None and theirs.complete and (minor.primary or minor.peer.primary):
            # The guest continues to write to the peer's copy alone.
            self._renew(theirs)

    def _connect(self, name: str, words: Sequence[str]) -> None:
        minor = next(
            (each for each in self._minors.values() if (each.machine, each.resource) == (name, words[0])), None
        )
        if minor is None:
            raise volumes.Failure("Failure: (158) Unknown resource")
        options = dict(word.removeprefix("--").partition("=")[::2] for word in words[3:])
        alone = minor.net.get("alone", "")
        minor.local, minor.remote, minor.net, minor.standalone = _text(words[1]), _text(words[2]), options, False
        minor.net["alone"] = alone
        minor.discard = options.pop("discard-my-data", "") == "yes"

    def _net_options(self, name: str, words: Sequence[str]) -> None:
        options = dict(word.removeprefix("--").partition("=")[::2] for word in words[2:])
        minor = self._of(name, *words[:2])
        both = minor.primary and minor.peer is not None and minor.peer.primary
        if options.get("allow-two-primaries") == "no" and both:
            raise volumes.Failure("Failure: (-1) Multiple primaries not allowed by config")
        minor.net.update(options)

    def _disconnect(self, name: str, words: Sequence[str]) -> None:
        minor = self._of(name, *words[:2])
        peer = minor.peer
        self._part(minor)
        for each in filter(None, (minor, peer)):
            each.standalone = each is minor
        minor.local = minor.remote = ""

    def _promote(self, name: str, words: Sequence[str]) -> None:
        minor = self._at(name, words[0])
        if minor.peer is not None and minor.peer.primary and not minor.primary and not minor.allows_two_primaries:
            raise volumes.Failure(f"{words[0]}: State change failed: (-1) Multiple primaries not allowed by config")
        own = self._own(minor)
        if minors.UP_TO_DATE not in (self._state(minor), self._peer_state(minor)):
            if own is None or "--force" not in words:
                raise volumes.Failure(f"{words[0]}: State change failed: (-2) Need access to UpToDate data")
            self._renew(own)
            if minor.peer is not None and self._own(minor.peer) is not None:
                self._begin(minor.peer)
        minor.primary = True

    def _demote(self, name: str, words: Sequence[str]) -> None:
        self._at(name, words[0]).primary = False

    def _resize(self, name: str, words: Sequence[str]) -> None:
        minor = self._at(name, words[0])
        sides = [each for each in (minor, minor.peer) if each is not None]
        data_volumes = [self._volumes[each.machine].at(each.data) for each in sides if each.data]
        for each in sides:
            each.size = min((volume.size for volume in data_volumes if volume), default=each.size)

    def _pause(self, name: str, words: Sequence[str]) -> None:
        self._at(name, words[0]).paused = True

    def _resume(self, name: str, words: Sequence[str]) -> None:
        self._at(name, words[0]).paused = False

    def _down(self, name: str, words: Sequence[str]) -> None:
        for minor in [each for each in self._minors.values() if (each.machine, each.resource) == (name, words[0])]:
            self._forget(minor)

    def _state(self, minor: minors.Minor) -> str:
        own = self._own(minor)
        if own is None:
            return minors.DISKLESS
        return minors.UP_TO_DATE if own.complete else minors.INCONSISTENT

    def _peer_state(self, minor: minors.Minor) -> str:
        return self._state(minor.peer) if minor.peer is not None else "DUnknown"

    def _table(self, name: str) -> bytes:
        self.update()
        lines = [
            minors.status(minor, disk=self._state(minor), peer_disk=self._peer_state(minor))
            for (machine, _), minor in sorted(self._minors.items())
            if machine == name
        ]
        return (minors.VERSION + "".join(lines)).encode()


def _text(endpoint: str) -> str:
    """Return an address without its family."""
    return endpoint.partition(":")[2]
