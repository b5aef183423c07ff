"""Minors and ports of mirrored disks: allocated once, released, held for jobs."""

import msgspec
import pytest
from tests.state import build

from gantry import errors
from gantry.ipam import embedded, mirrors
from gantry.model import instance
from gantry.state.objects import snapshot as states

START = states.Snapshot().apply(build.FIRST, serial=1)


def vm(number: int, minor: int, *, port: int = 0) -> instance.Instance:
    mirror = instance.Mirror(minors={"n0": minor, "n1": minor}, port=port or 11000 + minor, secret="s")
    disk = instance.Disk(uuid=f"d{number}", dev_type="drbd", size=1, mirror=mirror)
    return msgspec.structs.replace(build.vm(number), disks=(disk,))


def followed(ledger: embedded.Ledger, before: states.Snapshot, *changes: states.Change) -> states.Snapshot:
    after = before.apply(changes, serial=before.serial + 1)
    ledger.follow(before, after, changes)
    return after


def test_a_number_is_free_again_when_its_instance_is_deleted() -> None:
    ledger = embedded.Ledger()
    state = followed(ledger, START, states.Put(vm(1, 0)), states.Put(vm(2, 1)))
    assert ledger.mirrors.picks().minor("n0") == 2
    assert ledger.mirrors.picks().minor("n2") == 0
    assert ledger.mirrors.picks().port() == 11002
    state = followed(ledger, state, states.Delete("instances", "i1"))
    assert ledger.mirrors.picks().minor("n0") == 0
    assert ledger.mirrors.picks().port() == 11000
    fresh = embedded.Ledger()
    fresh.follow(state, state, ())
    assert fresh.mirrors.picks().minor("n1") == 0


def test_a_detached_disk_keeps_its_numbers_until_it_is_removed() -> None:
    ledger = embedded.Ledger()
    (disk,) = vm(1, 0).disks
    state = followed(ledger, START, states.Put(vm(1, 0)))
    detached = instance.DetachedDisk(disk=disk, nodes=("n0", "n1"), instance="i1")
    state = followed(ledger, state, states.Delete("instances", "i1"), states.Put(detached))
    assert ledger.mirrors.picks().minor("n1") == 1
    assert ledger.mirrors.picks().port() == 11001
    followed(ledger, state, states.Delete("disks", disk.uuid))
    assert ledger.mirrors.picks().minor("n1") == 0
    assert ledger.mirrors.picks().port() == 11000


def test_one_plan_picks_a_number_once() -> None:
    picks = embedded.Ledger().mirrors.picks()
    assert [picks.minor("n0") for _ in range(3)] == [0, 1, 2]


def test_what_is_held_for_a_job_is_not_picked_by_another_plan() -> None:
    ledger = embedded.Ledger()
    ledger.hold(7, START, changes=[states.Put(vm(1, 0))])
    assert ledger.mirrors.picks().minor("n0") == 1
    assert ledger.mirrors.picks().port() == 11001
    ledger.release(7)
    assert ledger.mirrors.picks().minor("n0") == 0


def test_an_error_says_that_all_ports_are_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "LAST_PORT", mirrors.FIRST_PORT)
    picks = embedded.Ledger().mirrors.picks()
    picks.port()
    with pytest.raises(errors.NoRoomError, match="all ports 11000 to 11000 are in use"):
        picks.port()
