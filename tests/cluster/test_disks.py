"""Disks of instances through the real commands: files on a node, added, grown, made read-only, removed, refused."""

import json
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


def files(cluster: lab.Lab, node: str = "node1", name: str = NAME) -> dict[str, int]:
    """Return the sizes in MiB of the files of an instance on a node, by path."""
    root = next(each.root for each in cluster.nodes if each.name == node)
    folder = paths.Paths.below(str(root)).file_storage
    return {str(path): path.stat().st_size >> 20 for path in sorted(Path(folder, name).glob("*"))}


def sizes(cluster: lab.Lab) -> str:
    return cluster.rows("gnt-instance", "disk.sizes", NAME)[0][0]


def modes(cluster: lab.Lab) -> list[str]:
    """Return what the running guest may do with each of its disks."""
    file = cluster.master / "run/instances/fake" / NAME
    return [disk["mode"] for disk in json.loads(file.read_text())["disks"]]


@pytest.mark.promise("cluster-99")
@pytest.mark.parametrize("old", ["remote_raid1", "local_raid1", "md_raid1", "drbd7"])
def test_disk_types_of_the_past_are_gone(shared: lab.Lab, old: str) -> None:
    add = ("gnt-instance", "add", "--no-install", "--no-nics", "-n", "node1", "--disk", "0:size=8m")
    for command in ((*add, "-t", old, NAME), ("gnt-cluster", "modify", "--enabled-disk-templates", f"file,{old}")):
        output = shared.run(*command, check=False)
        assert output.returncode != 0
        assert f"unknown disk template {old}" in output.stderr
    assert NAME not in shared.run("gnt-instance", "list").stdout


@pytest.mark.promise("cluster-139")
def test_a_disk_has_the_image_file_of_its_path(cluster: lab.Lab) -> None:
    root = paths.Paths.below(str(cluster.nodes[0].root)).file_storage
    own, other = f"{root}/{NAME}/own.img", f"{root}/elsewhere/other.img"
    cluster.run("gnt-instance", "modify", "--disk", "add:size=4m,path=own.img", NAME)
    cluster.run("gnt-instance", "modify", "--disk", f"add:size=8m,path={other}", NAME)
    assert [Path(path).stat().st_size >> 20 for path in (own, other)] == [4, 8]
    cluster.run("gnt-instance", "modify", "--disk", "3:remove", "--disk", "2:remove", NAME)
    assert not Path(own).exists()
    assert not Path(other).exists()


@pytest.mark.promise("cluster-102", "cluster-111", "cluster-143")
def test_disks_come_grow_and_go_with_their_files(cluster: lab.Lab) -> None:
    assert sorted(files(cluster).values()) == [4, 8]
    cluster.run("gnt-instance", "modify", "--disk", "add:size=12m", NAME)
    cluster.run("gnt-instance", "grow-disk", NAME, "0", "8m")
    assert sizes(cluster) == "16,4,12"
    assert sorted(files(cluster).values()) == [4, 12, 16]
    cluster.run("gnt-instance", "modify", "--disk", "remove", NAME)
    assert sorted(files(cluster).values()) == [4, 16]


@pytest.mark.promise("cluster-4")
@pytest.mark.parametrize("count", [0, 1, 3, 16])
def test_an_instance_has_as_many_disks_as_are_wanted(cluster: lab.Lab, count: int) -> None:
    words = [word for index in range(count) for word in ("--disk", f"{index}:size={4 * (index % 3 + 1)}m")]
    name = f"with-{count}.example"
    cluster.run(
        "gnt-instance",
        "add",
        "-t",
        "file" if count else "diskless",
        "--no-install",
        "--no-nics",
        "-n",
        "node1",
        *words,
        name,
    )
    ((number, listed),) = cluster.rows("gnt-instance", "disk.count,disk.sizes", name)
    sizes = [4 * (index % 3 + 1) for index in range(count)]
    assert (int(number), [int(size) for size in listed.split(",") if size.isdecimal()]) == (count, sizes)
    assert sorted(files(cluster, name=name).values()) == sorted(sizes)
    if 0 < count < 16:
        cluster.run("gnt-instance", "modify", "--disk", "add:size=4m", "--disk", "add:size=4m", name)
        assert len(files(cluster, name=name)) == count + 2
    elif count:
        assert "the maximum is 16" in cluster.refused("gnt-instance", "modify", "--disk", "add:size=4m", name)
    cluster.run("gnt-instance", "remove", "-f", name)
    assert files(cluster, name=name) == {}


