"""Scripts of an OS definition whose node daemon is killed while they write to a disk."""

import contextlib
import subprocess
from pathlib import Path

import pytest
from tests.cluster import lab

CREATE = """#!/bin/sh
cd {folder}
setsid sh -c 'echo $$ > background; while :; do echo x >> "$DISK_0_PATH.background"; sleep 0.01; done' &
echo $$ > foreground
while :; do echo x >> "$DISK_0_PATH.foreground"; sleep 0.01; done
"""
KINDS = {"background", "foreground"}


@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.slow
def test_a_script_does_not_write_after_the_next_start_of_its_daemon(killed: bool, tmp_path: Path) -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        node = cluster_lab.nodes[1]
        (node.root / "srv/os/plain/create").write_text(CREATE.format(folder=tmp_path))
        command = _create(cluster_lab, node)
        try:
            lab.wait_until(lambda: _sizes(node).keys() == KINDS, "both writers")
            writers = {int((tmp_path / kind).read_text()) for kind in KINDS}
            assert len(writers) == 2
            assert node.daemon is not None
            if killed:
                node.daemon.kill()
                node.daemon.wait(lab.TIMEOUT)
                before = _sizes(node)
                lab.wait_until(lambda: _grown(node, before) == KINDS, "writers without a daemon")
            else:
                node.stop()
            node.start()
            assert all(map(lab.is_gone, writers))
            before = _sizes(node)
            assert command.wait(lab.TIMEOUT) == 1
            assert _grown(node, before) == set()
        finally:
            command.kill()
            command.wait()


@pytest.mark.slow
def test_a_script_of_a_former_masters_job_does_not_write_after_the_next_master_calls_its_node(tmp_path: Path) -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init("--candidate-pool-size", "3")
        nodes = [cluster_lab.nodes[0], *(cluster_lab.add_node() for _ in range(4))]
        node = nodes[3]
        (node.root / "srv/os/plain/create").write_text(CREATE.format(folder=tmp_path).replace("setsid ", ""))
        command = _create(cluster_lab, node)
        try:
            lab.wait_until(lambda: _sizes(node).keys() == KINDS, "both writers")
            writers = {int((tmp_path / kind).read_text()) for kind in KINDS}
            cluster_lab.kill_master()
            before = _sizes(node)
            lab.wait_until(lambda: _grown(node, before) == KINDS, "writers without a master")
            cluster_lab.run("gnt-cluster", "master-failover", "--yes-do-it", on=nodes[1])
            cluster_lab.leader = 1
            cluster_lab.run("gnt-instance", "remove", "-f", "--shutdown-timeout", "0", "vm.example")
            assert all(map(lab.is_gone, writers))
        finally:
            command.kill()
            command.wait()


@pytest.mark.slow
def test_a_script_of_a_killed_job_has_ended_when_the_job_has(tmp_path: Path) -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        node = cluster_lab.add_node()
        (node.root / "srv/os/plain/create").write_text(CREATE.format(folder=tmp_path).replace("setsid ", ""))
        command = _create(cluster_lab, node)
        try:
            lab.wait_until(lambda: _sizes(node).keys() == KINDS, "both writers")
            writers = {int((tmp_path / kind).read_text()) for kind in KINDS}
            ((number,),) = cluster_lab.rows("gnt-job", "id", "--running")
            cluster_lab.run("gnt-job", "cancel", "--kill", "--yes-do-it", number)
            assert command.wait(lab.TIMEOUT) == 1
            assert all(map(lab.is_gone, writers))
            assert cluster_lab.rows("gnt-instance", "name") == []
        finally:
            command.kill()
            command.wait()


def _create(cluster_lab: lab.Lab, node: lab.Node) -> subprocess.Popen[bytes]:
    """Begin to create an instance on a node."""
    add = ("gnt-instance", "add", "-t", "file", "-s", "10M", "-o", "plain", "--no-nics", "-n", node.name, "vm.example")
    return subprocess.Popen(
        [lab.BIN / add[0], *add[1:]],
        env={"GANTRY_ROOT": str(cluster_lab.master), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _sizes(node: lab.Node) -> dict[str, int]:
    """Return the sizes of the files that the script writes, without those that the daemon removes meanwhile."""
    sizes = {}
    for path in lab.files(node.root):
        if path.suffix[1:] in KINDS:
            with contextlib.suppress(FileNotFoundError):
                sizes[path.suffix[1:]] = path.stat().st_size
    return sizes


def _grown(node: lab.Node, before: dict[str, int]) -> set[str]:
    """Return the kinds of files that have grown."""
    return {kind for kind, size in _sizes(node).items() if size > before[kind]}
