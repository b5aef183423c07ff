"""What a node and its guests use: how it is read, how long it is kept, and what survives a restart of the daemon."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Coroutine, Iterator, Sequence
from typing import TypeVar

import msgspec
import pytest

from gantry import errors
from gantry.node import call_table, drivers
from gantry.node.daemon import usage
from gantry.node.hypervisors import fake
from gantry.rpc import calls
from gantry.runtime import paths, simulated

T = TypeVar("T")
FOLDERS = paths.Paths.below("/gantry")
FILES = {
    usage.PROCESSOR: b"cpu  300 100 200 9000 50 25 75 0 0 0\ncpu0 300 100 200 9000 50 25 75 0 0 0\nctxt 7\n",
    usage.MEMORY: b"MemTotal:       2048 kB\nMemFree:  10 kB\nMemAvailable:    512 kB\nHugePages_Total:       0\n",
    usage.NETWORK: b"""Inter-|   Receive                     |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
  eth0: 1000 1 0 0 0 0 0 0 2000 2 0 0 0 0 0 0
   br0: 5000 1 0 0 0 0 0 0 6000 2 0 0 0 0 0 0
""",
    usage.DISKS: b"   8 0 sda 10 0 4 0 20 0 6 0 0 0 0\n   8 1 sda1 10 0 4 0 20 0 6 0 0 0 0\n",
    "/sys/class/net/eth0/device": b"",
    "/sys/block/sda/device": b"",
}
GUEST = calls.Usage(name="vm1", processor=1.5, memory=1 << 20, read=1, written=2, received=3, sent=4)


class Hypervisor(fake.Fake):
    """A hypervisor whose guests use what a test says."""

    def __init__(self, machine: simulated.SimulatedRuntime) -> None:
        super().__init__(machine.disk, FOLDERS.instances)
        self.values: Sequence[calls.Usage] = ()
        self.error: Exception | None = None

    async def usage(self) -> tuple[calls.Usage, ...]:
        if self.error:
            raise self.error
        return tuple(self.values)


class RecordedMachine:
    """A simulated machine with a recorder, whose ``daemon`` runs until it is killed."""

    def __init__(self, world: simulated.World) -> None:
        self.world = world
        self.machine = world.machine("node1")
        self.hypervisor = Hypervisor(self.machine)
        self.run(self.machine.disk.make_directory(FOLDERS.lib))
        self.start()

    def start(self) -> None:
        registry = drivers.Registry(self.machine, hypervisors={"broken": self.hypervisor})
        self.recorder = usage.Recorder(self.machine, registry, FOLDERS.usage)
        self._table = call_table.Table()
        self.recorder.add_to(self._table)
        self._daemon = self.world.loop.create_task(self.recorder.run())

    def stop(self) -> None:
        self._daemon.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.run(asyncio.wait_for(self._daemon, 1))

    def kill(self) -> None:
        """End the daemon without what it does at its end, as SIGKILL does."""
        self.world.kill("node1")
        self._daemon.cancel()

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.world.run(work)

    def sleep(self, seconds: float) -> None:
        while seconds > 0:
            self.run(self.world.clock.sleep(min(seconds, 600.0)))  # a single run of the simulation has a limit
            seconds -= 600.0

    def ask(self, call: calls.Call[tuple[calls.Usage, ...]]) -> Sequence[calls.Usage]:
        answer = self.run(self._table.answer(call.procedure(), msgspec.json.encode(call)))
        return msgspec.convert(answer, tuple[calls.Usage, ...])


@pytest.fixture
def node() -> Iterator[RecordedMachine]:
    with simulated.World(seed=1) as world:
        started = RecordedMachine(world)
        yield started
        started.stop()


def test_the_nodes_own_values_are_those_of_its_kernel(node: RecordedMachine) -> None:
    for path, content in FILES.items():
        node.run(node.machine.disk.make_directory(path.rpartition("/")[0]))
        node.run(node.machine.disk.write(path, content))
    node.sleep(usage.PERIOD_SECONDS + 1)
    (own,) = node.ask(calls.UsageNow())
    assert msgspec.structs.replace(own, time=0.0) == calls.Usage(
        name=calls.OF_NODE,
        processor=7.0,
        memory=1536 * 1024,
        read=4 * 512,
        written=6 * 512,
        received=1000,
        sent=2000,
    )
    assert own.time == pytest.approx(node.world.clock.now(), abs=5)


def test_what_a_kernel_does_not_say_is_0(node: RecordedMachine) -> None:
    node.sleep(1)
    (own,) = node.ask(calls.UsageNow())
    assert msgspec.structs.replace(own, time=0.0) == calls.Usage(name=calls.OF_NODE)


def test_guests_have_a_value_each_minute_and_the_newest_at_once(node: RecordedMachine) -> None:
    node.hypervisor.values = [GUEST]
    node.sleep(1)
    node.hypervisor.values = [msgspec.structs.replace(GUEST, processor=9.0)]
    node.sleep(usage.PERIOD_SECONDS)
    _, newest = node.ask(calls.UsageNow())
    assert (newest.name, newest.processor, newest.sent) == ("vm1", 9.0, 4)
    past = node.ask(calls.UsageHistory(name="vm1"))
    assert [value.processor for value in past] == [1.5, 9.0]
    assert past[1].time - past[0].time == pytest.approx(usage.PERIOD_SECONDS, abs=1)
    assert node.ask(calls.UsageHistory(name="vm1", since=past[0].time)) == past[1:]
    assert node.ask(calls.UsageHistory(name="vm2")) == ()


def test_a_guest_that_has_ended_has_its_past_for_a_day_and_nothing_is_kept_longer(node: RecordedMachine) -> None:
    node.hypervisor.values = [GUEST]
    node.sleep(1)
    node.hypervisor.values = []
    node.sleep(usage.PERIOD_SECONDS * (usage.DAY - 10))
    assert [value.name for value in node.ask(calls.UsageNow())] == [calls.OF_NODE]
    assert len(node.ask(calls.UsageHistory(name="vm1"))) == 1
    node.sleep(usage.PERIOD_SECONDS * 30)
    assert node.ask(calls.UsageHistory(name="vm1")) == ()
    assert len(node.ask(calls.UsageHistory(name=calls.OF_NODE))) == usage.DAY


def test_a_daemon_that_is_restarted_has_the_past_and_one_that_is_killed_loses_minutes(node: RecordedMachine) -> None:
    node.hypervisor.values = [GUEST]
    node.sleep(usage.PERIOD_SECONDS * 5)
    before = node.ask(calls.UsageHistory(name="vm1"))
    node.stop()
    node.start()
    node.sleep(1)
    assert node.ask(calls.UsageHistory(name="vm1"))[: len(before)] == before
    node.sleep(usage.PERIOD_SECONDS * 100)
    before = node.ask(calls.UsageHistory(name="vm1"))
    node.kill()
    node.start()
    node.sleep(1)
    after = node.ask(calls.UsageHistory(name="vm1"))
    assert after[:90] == before[:90]


@pytest.mark.parametrize("content", [b"", b"\xff", b"\x81\xa1a\xc4\x00", b"\x81\xa1a\xc4\x01b", b"[]"])
def test_a_damaged_file_of_the_past_is_no_fault(node: RecordedMachine, content: bytes) -> None:
    node.stop()
    node.run(node.machine.disk.write(FOLDERS.usage, content))
    node.start()
    node.sleep(usage.PERIOD_SECONDS + 1)
    assert len(node.ask(calls.UsageHistory(name=calls.OF_NODE))) == 2


@pytest.mark.parametrize("error", [errors.HypervisorError("QEMU is gone"), OSError("no such file"), ValueError("odd")])
def test_what_cannot_be_read_now_is_read_in_the_next_minute(node: RecordedMachine, error: Exception) -> None:
    node.hypervisor.values = [GUEST]
    node.hypervisor.error = error
    node.sleep(1)
    node.hypervisor.error = None
    node.sleep(usage.PERIOD_SECONDS)
    assert [value.name for value in node.ask(calls.UsageNow())] == [calls.OF_NODE, "vm1"]


def test_values_go_on_while_the_disk_is_full(node: RecordedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(node.machine.disk, "write", fail)
    node.sleep(usage.PERIOD_SECONDS * (2 * usage.SAVE_EVERY + 1))
    assert len(node.ask(calls.UsageHistory(name=calls.OF_NODE))) > 2 * usage.SAVE_EVERY