@pytest.mark.promise("cluster-137")
def test_a_size_is_in_mebibytes_or_has_a_unit_and_is_the_default_one_unless_it_is_said(shared: lab.Lab) -> None:
    templates = ("--enabled-disk-templates", "file,diskless,sharedfile")
    shared.run("gnt-cluster", "modify", *templates, "-f", "--defaults", "disksize=1G")
    disks = ("0:size=8", "1:size=12M", "2:size=2G", "3:size=auto", "4:name=default", "5:size=16m", "6:size=1g", "7")
    words = [word for disk in disks for word in ("--disk", disk)]
    try:
        shared.run("gnt-instance", "add", "-t", "file", "--no-install", "--no-nics", "-n", "node1", *words, NAME)
        assert sizes(shared) == "8,12,2048,1024,1024,16,1024,1024"
        shared.run("gnt-cluster", "modify", "-f", "--defaults", "disksize=24")
        for disk in ("add:size=3G", "add:size=20", "add:size=28M", "add:size=auto", "add"):
            shared.run("gnt-instance", "modify", "--disk", disk, NAME)
        # other clients send the text as it is
        change = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": NAME, "disks": [["add", {"size": "1G"}]]}
        with shared.luxi() as luxi:
            assert luxi.finished(luxi.value("SubmitJob", [change]))[0] == "success"
        assert sizes(shared) == "8,12,2048,1024,1024,16,1024,1024,3072,20,28,24,24,1024"
        assert sorted(files(shared).values()) == sorted(map(int, sizes(shared).split(",")))
        for size in ("12X", "G", "-8", "8MM"):
            refusal = shared.run("gnt-instance", "modify", "--disk", f"add:size={size}", NAME, check=False)
            assert refusal.returncode != 0
            assert size in refusal.stderr
    finally:
        shared.run("gnt-instance", "remove", "-f", NAME, check=False)
        shared.run("gnt-cluster", "modify", "-f", "--defaults", "disksize=default")


@pytest.mark.promise("cluster-138")
def test_a_guest_may_write_to_a_disk_unless_its_access_is_r(cluster: lab.Lab) -> None:
    cluster.run("gnt-instance", "start", NAME)
    assert modes(cluster) == ["rw", "ro"]
    cluster.run("gnt-instance", "modify", "--disk", "add:size=4m,access=w", "--disk", "add:size=4m,access=r", NAME)
    cluster.run("gnt-instance", "modify", "--disk", "add:size=4m", NAME)
    cluster.run("gnt-instance", "modify", "--disk", "0:access=r", "--disk", "1:access=w", NAME)
    cluster.run("gnt-instance", "reboot", "-t", "full", NAME)
    assert modes(cluster) == ["ro", "rw", "rw", "ro", "rw"]
    for disk in ("0:modify,access=x", "add:size=4m,access=wr"):
        assert "access" in cluster.refused("gnt-instance", "modify", "--disk", disk, NAME)


@pytest.mark.promise("cluster-135")
def test_disks_and_nics_are_put_on_the_end_and_taken_off_it_and_the_others_keep_their_places(
    cluster: lab.Lab,
) -> None:
    fields = "disk.sizes,disk.uuids,nic.names,nic.uuids"

    def devices() -> list[list[tuple[str, str]]]:
        """Return size and UUID of each disk, name and UUID of each NIC, in order."""
        ((sizes, disks, names, nics),) = cluster.rows("gnt-instance", fields, NAME)
        columns = [[text for text in column.split(",") if text] for column in (sizes, disks, names, nics)]
        return [list(zip(*columns[:2], strict=True)), list(zip(*columns[2:], strict=True))]

    def guest() -> list[list[str]]:
        content = json.loads((cluster.master / "run/instances/fake" / NAME).read_text())
        return [[device["uuid"] for device in content[kind]] for kind in ("disks", "nics")]

    cluster.run("gnt-instance", "start", NAME)
    for size, nic in ((12, "first"), (16, "second")):
        before = devices()
        cluster.run("gnt-instance", "modify", "--disk", f"add:size={size}m", NAME)
        cluster.run("gnt-instance", "modify", "--net", f"add:mode=routed,link=main,name={nic}", NAME)
        assert [[*of_kind[:-1]] for of_kind in devices()] == before
        assert [of_kind[-1][0] for of_kind in devices()] == [str(size), nic]
    before = devices()
    cluster.run("gnt-instance", "modify", "--disk", "remove", "--net", "remove", NAME)
    assert devices() == [of_kind[:-1] for of_kind in before]
    assert guest() == [[uuid for _, uuid in of_kind] for of_kind in devices()]
    # today's clients may also name a place
    cluster.run("gnt-instance", "modify", "--disk", "1:add,size=20m", "--net", "0:add,mode=routed,link=main", NAME)
    cluster.run("gnt-instance", "modify", "--disk", "0:remove", NAME)
    assert [size for size, _ in devices()[0]] == ["20", "4", "12"]


