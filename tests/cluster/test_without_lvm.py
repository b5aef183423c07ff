"""A cluster on machines without LVM: none of its daemons and commands runs a program of LVM, or misses one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

MACHINE = '''"""Every Python program of the lab loads this module: a machine without some programs."""
import os, sys

MISSING = ("lvm", "lvmconfig", "pvs", "pvcreate", "pvchange", "vgs", "vgcreate", "vgreduce", "lvs", "lvcreate",
           "lvremove", "lvextend", "lvresize", "lvchange", "lvrename", "dmsetup", "drbdadm", "drbdsetup")

def refuse(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        program = os.fsdecode(arguments[0] or arguments[1][0])
        if os.path.basename(program) in MISSING:
            with open({notes!r}, "a") as file:
                print(program, *arguments[1], file=file)
            raise FileNotFoundError(2, "No such file or directory", program)

sys.addaudithook(refuse)
'''


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that has the calls of missing programs, of all programs that start from now on."""
    file = tmp_path / "notes"
    file.touch()
    (tmp_path / "sitecustomize.py").write_text(MACHINE.format(notes=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return file


@pytest.fixture
def bare(notes: Path) -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        yield cluster_lab


@pytest.mark.slow
@pytest.mark.promise("cluster-103")
def test_a_cluster_lives_without_lvm(bare: lab.Lab, notes: Path) -> None:
    name = "files.example"
    bare.run("gnt-instance", "add", "-t", "file", "--no-nics", "-o", "plain", "-n", "node1", "-s", "8m", name)
    bare.run("gnt-instance", "modify", "--disk", "add:size=4m", name)
    bare.run("gnt-instance", "grow-disk", name, "0", "4m")
    bare.run("gnt-instance", "reboot", "-t", "hard", name)
    assert bare.rows("gnt-instance", "status,disk.sizes", name) == [["running", "12,4"]]
    bare.run("gnt-node", "list-storage")
    bare.run("gnt-cluster", "verify-disks")
    assert "ERROR" not in bare.verified()
    bare.run("gnt-instance", "remove", "-f", name)
    assert notes.read_text() == ""


def test_the_stand_in_for_such_a_machine_hides_lvm(bare: lab.Lab, notes: Path) -> None:
    """A use of a volume group fails and is noted, so the test above would notice one."""
    bare.run("gnt-cluster", "modify", "--enabled-disk-templates", "file,plain", "--vg-name", "xenvg")
    add = ("gnt-instance", "add", "-t", "plain", "--no-install", "--no-nics", "-n", "node1", "-s", "8m", "lvm.example")
    assert "lvm" in bare.refused(*add).lower()
    assert notes.read_text()
