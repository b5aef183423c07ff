"""What each released version wrote is read by this one: the disks of a cluster that lost its power under it.

The files are made by ``tools/released_state.py``, one with each release; ``present`` is made by the test.
"""

from collections.abc import Set
from pathlib import Path

import pytest

from gantry.sim import cluster
from gantry.state.objects import kinds
from tools import released_state

FOLDER = Path(__file__).parent
ENDED_BY_THE_RESTART = ("running", "queued", "waiting")

Rows = dict[str, list[dict[str, object]]]


def _lab(kept: released_state.Kept) -> cluster.SimulatedCluster:
    """Return the machines of a file, before any daemon has started."""
    lab = cluster.SimulatedCluster(seed=7, nodes=len(kept.disks))
    lab.world.loop.advance_to(kept.time)
    for name, disk in kept.disks.items():
        lab.world.machine(name).disk.restore(disk)
    return lab


async def _start(lab: cluster.SimulatedCluster) -> None:
    """Start all daemons; the former master's node daemon is among them."""
    for name in lab.names:
        await lab.start_node(name)
    await lab.start_master(released_state.MASTER)


def _files() -> list[Path]:
    return sorted(FOLDER.glob(f"*{released_state.SUFFIX}"))


@pytest.fixture(scope="module", params=[*_files(), "present"], ids=lambda each: Path(each).name)
def kept(request: pytest.FixtureRequest) -> released_state.Kept:
    return released_state.make() if request.param == "present" else released_state.read(request.param)


def test_clients_get_the_same_answers_as_before(kept: released_state.Kept) -> None:
    async def scenario() -> None:
        await _start(lab)
        before = kept.answers
        interrupted = {row["id"] for row in before.rows["job"] if row["status"] in ENDED_BY_THE_RESTART}
        ends = [(await lab.wait(int(str(number))))[0] for number in interrupted]
        assert ends == ["error", "error"]
        fields = {resource: tuple(rows[0]) for resource, rows in before.rows.items() if rows}
        after = await released_state.ask(lab, fields)
        assert after.history == before.history
        assert after.serial >= before.serial
        assert _without(after.rows, interrupted) == _without(before.rows, interrupted)

    with _lab(kept) as lab:
        lab.run(scenario())


def _without(rows: Rows, jobs: Set[object]) -> Rows:
    """Return the rows without those of some jobs."""
    return {**rows, "job": [row for row in rows["job"] if row["id"] not in jobs]}


def test_work_goes_on_and_gives_no_number_or_address_again(kept: released_state.Kept) -> None:
    async def scenario() -> None:
        await _start(lab)
        number = await lab.submit(
            {
                "OP_ID": "OP_INSTANCE_CREATE",
                "instance_name": "new",
                "pnode": "node1",
                "disk_template": "diskless",
                "disks": [],
                "no_install": True,
                "nics": [{"network": "prod", "ip": "pool"}],
                "start": False,
            }
        )
        status, results = await lab.wait(number)
        assert status == "success", results
        assert number > max(int(str(row["id"])) for row in kept.answers.rows["job"])
        state = lab.daemons[lab.leader].store.snapshot
        (nic,) = state.instance("new").nics
        # .10 is that of web, .11 in quarantine, .12 reserved
        assert nic.ip == ("192.0.2.13",)
        check = await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY", "error_codes": True})
        await lab.wait(check)
        log = str(await lab.luxi("QueryJobs", [check], ["oplog"]))
        assert "Verifying journal" in log
        assert "ECLUSTERJOURNAL" not in log

    with _lab(kept) as lab:
        lab.run(scenario())


def test_the_file_of_the_present_version_has_objects_of_each_kind() -> None:
    async def scenario() -> None:
        await _start(lab)
        state = lab.daemons[lab.leader].store.snapshot
        empty = {kind.collection for kind in kinds.KINDS.values() if not getattr(state, kind.collection)}
        assert empty == set()

    with _lab(released_state.make()) as lab:
        lab.run(scenario())
