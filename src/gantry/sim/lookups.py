"""Questions of people who look something up, with answers that must be true: who has an address, and filtered tables.

An answer is compared with the state of the master that gave it, if that did not change meanwhile; a table with a filter
is compared with the whole table. ``scenario`` calls ``look`` in runs with chores.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.daemons import master as daemons
from gantry.sim import client, cluster, invariants, story
from gantry.state.objects import snapshot as states

OWNERS = "who has an address is answered as the state says"
FILTERED = "a table with a filter has the rows of the table that match it"
SIMILAR = "the name of an object is suggested for that name with a typing error"

LIMIT = 500
QUESTIONS = 3
"""The number of questions that are asked in a row."""
IN_USE = "in use"

Owned = tuple[str, str, str]
"""An address, the UUID of its network or an empty text, and the UUID of the instance or port that has it."""


@dataclass(frozen=True)
class _Filter:
    """A filter, and the same test on a row, whose cells have the names of ``FIELDS``."""

    raw: object
    matches: Callable[[Mapping[str, object]], bool]


FIELDS = ("name", "pnode", "admin_state", "be/vcpus", "tags", "uuid")


class _Address(msgspec.Struct):
    address: str
    state: str
    network_uuid: str
    kind: str
    owner_uuid: str


class _Answer(msgspec.Struct):
    rows: list[_Address]
    complete: bool


class _Table(msgspec.Struct):
    data: list[list[tuple[int, object]]]


class Lookups:
    """The questions of a run."""

    def __init__(self, lab: cluster.SimulatedCluster, clients: client.Clients, run_story: story.Story) -> None:
        self._lab = lab
        self._clients = clients
        self._story = run_story
        self._chance: random.Random = lab.world.source("lookups")

    async def look(self) -> None:
        """Ask a master something; raises Violation if the answer is wrong."""
        name = self._clients.master()
        daemon = self._lab.daemons.get(name)
        if daemon is None:
            return
        kinds = [self._owners, self._owners, self._past, self._filtered, self._similar, self._tables]
        for _ in range(QUESTIONS):
            try:
                await self._chance.choice(kinds)(name, daemon)
            except errors.InternalError as error:
                raise story.Violation(client.READABLE, f"an answer of {name}", error.message) from None
            except (OSError, errors.GantryError) as error:
                self._story.tell("reader", f"no answer of {name}: {error}")

    def _text(self, state: states.Snapshot) -> str:
        """Return something to look up: an address, a CIDR, a MAC address, a name, or nothing that exists."""
        addresses = [ip for ip, *_ in _owned(state)]
        macs = [nic.mac for vm in state.instances.values() for nic in vm.nics]
        names = [entity.name for entity in (*state.networks.values(), *state.nodes.values())]
        cidrs = [subnet.cidr for net in state.networks.values() for subnet in net.subnets]
        known: list[Sequence[str]] = [addresses, addresses, macs, names, cidrs, [*state.ports]]
        known.append([vm.name for vm in state.instances.values() if vm.nics])
        known.append(["10.1.0.3", "10.2.0.0/24", "203.0.113.0/24", "10.1.0.1", "nobody", "aa:bb:cc:00:00:00", "300.1"])
        return self._chance.choice(self._chance.choice([texts for texts in known if texts]))

    async def _owners(self, name: str, daemon: daemons.Master) -> None:
        state = daemon.store.durable
        text = self._text(state)
        try:
            raw = await self._clients.ask("QueryAddress", text, None, False, LIMIT, on=name)
            answer = msgspec.convert(raw, _Answer)
        except errors.NotFoundError:
            answer = _Answer([], complete=True)
        if not _is_still(daemon, state) or not answer.complete:
            return
        used = [row for row in answer.rows if row.state == IN_USE and row.address and row.kind != "node"]
        seen = sorted((row.address, row.network_uuid, row.owner_uuid) for row in used)
        expected = sorted(owned for owned in _owned(state) if _concerns(state, text, owned))
        if seen != expected:
            raise story.Violation(OWNERS, f"{text}: {expected}", f"{seen}")

    async def _past(self, name: str, daemon: daemons.Master) -> None:
        """Ask for former owners; whether they are right, tests of the journal check."""
        text, now = self._text(daemon.store.durable), self._lab.world.machine(name).clock.now()
        moment = self._chance.choice([None, now - 30, now - 5])
        await self._clients.ask("QueryAddress", text, moment, moment is None, LIMIT, on=name)

    async def _filtered(self, name: str, daemon: daemons.Master) -> None:
        state = daemon.store.durable
        every = await self._rows(name, None)
        chosen = self._filter(state)
        some = await self._rows(name, chosen.raw)
        expected = [row["name"] for row in every if chosen.matches(row)]
        seen = [row["name"] for row in some]
        if _is_still(daemon, state) and sorted(map(str, seen)) != sorted(map(str, expected)):
            raise story.Violation(FILTERED, f"{chosen.raw}: {expected}", f"{seen}")

    async def _rows(self, name: str, raw: object) -> list[dict[str, object]]:
        answer = await self._clients.ask("Query", "instance", FIELDS, raw, on=name)
        table = msgspec.convert(answer, _Table)
        return [dict(zip(FIELDS, (value for _, value in row), strict=True)) for row in table.data]

    def _filter(self, state: states.Snapshot) -> _Filter:
        chance = self._chance
        names = [vm.name for vm in state.instances.values()] or ["vm1"]
        node = chance.choice([each.name for each in state.nodes.values()])
        # A name that is asked for twice has two rows, as in Ganeti.
        first, second = chance.sample(names, 2) if len(names) > 1 else (names[0], f"{names[0]}x")
        uuid, tag, count = chance.choice([*state.instances] or ["x"]), f"t{chance.randint(0, 5)}", chance.randint(1, 3)
        return chance.choice(
            [
                _Filter(["=", "pnode", node], lambda row: row["pnode"] == node),
                _Filter(["!=", "pnode", node], lambda row: row["pnode"] != node),
                _Filter(["=", "uuid", uuid], lambda row: row["uuid"] == uuid),
                _Filter(
                    ["|", ["=", "name", first], ["=", "admin_state", "down"]],
                    lambda row: row["name"] == first or row["admin_state"] == "down",
                ),
                _Filter(
                    ["|", ["=", "name", first], ["==", "name", second]], lambda row: row["name"] in (first, second)
                ),
                _Filter(
                    ["&", ["=", "pnode", node], ["=", "admin_state", "up"], ["!", ["=", "name", first]]],
                    lambda row: (row["pnode"], row["admin_state"]) == (node, "up") and row["name"] != first,
                ),
                _Filter(["=[]", "tags", tag], lambda row: tag in _texts(row["tags"])),
                _Filter(["!", ["=[]", "tags", tag]], lambda row: tag not in _texts(row["tags"])),
                _Filter(["<=", "be/vcpus", count], lambda row: int(str(row["be/vcpus"])) <= count),
                _Filter([">", "be/vcpus", count], lambda row: int(str(row["be/vcpus"])) > count),
                _Filter(["=~", "name", "^vm[1-4]$"], lambda row: bool(re.search("^vm[1-4]$", str(row["name"])))),
                _Filter(["?", "tags"], lambda row: bool(row["tags"])),
            ]
        )

    async def _similar(self, name: str, daemon: daemons.Master) -> None:
        state = daemon.store.durable
        kind = self._chance.choice(["instance", "network", "node", "group"])
        collection = {"instance": "instances", "network": "networks", "node": "nodes", "group": "nodegroups"}[kind]
        names = [str(getattr(each, "name", "")) for each in state.collection(collection).values()]
        if not names:
            return
        meant = self._chance.choice(names)
        typed = self._chance.choice([f"x{meant}", meant[1:], f"{meant}-", f"{meant[1]}{meant[0]}{meant[2:]}"])
        answer = await self._clients.ask("QuerySimilarNames", kind, typed, on=name)
        suggested = msgspec.convert(answer, list[str])
        # Names that differ in digits alone are different objects, and a character is similar to nothing.
        differs = len(typed) > 1 and re.sub("[0-9]", "", typed) != re.sub("[0-9]", "", meant)
        if _is_still(daemon, state) and differs and meant not in suggested:
            raise story.Violation(SIMILAR, f"{meant} for {typed}", f"{suggested}")

    async def _tables(self, name: str, daemon: daemons.Master) -> None:
        """Read tables that only administrators of access read, and jobs by status."""
        await self._clients.ask("Query", "access", ["who", "role", "on", "uuid"], None, on=name)
        await self._clients.ask("Query", "token", ["name", "user", "allows", "end"], None, on=name)
        fields = ["id", "status", "summary", "opresult", "received_ts", "end_ts", "user"]
        answer = await self._clients.ask("Query", "job", fields, ["=", "status", "error"], on=name)
        for row in msgspec.convert(answer, _Table).data:
            if row[1][1] != "error":
                raise story.Violation(FILTERED, "jobs with status error", f"job {row[0][1]} with {row[1][1]}")


def _is_still(daemon: daemons.Master, state: states.Snapshot) -> bool:
    """Return whether a state is the newest of a master and durable: then all answers meanwhile were about it."""
    return daemon.store.durable is state and daemon.store.snapshot is state


def _texts(cell: object) -> list[str]:
    return [str(text) for text in cell] if isinstance(cell, list) else []


def _owned(state: states.Snapshot) -> list[Owned]:
    return [(item.ip, item.network, owner.uuid) for owner in invariants.owners(state) for item in owner.allocations()]


def _concerns(state: states.Snapshot, text: str, owned: Owned) -> bool:
    """Return whether an address with its owner is of what a question is about."""
    ip, net, owner = owned
    if "/" in text:
        cidr, address = ranges.parse_cidr(text), ranges.parse_address(ip)
        return address.family is cidr.family and address.value in cidr.range
    if text.count(":") == 5:
        vm, port = state.instances.get(owner), state.ports.get(owner)
        macs = [port.mac] if port else [nic.mac for nic in vm.nics if ip in nic.ip] if vm else []
        return text in macs
    named = state.names.get(("networks", text)), state.names.get(("instances", text))
    return text in (ip, owner) or net in filter(None, named[:1]) or owner in filter(None, named[1:])
