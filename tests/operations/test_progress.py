"""The progress of long work: its lines, and which of them a job's log keeps."""

import asyncio
import dataclasses

import pytest
from tests.operations import build

from gantry import errors
from gantry.operations import cancellable, draws, progress
from gantry.operations.disk_planning import transfer
from gantry.rpc import calls, targets


@dataclasses.dataclass
class Environment(build.Environment):
    """An environment whose time is that of the test."""

    now: float = 1000.0

    @property
    def inputs(self) -> draws.Inputs:
        return dataclasses.replace(super().inputs, now=self.now)


@pytest.fixture
def environment() -> Environment:
    environment = build.MemoryCluster().environment
    return Environment(**{field.name: getattr(environment, field.name) for field in dataclasses.fields(environment)})


def test_each_report_says_how_much_how_fast_and_how_long(environment: Environment) -> None:
    meter = progress.Meter(environment, "disk 0", total=4096)
    for done in (0, 200, 400):
        meter.report(done)
        environment.now += 1
    meter.end()
    assert environment.log.progresses == [
        "disk 0: 0 of 4096 MiB (0 %)",
        "disk 0: 200 of 4096 MiB (4 %), 200 MiB/s, 19 s to go",
        "disk 0: 400 of 4096 MiB (9 %), 200 MiB/s, 18 s to go",
        "",
    ]
    assert environment.log.lines == []


def test_the_rate_is_that_of_the_last_seconds(environment: Environment) -> None:
    meter = progress.Meter(environment, "disk 0", total=100_000)
    done = 0
    for rate in (*[100] * 60, *[10] * 11):
        environment.now += 1
        done += rate
        meter.report(done)
    assert environment.log.progresses[-1] == "disk 0: 6110 of 100000 MiB (6 %), 10 MiB/s, 2 h 36 min to go"


def test_the_log_of_a_long_job_stays_short(environment: Environment) -> None:
    meter = progress.Meter(environment, "disk 0")
    begin, logged = environment.now, list[float]()
    for done in range(3600):
        meter.report(done)
        if len(environment.log.lines) > len(logged):
            logged.append(environment.now - begin)
        environment.now += 1
    assert logged[:6] == [10, 30, 70, 150, 310, 610]
    assert len(logged) == 15
    assert environment.log.lines[0] == "disk 0: 10 MiB, 1.0 MiB/s"


def test_a_clock_that_is_set_back_ends_neither_the_lines_nor_the_log(environment: Environment) -> None:
    meter = progress.Meter(environment, "disk 0", total=1000)
    meter.report(0)
    environment.now -= 86400
    for done in range(0, 300, 10):
        meter.report(done)
        environment.now += 1
    assert environment.log.progresses[-1] == "disk 0: 290 of 1000 MiB (29 %), 10 MiB/s, 1 min 11 s to go"
    assert environment.log.lines == ["disk 0: 100 of 1000 MiB (10 %), 10 MiB/s, 1 min 30 s to go"]


async def test_work_is_looked_at_until_it_ends_and_never_twice_at_a_time(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellable, "POLL_INTERVAL_SECONDS", 0.0)
    looks, looking, end = 0, 0, asyncio.Event()

    async def look() -> None:
        nonlocal looks, looking
        assert not looking
        looking += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        looking -= 1
        looks += 1
        if looks == 3:
            end.set()

    async def never() -> None:
        raise AssertionError("nobody canceled")

    assert await cancellable.run(environment, end.wait(), never, look=look)
    assert looks == 3


class Nodes:
    """Nodes between which a stream of 64 MiB continues until its receiver was asked ``looks`` times."""

    def __init__(self, looks: int, *, receiver_says: bool = True) -> None:
        self._end = asyncio.Event()
        self._looks = looks
        self._says = receiver_says
        self.asked = 0

    async def call(self, target: targets.Target, call: calls.Call[object]) -> object:
        match call:
            case calls.StreamOpen():
                return 4711
            case calls.StreamProgress():
                self.asked += 1
                if self.asked == self._looks:
                    self._end.set()
                if not self._says:
                    raise errors.RemoteError("node2 does not know this call")
                return self.asked << 20
            case calls.StreamSend():
                await self._end.wait()
        return calls.Streamed(size=64 << 20, digest="d")


def ends(compress: str) -> tuple[calls.StreamEnd, calls.StreamEnd]:
    disk = calls.Disk(uuid="d1", size=64, dev_type="file", index=3)
    return calls.StreamEnd(disk=disk, compress=compress), calls.StreamEnd(disk=disk, compress=compress)


@pytest.mark.parametrize(
    ("compress", "line"), [("none", "disk 3: 2 of 64 MiB (3 %)"), ("gzip", "disk 3: 2 MiB")], ids=["plain", "gzip"]
)
async def test_a_copy_of_a_disk_reports_what_has_arrived(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, compress: str, line: str
) -> None:
    monkeypatch.setattr(cancellable, "POLL_INTERVAL_SECONDS", 0.0)
    nodes = Nodes(looks=3)
    monkeypatch.setattr(environment, "nodes", nodes)
    source, sink = (targets.Target(uuid, uuid, "192.0.2.1", 1811) for uuid in ("node1", "node2"))
    copy = transfer.Transfer(environment, source=source, sink=sink)
    await copy.run(*ends(compress))
    assert environment.log.progresses[1] == line
    assert environment.log.progresses[-1] == ""
    assert copy.done


async def test_a_receiver_that_does_not_say_how_much_has_arrived_is_asked_once(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of an earlier version does not know the call."""
    monkeypatch.setattr(cancellable, "POLL_INTERVAL_SECONDS", 0.0)
    nodes = Nodes(looks=1, receiver_says=False)
    monkeypatch.setattr(environment, "nodes", nodes)
    source, sink = (targets.Target(uuid, uuid, "192.0.2.1", 1811) for uuid in ("node1", "node2"))
    await transfer.Transfer(environment, source=source, sink=sink).run(*ends("none"))
    assert nodes.asked == 1
    assert environment.log.progresses == [""]
