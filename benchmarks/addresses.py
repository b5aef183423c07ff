"""The allocation of addresses as the product does it: the ledger alone, and with the transactions in the state.

A pair is what two requests cause: a port is removed, which releases its address, and a port is created with an address
that the ledger chooses. 5,000 ports own addresses, as many of them in the measured pool as it has used addresses; the
other used addresses of the pool are only marked in the ledger, because 16 million ports would not fit into memory.
Before each allocation the address of another port is released, in no order: the next free address has to be found each
time.

``Pool.pairs_with_state`` measures the choice, both transactions in the state in memory (``Snapshot.apply``) and the
ledger that follows them; no journal, no disk. ``Pool.pairs_of_ledger`` measures the choice and the ledger alone, by
repeating recorded pairs with their snapshots.

All rates are per second of the thread's processor time, so that other work on the machine counts little. All pools are
measured in turn, a short round each, with the garbage collector set as in the master. The pools of 2^24 addresses take
a minute to fill.
"""

import gc
import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import structs

from benchmarks.figure import Figure
from gantry.address import ranges
from gantry.daemons import master
from gantry.ipam import driver, embedded
from gantry.model import network
from gantry.state.objects import snapshot as states

OWNERS = 5_000
PAIRS = 500
ROUNDS = 9
FILLS = (0.0, 0.5, 0.9, 0.999)
MILLION = 1_000_000
ANY = driver.AnyAddress()
NETWORK, ELSEWHERE = "network", "elsewhere"
IPV6 = ranges.parse_cidr("2001:db8::/64")
# Odd, so that multiplying by it modulo a power of two is a permutation that scatters.
SCATTER = 0x9E3779B97F4A7C15
SCATTER_OWNERS = 0x9E3779B97F4A7C15F39CC0605CEDC835

GO_IPAM = 1e9 / 3941
"""Pairs per second: go-ipam's README, BenchmarkAcquireIP/Memory: 3,941 ns, on its authors' machine.

https://github.com/metal-stack/go-ipam/blob/055e39f335e57d9399b2ecda86147ed46667d473/README.md
"""


def _port(number: int, network_uuid: str, ip: str) -> network.Port:
    owner = uuid.UUID(int=number * SCATTER_OWNERS & (1 << 128) - 1)
    return network.Port(uuid=str(owner), name="", network=network_uuid, mac=f"aa:00:{number:08x}", ip=(ip,))


def _network(network_uuid: str, cidr: str) -> network.Network:
    subnet = network.Subnet(uuid=f"subnet of {network_uuid}", cidr=cidr, pools=(network.Pool(range=cidr),))
    return network.Network(uuid=network_uuid, name=network_uuid, subnets=(subnet,))


