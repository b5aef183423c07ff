"""Disks of instances through the real commands: files on a node, added, grown, made read-only, removed, refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

from gantry.runtime import paths

NAME = "disks.example"


@pytest.fixture
def cluster(shared: lab.Lab) -> Iterator[lab.Lab]:
    shared.run("gnt-cluster", "modify", "--enabled-disk-templates", "file,diskless,sharedfile")
    shared.run(
        "gnt-instance", "add", "-t", "file", "--no-install", "--no-nics", "-n", "node1",
        "--disk", "0:size=8m,name=root", "--disk", "1:size=4m,access=r", NAME,
    )  # fmt: skip
    yield shared
    shared.run("gnt-instance", "remove", "-f", NAME)


def files(cluster: lab.Lab) -> dict[str, int]:
    """Return the sizes in MiB of the files of the instance, by path."""
    folder = paths.Paths.below(str(cluster.master)).file_storage
    return {str(path): path.stat().st_size >> 20 for path in sorted(Path(folder, NAME).glob("*"))}


def sizes(cluster: lab.Lab) -> str:
    return cluster.rows("gnt-instance", "disk.sizes", NAME)[0][0]


@pytest.mark.promise("cluster-102", "cluster-103", "cluster-111", "cluster-137", "cluster-138", "cluster-143")
def test_disks_come_grow_and_go_with_their_files(cluster: lab.Lab) -> None:
    assert sorted(files(cluster).values()) == [4, 8]
    cluster.run("gnt-instance", "modify", "--disk", "add:size=12m", NAME)
    cluster.run("gnt-instance", "grow-disk", NAME, "0", "8m")
    assert sizes(cluster) == "16,4,12"
    assert sorted(files(cluster).values()) == [4, 12, 16]
    cluster.run("gnt-instance", "modify", "--disk", "remove", NAME)
    assert sorted(files(cluster).values()) == [4, 16]


def test_a_lost_disk_is_made_anew(cluster: lab.Lab) -> None:
    lost = next(path for path, size in files(cluster).items() if size == 8)
    Path(lost).unlink()
    assert "disk 1 of instance disks.example is there" in cluster.refused("gnt-instance", "recreate-disks", NAME)
    cluster.run("gnt-instance", "recreate-disks", "--disk", "0", NAME)
    assert sorted(files(cluster).values()) == [4, 8]
    assert lost in files(cluster)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("grow-disk", NAME, "7", "8m"), "has no disk 7"),
        (("grow-disk", "--absolute", NAME, "0", "4m"), "it cannot become 4 MiB"),
        (("modify", "--disk", "7:remove", NAME), "the instance has no disk 7"),
        (("modify", "--disk", "0:modify,szie=3", NAME), "unknown szie"),
        (("replace-disks", "-a", NAME), "has no mirrored disks"),
        (("replace-disks", NAME), "give one of -p, -s, -a, -n NODE and -I ALLOCATOR"),
        (("recreate-disks", "--disk", "0", NAME), "disk 0 of instance disks.example is there"),
        (("add", "-t", "plian", "--disk", "0:size=1g", "other.example"), "did you mean plain?"),
        (("add", "-t", "file", "--disk", "0:size=1g,vg=x", "--no-install", "other.example"), "have no vg"),
    ],
)
def test_what_is_refused_changes_nothing(cluster: lab.Lab, words: tuple[str, ...], said: str) -> None:
    before = files(cluster), sizes(cluster)
    assert said in " ".join(cluster.refused("gnt-instance", *words).split())
    assert (files(cluster), sizes(cluster)) == before
