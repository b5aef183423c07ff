"""Since when an owner has what it has: found in the journal by the owner's text."""

from collections.abc import Callable

import pytest
from msgspec import structs
from tests.state import build
from tests.state.journal.test_history import ADDRESS, TimedStore, gone, put

from gantry.model import instance, network
from gantry.runtime import simulated
from gantry.state.journal import history, origin
from gantry.state.objects import snapshot
from gantry.state.store import transaction

NETWORK_ADDRESS = ("net", ADDRESS)


def vm(number: int, *, ip: str, serial: int = 1, mtime: float = 0.0) -> instance.Instance:
    return structs.replace(build.vm(number, ip=ip), serial_no=serial, mtime=mtime)


def has_address(value: snapshot.Stored) -> bool:
    owner = value if isinstance(value, instance.Instance | network.Port) else None
    return owner is not None and any((use.network, use.ip) == NETWORK_ADDRESS for use in owner.allocations())


class Origins(TimedStore):
    """A store that answers for the present owner of ``ADDRESS``."""

    def origin(self, number: int = 1, *, near: float | None = None) -> origin.Origin:
        owner = self.store.durable.instances[f"i{number}"]
        search = origin.Search(owner, has_address, owner.uuid, owner.mtime if near is None else near)
        past = history.History(self.machine, build.WHERE, lambda: self.store.durable)
        (answer,) = build.on(self.world, self.machine, past.origins([search]))
        return answer


def test_an_address_that_came_with_the_instance_is_its_since_the_creation() -> None:
    with simulated.World(seed=1) as world:
        origins = Origins(world)
        origins.commit(*put(build.vm(2)))
        created = origins.commit(*put(vm(1, ip=ADDRESS, mtime=world.clock.now())))
        origins.commit(*put(build.vm(3)))
        answer = origins.origin()
        assert answer.time == pytest.approx(created, abs=1)
        assert (answer.cause.job, answer.cause.user) == (2, "gnt:user")


def change_often(origins: Origins) -> float:
    """Create an instance, give it the address, and change it without a change of the address; return when it got it."""
    origins.commit(*put(vm(1, ip="")))
    for serial in range(2, 6):
        origins.commit(*put(vm(1, ip="10.0.0.9", serial=serial, mtime=origins.machine.clock.now())))
    allocated = origins.commit(*put(vm(1, ip=ADDRESS, serial=6, mtime=origins.machine.clock.now())))
    for serial in range(7, 12):
        origins.commit(*put(vm(1, ip=ADDRESS, serial=serial, mtime=origins.machine.clock.now())))
        origins.commit(*put(build.vm(serial)))
    return allocated


@pytest.mark.parametrize("records", [2, 3, 100])
@pytest.mark.parametrize(
    "near", [lambda origins: None, lambda origins: 0.0, lambda origins: origins.machine.clock.now() + 1e6]
)
def test_an_address_that_came_later_is_found_across_changes_and_sections(
    records: int, near: Callable[[Origins], float | None]
) -> None:
    with simulated.World(seed=1) as world:
        origins = Origins(world, limits=transaction.Limits(records=records))
        allocated = change_often(origins)
        answer = origins.origin(near=near(origins))
        assert answer.time == pytest.approx(allocated, abs=1)
        assert answer.cause.job == 6


def test_an_address_that_was_released_meanwhile_counts_from_its_return() -> None:
    with simulated.World(seed=1) as world:
        origins = Origins(world)
        origins.commit(*put(vm(1, ip=ADDRESS)))
        origins.commit(*put(vm(1, ip="", serial=2)))
        origins.commit(*put(vm(1, ip=ADDRESS, serial=3)))
        assert origins.origin().cause.job == 3
        origins.commit(gone(1))
        origins.commit(*put(vm(1, ip=ADDRESS, mtime=origins.machine.clock.now())))
        assert origins.origin().cause.job == 5


def test_what_began_before_the_kept_records_has_no_origin() -> None:
    with simulated.World(seed=1) as world:
        origins = Origins(world, limits=transaction.Limits(records=2))
        origins.commit(*put(vm(1, ip=ADDRESS), build.vm(2)))
        for serial in (2, 3, 4):
            origins.commit(*put(vm(1, ip=ADDRESS, serial=serial, mtime=origins.machine.clock.now())))
        origins.drop_first_section()
        origins.drop_first_section()
        assert origins.origin() == origin.Origin()
        while len(build.sections(origins.machine)) > 1:
            origins.drop_first_section()
        origins.commit(*put(build.vm(5)))
        assert origins.origin(2) == origin.Origin()


@pytest.mark.parametrize(("first", "block"), [(100, 100), (700, 3000), (1 << 18, 1 << 22)])
def test_lines_of_any_length_are_found_with_blocks_of_any_size(
    monkeypatch: pytest.MonkeyPatch, first: int, block: int
) -> None:
    monkeypatch.setattr(origin, "FIRST_BLOCK", first)
    monkeypatch.setattr(origin, "BLOCK", block)
    with simulated.World(seed=1) as world:
        origins = Origins(world, limits=transaction.Limits(records=7))
        allocated = change_often(origins)
        for near in (None, 0.0, allocated, allocated + 1e6):
            assert origins.origin(near=near).cause.job == 6


def test_a_little_is_read_for_an_object_that_never_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "FIRST_BLOCK", 1000)
    with simulated.World(seed=1) as world:
        origins = Origins(world)
        for number in range(2, 102):
            vms = [vm(100 * number + index, ip="", mtime=origins.machine.clock.now()) for index in range(5)]
            origins.commit(
                *put(*vms, *([vm(1, ip=ADDRESS, mtime=origins.machine.clock.now())] if number == 40 else []))
            )
        read, sizes = origins.machine.disk.read_part, list[int]()

        def counted(path: str, offset: int, size: int) -> bytes:
            part = read(path, offset, size)
            sizes.append(len(part))
            return part

        monkeypatch.setattr(origins.machine.disk, "read_part", counted)
        assert origins.origin().cause.job == 39
        assert sum(sizes) < sum(origins.machine.disk.status(path).size for path in build.sections(origins.machine)) / 3
