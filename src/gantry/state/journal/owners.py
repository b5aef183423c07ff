"""Who had which address, from when to when, by which jobs: the records of the journal, folded.

``holdings`` compares each instance and port before and after a record, which shows what the record allocated and
released. ``history.History`` calls it with the records that a question is about. Pure.

Facts from before the first record are not guessed: an address that had an owner by then has no start time, and earlier
owners are unknown.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.model import instance, network
from gantry.state.journal import record
from gantry.state.objects import snapshot as states

NetworkAddress = tuple[str, str]
"""UUID of a network, and an address in its canonical spelling."""

Matches = Callable[[states.Owner, network.Allocation], bool]
"""Returns whether a question is about an allocation of an owner."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An address that an instance or a port has or had.

    UUIDs of network and owner, and the last name of the owner in that time; ``noun`` is ``instance`` or ``port``, and a
    port without a name has its UUID as name. Times are seconds since the epoch: ``start`` is None if the holding began
    before the first kept record, ``end`` is None while it lasts. ``given`` and ``freed`` are the causes of both.
    """

    address: str
    network: str
    instance: str
    uuid: str
    start: float | None
    noun: str = "instance"
    end: float | None = None
    given: record.Cause = record.Cause()
    freed: record.Cause = record.Cause()

    def held_at(self, moment: float) -> bool:
        """Return whether the owner had the address at a moment."""
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


class Past(msgspec.Struct, frozen=True):
    """The answer to a question: holdings, the oldest first, and the time of the first record that is kept.

    ``net`` is the network as it was at the moment of the question, None if there was none or no moment. A question
    about all networks has the names of those of the holdings by UUID in ``names``, and all at the moment in ``nets``.
    """

    holdings: tuple[Holding, ...]
    since: float | None
    net: network.Network | None = None
    names: dict[str, str] = {}
    nets: tuple[network.Network, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question about the addresses of ``networks``, and of deleted networks that had the name ``name``.

    ``address`` is in canonical spelling, empty for all; with ``moment`` only holdings of that moment match. Of more
    than ``limit`` holdings those that ended last are returned.

    With ``matches`` the question is about all networks, and addresses outside of networks, but only about the
    allocations for which ``matches`` returns true.
    """

    name: str
    networks: frozenset[str]
    limit: int
    address: str = ""
    moment: float | None = None
    matches: Matches | None = None


def holdings(journal_records: Iterable[record.Record], question: Question, *, now: states.Snapshot) -> Past:
    """Fold records, the oldest first, up to the one that made ``now``; NotFoundError if no network matches."""
    fold = _Fold(question, now)
    for journal_record in journal_records:
        if journal_record.serial > now.serial:
            break
        fold.follow(journal_record)
    return fold.finish()


