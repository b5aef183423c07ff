"""The retention of journal and archive on real daemons with two candidates: what goes, what stays, what is answered."""

import contextlib
from collections.abc import Iterator

import pytest
from tests.cluster import lab

pytestmark = pytest.mark.slow

JOBS = 2100
"""Enough that the master does not have all events in memory."""
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0}


@pytest.fixture(scope="module")
def busy() -> Iterator[lab.Lab]:
    """A cluster of three nodes that has archived more jobs than it may keep."""
    with lab.lab() as cluster:
        cluster.init("--journal-retention", "1M", "--archive-retention", "1M")
        cluster.add_node()
        cluster.add_node()
        with cluster.luxi() as luxi:
            for _ in range(7):
                numbers = luxi.value("SubmitManyJobs", [[DELAY]] * (JOBS // 7))
                assert isinstance(numbers, list)
                for _, number in numbers:
                    assert luxi.finished(number)[0] == "success"
                luxi.value("AutoArchiveJobs", -1, 60)
            # Pruning follows a checkpoint, and that follows records: without more of them a minute would pass.
            lab.wait_until(
                lambda: _works(luxi) and all(map(_is_pruned, cluster.nodes)), "a pruning on all nodes", timeout=100
            )
        yield cluster


def _works(luxi: lab.Luxi) -> bool:
    """Run a job with many steps, which need much of the journal; return whether it succeeded."""
    return luxi.finished(luxi.value("SubmitJob", [DELAY] * 50))[0] == "success"


def _archived(node: lab.Node) -> list[int]:
    return sorted(int(path.name[4:]) for path in (node.root / "lib/queue/archive").glob("*/job-*"))


def _journal(node: lab.Node) -> dict[str, int]:
    """Return the sizes of the journal's files, the oldest first, without those that are deleted meanwhile."""
    sizes: dict[str, int] = {}
    for path in sorted((node.root / "lib/journal").iterdir()):
        with contextlib.suppress(FileNotFoundError):
            sizes[path.stem] = path.stat().st_size
    return {stem: size for stem, size in sizes.items() if size}


def _is_pruned(node: lab.Node) -> bool:
    journal = _journal(node)
    is_short = f"{1:016d}" not in journal and sum(journal.values()) < 1.3 * (1 << 20)
    return is_short and 0 < len(_archived(node)) <= 256


def _tells_all(busy: lab.Lab) -> bool:
    """Return whether the events begin where the journal does; it may be pruned meanwhile."""
    first = int(next(iter(_journal(busy.nodes[busy.leader]))))
    return busy.run("gantry", "events").stdout.startswith(f'{{"serial": {first},')


def _has_all_changes_since(busy: lab.Lab, since: str) -> bool:
    """Return whether history answers without a remark about changes that it does not show."""
    return busy.run("gantry", "history", "--since", since, "--limit", "100000").stderr == ""


def _has_no_gap(node: lab.Node) -> bool:
    numbers = _archived(node)
    return numbers == list(range(numbers[0], numbers[-1] + 1))


@pytest.mark.slow
def test_all_nodes_keep_the_newest_and_no_gap(busy: lab.Lab) -> None:
    # While files move to the archive of a candidate, which is in no order, a listing may show some of them only.
    lab.wait_until(lambda: all(map(_has_no_gap, busy.nodes)), "archives without a gap")
    busy.verified()


def test_the_settings_are_shown_and_a_wrong_one_is_refused(busy: lab.Lab) -> None:
    info = busy.run("gnt-cluster", "info").stdout
    assert "retention of the journal: 1M" in info
    assert "retention of archived jobs: 1M" in info
    reason = busy.refused("gnt-cluster", "modify", "--journal-retention", "10 days")
    assert "'10 days' is not a valid retention" in reason


def test_questions_about_the_past_are_answered_with_its_begin(busy: lab.Lab) -> None:
    history = busy.run("gantry", "history", "--since", "1", "--limit", "100000")
    assert "Earlier changes are not kept: the journal begins with serial " in history.stderr
    # On a fast machine, the whole journal may be younger than a second.
    lab.wait_until(lambda: _has_all_changes_since(busy, "-1s"), "a second without changes")
    reason = busy.refused("gantry", "events", "--from", "3")
    assert "the events after serial 2 are not kept any more: the journal begins with serial " in reason
    assert "read the present state" in reason
    lab.wait_until(lambda: _tells_all(busy), "events from the begin of the journal")
    busy.add_network("old")
    assert "the records begin at" in busy.refused("gnt-network", "info", "--at", "2020-01-01T00:00", "old")


def test_a_master_that_is_killed_comes_back_and_no_number_is_given_again(busy: lab.Lab) -> None:
    busy.kill_master()
    busy.start_master()
    with busy.luxi() as luxi:
        number = luxi.value("SubmitJob", [DELAY])
        assert isinstance(number, int)
        assert number > JOBS
        assert luxi.finished(number)[0] == "success"
        assert luxi.value("QueryJobs", [1], ["id", "status"]) == [[1, None]]


def test_another_node_takes_over_with_the_past_that_it_has(busy: lab.Lab) -> None:
    busy.stop_master(busy.nodes[0])
    busy.run("gnt-cluster", "master-failover", "--yes-do-it", on=busy.nodes[1])
    busy.leader = 1
    lab.wait_until(lambda: _tells_all(busy), "events from the begin of the journal")
    busy.verified()
