"""What a machine's other files say about a journal that has lost its end."""

import dataclasses
import zlib

import pytest
from tests.state import build

from gantry import errors
from gantry.jobs import queue
from gantry.lib_files import journal_end
from gantry.node.membership import fence, ssconf
from gantry.runtime import simulated
from gantry.state.journal import end_mark, journal
from gantry.state.objects import snapshot
from gantry.state.objects import snapshot as states
from gantry.state.start import evidence

END = journal.Position(12, "d" * 64, 3)
MARK = end_mark.at(END)
ONE_NODE = build.put(build.OWNER, build.GROUP, build.node(0))
STATE = states.Snapshot().apply(ONE_NODE, serial=12)
NOTHING = evidence.Evidence(build.WHERE)


def losses(state: snapshot.Snapshot = STATE, **fields: object) -> list[str]:
    return dataclasses.replace(NOTHING, **fields).losses(state, END)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mark", "loss"),
    [
        (None, ""),
        (MARK, ""),
        (journal_end.Mark(11, 3, "c" * 64), ""),
        (journal_end.Mark(4711, 2, "c" * 64), ""),
        (journal_end.Mark(13, 3, "e" * 64), "says serial 13 epoch 3"),
        (journal_end.Mark(2, 4, "e" * 64), "says serial 2 epoch 4"),
        (journal_end.Mark(12, 3, "e" * 64), "has another chain hash for serial 12"),
    ],
)
def test_the_mark_shows_a_journal_that_ends_before_it(mark: journal_end.Mark | None, loss: str) -> None:
    lines = losses(mark=mark)
    assert loss in "".join(lines)
    assert bool(lines) is bool(loss)


def test_the_highest_job_number_shows_a_loss() -> None:
    assert losses(job_serial=0) == []
    assert "serial says 299, and the last job in the journal is 0" in losses(job_serial=299)[0]


def test_numbers_of_jobs_in_lost_records_may_be_unknown_only_without_a_number_in_the_mark() -> None:
    behind = dataclasses.replace(NOTHING, job_serial=7, newest_job=8, mark=MARK)
    assert (behind.highest_job, behind.unknown_jobs) == (8, queue.LIMIT)
    marked = dataclasses.replace(behind, mark=dataclasses.replace(MARK, last_job=12))
    assert (marked.highest_job, marked.unknown_jobs) == (12, 0)


def test_the_highest_epoch_is_that_of_the_journal_the_grant_or_the_mark() -> None:
    mark = dataclasses.replace(MARK, epoch=4)
    for epoch, granted, highest in [(3, 5, 5), (6, 5, 6), (2, 3, 4)]:
        assert dataclasses.replace(NOTHING, epoch=epoch, granted=granted, mark=mark).highest_epoch == highest
    assert (NOTHING.highest_epoch, NOTHING.highest_job) == (0, 0)
    assert losses() == []


@pytest.mark.parametrize("owner", [build.node(0).uuid, ""], ids=["owner", "no owner"])
def test_the_epoch_that_the_node_keeps_shows_a_loss_on_a_cluster_of_one_node(owner: str) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")

        async def admitted() -> evidence.Evidence:
            await machine.disk.make_directory(build.WHERE.lib)
            await fence.Fence(machine, build.WHERE, files=ssconf.Files(machine.disk, build.WHERE)).admit(7, owner)
            return evidence.read(machine.disk, build.WHERE)

        seen = build.on(world, machine, admitted())
    assert seen.epoch == 7
    assert "epoch says that a master of epoch 7 ran" in seen.losses(STATE, END)[0]
    assert seen.losses(STATE, journal.Position(12, END.digest, 7)) == []


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b"9" * 4002 + b"\n", 0),
        (b"%s %08x\n" % (b"9" * 4002, zlib.crc32(b"9" * 4002)), 0),
        (b"8 00000000\n", 0),
        (b"8 00000000\n7 %08x\n" % zlib.crc32(b"7"), 7),
        (b"7\n", 7),
        (b"", 0),
        (bytes(40), 0),
    ],
)
def test_only_an_epoch_that_the_node_wrote_is_evidence(content: bytes, epoch: int) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")

        async def written() -> evidence.Evidence:
            await machine.disk.make_directory(build.WHERE.lib)
            await machine.disk.write(f"{build.WHERE.lib}/epoch", content)
            return evidence.read(machine.disk, build.WHERE)

        assert build.on(world, machine, written()).epoch == epoch


def test_the_refusal_names_all_that_is_missing_and_what_to_do() -> None:
    behind = dataclasses.replace(
        NOTHING, mark=journal_end.Mark(4711, 3, "e" * 64), newest_job=299, nodes=("node9",), candidates=("node9",)
    )
    with pytest.raises(errors.ConfigurationError) as refusal:
        behind.check(STATE, END)
    text = str(refusal.value)
    for part in (
        "ends at serial 12 epoch 3",
        "serial 4711",
        "ssconf names node9",
        "job 299 has a file",
        "recover --acc",
    ):
        assert part in text


BACKUP = "restore config.data, journal/ and queue/, all three, from the newest backup"
COPY = "install the copy of the master candidate that holds the most: gnt-cluster recover --from NODE, with one of "


@pytest.mark.parametrize(
    ("candidates", "advice"),
    [((), BACKUP), (("node0",), BACKUP), (("node0", "node1", "node2"), f"{COPY}node1, node2")],
)
def test_the_refusal_advises_to_take_the_copy_of_another_candidate_or_a_backup(
    candidates: tuple[str, ...], advice: str
) -> None:
    behind = dataclasses.replace(NOTHING, mark=journal_end.Mark(4711, 3, "e" * 64), candidates=candidates)
    with pytest.raises(errors.ConfigurationError) as refusal:
        behind.check(STATE, END)
    assert refusal.value.hint == f"{advice}; to continue without the missing records: gnt-cluster recover --accept-loss"