@dataclass
class _Fold:
    """The state of a fold: ``networks`` are the matching ones, ``then`` the same at the moment of the question.

    ``seen`` are the networks that a record puts or deletes, ``addresses`` the addresses of each owner by UUID,
    ``current`` the holding of each address; ``is_whole`` means that the journal begins with the cluster's creation.
    """

    question: Question
    now: states.Snapshot
    since: float | None = None
    networks: set[str] = field(default_factory=set)
    then: dict[str, network.Network] = field(default_factory=dict)
    is_whole: bool = False
    seen: set[str] = field(default_factory=set)
    addresses: dict[str, frozenset[NetworkAddress]] = field(default_factory=dict)
    current: dict[NetworkAddress, Holding] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    ended: deque[Holding] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.networks = set(self.question.networks)
        self.ended = deque(maxlen=self.question.limit)

    def follow(self, journal_record: record.Record) -> None:
        """Apply a record: it releases addresses before it allocates them, as ``Snapshot.apply`` does."""
        if self.since is None:
            self.since, self.is_whole = journal_record.time, journal_record.serial == 1
        moved: list[tuple[str, states.Owner | None]] = []
        for change in journal_record.changes:
            value = change.value if isinstance(change, states.Put) else None
            if change.kind == "networks":
                self._meet(change.key, value if isinstance(value, network.Network) else None, journal_record.time)
            elif change.kind in ("instances", "ports"):
                moved.append((change.key, value if isinstance(value, instance.Instance | network.Port) else None))
        for uuid, owner in moved:
            for address in self.addresses.get(uuid, frozenset()) - self._addresses_of(owner):
                self._end(address, journal_record)
        for uuid, owner in moved:
            if owner is not None:
                self._begin(owner, journal_record)
            else:
                self.addresses.pop(uuid, None)

    def _meet(self, uuid: str, net: network.Network | None, time: float) -> None:
        self.seen.add(uuid)
        if net and self.question.matches:
            self.networks.add(uuid)
            self.names[uuid] = net.name
        if net and self.question.name in (net.name, uuid) and uuid not in self.now.networks:
            self.networks.add(uuid)
        if self.question.moment is None or time > self.question.moment:
            return
        if net and uuid in self.networks:
            self.then[uuid] = net
        else:
            self.then.pop(uuid, None)

    def _addresses_of(self, owner: states.Owner | None) -> frozenset[NetworkAddress]:
        requested_address, matches = self.question.address, self.question.matches
        if matches is not None:
            allocations = owner.allocations() if owner else ()
            return frozenset((each.network, each.ip) for each in allocations if owner and matches(owner, each))
        return frozenset(
            (allocation.network, allocation.ip)
            for allocation in (owner.allocations() if owner else ())
            if allocation.network in self.networks and requested_address in ("", allocation.ip)
        )

    def _begin(self, owner: states.Owner, journal_record: record.Record) -> None:
        addresses = self._addresses_of(owner)
        # serial_no counts changes: an owner first seen with a higher one existed before the first kept record.
        was_there = not self.is_whole and owner.uuid not in self.addresses and owner.serial_no > 1
        for address in addresses:
            known = self.current.get(address)
            if known is None:
                known = _holding(owner, address, start=None if was_there else journal_record.time)
                known = known if was_there else msgspec.structs.replace(known, given=journal_record.cause)
            self.current[address] = msgspec.structs.replace(known, instance=owner.name or owner.uuid)
        self.addresses[owner.uuid] = addresses

    def _end(self, address: NetworkAddress, journal_record: record.Record) -> None:
        ended = msgspec.structs.replace(self.current.pop(address), end=journal_record.time, freed=journal_record.cause)
        if self._matches(ended):
            self.ended.append(ended)

    def _matches(self, holding: Holding) -> bool:
        return self.question.moment is None or holding.held_at(self.question.moment)

    def finish(self) -> Past:
        """Return the matching holdings, the oldest first; nothing is known of a moment before the first record."""
        if not self.networks and self.question.matches is None:
            raise errors.NotFoundError(
                f"no such network: {self.question.name}", hint="the journal has no deleted network of that name either"
            )
        moment = self.question.moment
        if moment is not None and self.since is not None and moment < self.since:
            return Past((), self.since)
        there: list[states.Owner] = [*self.now.instances.values(), *self.now.ports.values()]
        for owner in () if self.is_whole else there:
            if owner.uuid not in self.addresses:
                self.current |= {address: _holding(owner, address, start=None) for address in self._addresses_of(owner)}
        lasting = filter(self._matches, self.current.values())
        kept = [*self.ended, *sorted(lasting, key=_age)][-self.question.limit :]
        past = Past(tuple(sorted(kept, key=_age)), self.since, self._network_then())
        if self.question.matches is None:
            return past
        self.names |= {uuid: net.name for uuid, net in self.now.networks.items()}
        names = {each.network: self.names[each.network] for each in kept if each.network in self.names}
        return msgspec.structs.replace(past, net=None, names=names, nets=tuple(self.then.values()))

    def _network_then(self) -> network.Network | None:
        """Return the network at the moment; one that no record changes has been as it is since before the records."""
        if self.question.moment is not None and not self.is_whole:
            unchanged = (self.networks - self.seen) & set(self.now.networks)
            self.then |= {uuid: self.now.networks[uuid] for uuid in sorted(unchanged)}
        return next(iter(self.then.values()), None)


def _holding(owner: states.Owner, address: NetworkAddress, *, start: float | None) -> Holding:
    noun = "port" if isinstance(owner, network.Port) else "instance"
    name = owner.name or owner.uuid
    return Holding(address=address[1], network=address[0], instance=name, uuid=owner.uuid, start=start, noun=noun)


def _age(holding: Holding) -> tuple[float, ranges.Address]:
    return holding.start or 0.0, ranges.parse_address(holding.address)