def test_a_disk_goes_from_one_instance_to_another_with_what_is_on_it(cluster: lab.Lab) -> None:
    other = "others-disks.example"
    cluster.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1", "--no-start", other)
    path = next(path for path, size in files(cluster).items() if size == 8)
    Path(path).write_bytes(b"kept".ljust(8 << 20, b"\0"))
    uuid = Path(path).name
    cluster.run("gnt-instance", "modify", "--disk", "0:detach", NAME)
    assert sizes(cluster) == "4"
    assert cluster.rows("gnt-node", "detached_disks", "node1") == [[f"{uuid} (root)"]]
    assert "gnt-instance modify --disk attach:uuid=" in cluster.run("gnt-cluster", "verify", check=False).stdout
    output = cluster.refused("gnt-instance", "modify", "--disk", "attach:name=nobody", other)
    assert "there is no disk nobody without an instance" in output
    cluster.run("gnt-instance", "modify", "--disk", "attach:name=root", other)
    assert cluster.rows("gnt-instance", "disk_template,disk.sizes,disk.uuids", other) == [["file", "8", uuid]]
    assert cluster.rows("gnt-node", "name,detached_disks", "node1") == [["node1", ""]]
    moved = Path(path).parent.parent / other / uuid
    assert moved.read_bytes().startswith(b"kept")
    assert list(files(cluster).values()) == [4]
    cluster.run("gnt-instance", "remove", "-f", other)
    assert not moved.exists()


def test_disks_become_others_with_what_is_on_them(cluster: lab.Lab) -> None:
    shared = Path(paths.Paths.below(str(cluster.nodes[0].root)).shared_file_storage)
    old = files(cluster)
    for path, size in old.items():
        Path(path).write_bytes(bytes([size]) * 4096 + bytes((size << 20) - 4096))
    assert "mount the shared storage there" in cluster.refused("gnt-instance", "modify", "-t", "sharedfile", NAME)
    assert files(cluster) == old
    shared.mkdir(parents=True)
    output = cluster.run("gnt-instance", "modify", "-t", "sharedfile", NAME).stdout
    assert " - disk_template -> sharedfile" in output
    assert cluster.rows("gnt-instance", "disk_template,disk.sizes,disk.name/0", NAME) == [["sharedfile", "8,4", "root"]]
    assert files(cluster) == {}
    new = sorted((path.stat().st_size >> 20, path.read_bytes()[:4097]) for path in shared.glob(f"{NAME}/*"))
    assert new == [(size, bytes([size]) * 4096 + b"\0") for size in (4, 8)]
    cluster.run("gnt-instance", "modify", "-t", "file", NAME)
    assert (sorted(files(cluster).values()), [*shared.iterdir()]) == ([4, 8], [])
    assert "has disks, so it cannot become diskless" in cluster.refused(
        "gnt-instance", "modify", "-t", "diskless", NAME
    )


def test_a_lost_disk_is_recreated(cluster: lab.Lab) -> None:
    lost = next(path for path, size in files(cluster).items() if size == 8)
    Path(lost).unlink()
    assert "only lost disks can be recreated" in cluster.refused("gnt-instance", "recreate-disks", NAME)
    cluster.run("gnt-instance", "recreate-disks", "--disk", "0:size=12m", NAME)
    assert sorted(files(cluster).values()) == [4, 12]
    assert (lost in files(cluster), sizes(cluster)) == (True, "12,4")
    for path in files(cluster):
        Path(path).unlink()
    cluster.run("gnt-instance", "recreate-disks", "-n", "node2", NAME)
    assert cluster.rows("gnt-instance", "pnode", NAME) == [["node2"]]
    assert sorted(files(cluster, "node2").values()) == [4, 12]
    for path in files(cluster, "node2"):
        Path(path).unlink()
    cluster.run("gnt-instance", "recreate-disks", "-I", ".", NAME)
    ((node,),) = cluster.rows("gnt-instance", "pnode", NAME)
    assert sorted(files(cluster, node).values()) == [4, 12]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("grow-disk", NAME, "7", "8m"), "has no disk 7"),
        (("grow-disk", "--absolute", NAME, "0", "4m"), "it cannot shrink to 4 MiB"),
        (("modify", "--disk", "7:remove", NAME), "the instance has no disk 7"),
        (("modify", "--disk", "0:modify,szie=3", NAME), "unknown key szie"),
        (("modify", "--disk", "0:modify,mode=rx", NAME), "valid values: r, ro, rw, w"),
        (("modify", "--disk", "add:size=900t", NAME), "needs 943718400 MiB of disk space"),
        (("replace-disks", "-a", NAME), "has no mirrored disks"),
        (("replace-disks", NAME), "give exactly one of -p, -s, -a, -n NODE and -I ALLOCATOR"),
        (("recreate-disks", "--disk", "0", NAME), "only lost disks can be recreated"),
        (("add", "-t", "plian", "--disk", "0:size=1g", "other.example"), "did you mean plain?"),
        (("add", "-t", "file", "--disk", "0:size=1g,vg=x", "--no-install", "other.example"), "have no parameter vg"),
    ],
)
def test_what_is_refused_changes_nothing(cluster: lab.Lab, words: tuple[str, ...], message: str) -> None:
    before = files(cluster), sizes(cluster)
    assert message in " ".join(cluster.refused("gnt-instance", *words).split())
    assert (files(cluster), sizes(cluster)) == before
