"""Scripts of an OS definition whose node daemon is killed while they write to a disk."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.cluster import lab

CREATE = """#!/bin/sh
setsid sh -c 'while :; do echo x >> "$DISK_0_PATH.background"; sleep 0.01; done' &
while :; do echo x >> "$DISK_0_PATH.foreground"; sleep 0.01; done
"""


@pytest.mark.parametrize("killed", [True, False])
def test_a_script_does_not_write_after_the_next_start_of_its_daemon(killed: bool) -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        node = cluster_lab.nodes[1]
        (node.root / "srv/os/plain/create").write_text(CREATE)
        add = [
            "gnt-instance",
            "add",
            "-t",
            "file",
            "-s",
            "10M",
            "-o",
            "plain",
            "--no-nics",
            "-n",
            node.name,
            "vm.example",
        ]
        command = subprocess.Popen(
            [lab.BIN / add[0], *add[1:]],
            env={"GANTRY_ROOT": str(cluster_lab.master), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            lab.wait_until(lambda: len(_files(node)) == 2, "both writers")
            assert _grow(node) == {"background", "foreground"}
            assert node.daemon is not None
            if killed:
                node.daemon.kill()
                node.daemon.wait(lab.TIMEOUT)
                assert _grow(node) == {"background", "foreground"}
            else:
                node.stop()
            node.start()
            assert _grow(node) == set()
            assert command.wait(lab.TIMEOUT) == 1
        finally:
            command.kill()
            command.wait()


def _files(node: lab.Node) -> list[Path]:
    # Other than Path.rglob, os.walk ignores folders that the daemon removes meanwhile.
    paths = [Path(folder, name) for folder, _, names in os.walk(node.root) for name in names]
    return [path for word in (".background", ".foreground") for path in paths if path.suffix == word]


def _grow(node: lab.Node) -> set[str]:
    """Return the kinds of files that still grow."""
    before = {path: path.stat().st_size for path in _files(node)}
    time.sleep(0.3)
    return {path.suffix[1:] for path, size in before.items() if path.exists() and path.stat().st_size > size}