class Pool:
    """A pool over a whole subnet in a state, with the ledger that follows it and the ports whose addresses change."""

    def __init__(self, cidr: ranges.Cidr, numbers: Sequence[int]) -> None:
        """Fill the pool with ``numbers``; with none, one address is used."""
        self.ledger = embedded.Ledger()
        self.state = states.Snapshot()
        self.net = _network(NETWORK, str(cidr))
        owned = random.Random(1).sample(numbers, min(OWNERS, len(numbers))) or [cidr.first + 1]
        self.ports = [_port(index, NETWORK, str(ranges.Address(cidr.family, n))) for index, n in enumerate(owned)]
        elsewhere = [
            _port(index, ELSEWHERE, f"172.16.{index >> 8}.{index & 255}") for index in range(len(owned), OWNERS)
        ]
        self._commit(states.Put(self.net), states.Put(_network(ELSEWHERE, "172.16.0.0/16")))
        self._commit(*map(states.Put, self.ports), *map(states.Put, elsewhere))
        used = self.ledger.space(NETWORK, cidr.family)
        for number in numbers:
            used.allocate(number)

    def _commit(self, *changes: states.Change) -> None:
        before = self.state
        self.state = before.apply(changes, serial=before.serial + 1)
        self.ledger.follow(before, self.state, changes)

    def _positions(self) -> Iterator[int]:
        return itertools.islice(itertools.cycle(range(len(self.ports))), PAIRS)

    def pairs_with_state(self) -> float:
        """Return the pairs per second, with the transactions in the state."""
        ports, net, commit = self.ports, self.net, self._commit
        start = time.thread_time()
        for position in self._positions():
            port = ports[position]
            commit(states.Delete("ports", port.uuid))
            ip = self.ledger.allocations(self.state).allocate(net, ANY)
            ports[position] = network.Port(uuid=port.uuid, name="", network=NETWORK, mac=port.mac, ip=(ip,))
            commit(states.Put(ports[position]))
        return PAIRS / (time.thread_time() - start)

    def pairs_of_ledger(self) -> float:
        """Return the pairs per second of the ledger alone: pairs are recorded, undone in the ledger, and repeated."""
        first, recorded = self.state, []
        for position in self._positions():
            port = self.ports[position]
            before, removal = self.state, (states.Delete("ports", port.uuid),)
            self._commit(*removal)
            between, ip = self.state, self.ledger.allocations(self.state).allocate(self.net, ANY)
            self.ports[position] = structs.replace(port, ip=(ip,))
            creation = (states.Put(self.ports[position]),)
            self._commit(*creation)
            recorded.append((before, removal, between, ip, creation, self.state))
        self.ledger.follow(self.state, first, [states.Delete("ports", port.uuid) for port in self.ports])
        net, ledger = self.net, self.ledger
        start = time.thread_time()
        for before, removal, between, ip, creation, after in recorded:
            ledger.follow(before, between, removal)
            allocated = ledger.allocations(between).allocate(net, ANY)
            ledger.follow(between, after, creation)
            assert allocated == ip
        return PAIRS / (time.thread_time() - start)


def _ipv4(bits: int) -> ranges.Cidr:
    return ranges.parse_cidr(f"10.0.0.0/{32 - bits}")


def _in_a_row(cidr: ranges.Cidr, count: int) -> list[int]:
    return list(range(cidr.first + 1, cidr.first + 1 + count))


def _scattered(cidr: ranges.Cidr, count: int) -> list[int]:
    """Return ``count`` addresses of a subnet in no order, without its ends."""
    mask = cidr.range.size - 1
    numbers = (number * SCATTER & mask for number in range(1, count + 3))
    return [cidr.first + number for number in numbers if number not in (0, mask)][:count]


def _pools() -> Iterator[tuple[str, Pool]]:
    for bits in (8, 16, 24):
        cidr = _ipv4(bits)
        for used in FILLS:
            count = int(used * (cidr.range.size - 2))
            yield f"2^{bits}, {used:.1%} used", Pool(cidr, _scattered(cidr, count))
    yield "2^16, 50.0% used, in a row", Pool(_ipv4(16), _in_a_row(_ipv4(16), 1 << 15))
    yield "/64, a million used, in a row", Pool(IPV6, _in_a_row(IPV6, MILLION))
    yield "/64, a million used, scattered", Pool(IPV6, _scattered(IPV6, MILLION))


def pairs() -> Iterable[Figure]:
    pools = dict(_pools())
    kinds = (("ledger", Pool.pairs_of_ledger, 200_000), ("ledger and state", Pool.pairs_with_state, 40_000))
    rates: dict[tuple[str, str], list[float]] = {(kind, name): [] for kind, _, _ in kinds for name in pools}
    thresholds = gc.get_threshold()
    gc.set_threshold(master.COLLECT_EVERY, *thresholds[1:])
    gc.collect()
    gc.freeze()
    for _ in range(ROUNDS):
        for name, pool in pools.items():
            for kind, measure, _ in kinds:
                rates[kind, name].append(measure(pool))
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    for kind, _, limit in kinds:
        medians = []
        for name in pools:
            figure = Figure(f"addresses: {kind}, {name}", "pairs/s", rates[kind, name], limit, at_least=True, goal=True)
            medians.append(figure.median)
            yield figure
        ratio = min(medians) / max(medians)
        yield Figure(
            f"addresses: {kind}, the slowest of these to the fastest", "ratio", [ratio], 0.6, at_least=True, goal=True
        )
    yield Figure("addresses: go-ipam in memory, an empty prefix, as published", "pairs/s", [GO_IPAM])


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {"addresses": pairs}
