"""Exports and imports, with real daemons, real OS scripts and real files; the guests are fake."""

import configparser
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

RECORD = '#!/bin/sh\nset -eu\ntr "\\0" "\\n" < /proc/$$/environ > "$0.environ.$%s"\n'
SCRIPTED = {
    "ganeti_api_version": "15\n20\n",
    "variants.list": "large\nsmall\n",
    "parameters.list": "greeting What it says\n",
    "hypervisors": "fake\n",
    "create": '#!/bin/sh\necho installed | dd of="$DISK_0_PATH" conv=notrunc status=none\n',
    "export": (RECORD % "EXPORT_INDEX") + 'echo exporting $EXPORT_INDEX >&2\necho "header $EXPORT_INDEX"\n'
    'head -c 64 "$EXPORT_DEVICE"\n',
    "import": (RECORD % "IMPORT_INDEX") + 'read word index\n[ "$index" = "$IMPORT_INDEX" ]\n'
    'dd of="$IMPORT_DEVICE" conv=notrunc status=none\n',
    "rename": (RECORD % "DISK_COUNT") + 'echo "$INSTANCE_NAME" | dd of="$DISK_0_PATH" conv=notrunc status=none\n',
    "verify": '#!/bin/sh\n[ "$1" = parameters ]\n[ "${OSP_GREETING-}" != rude ] || { echo no manners >&2; exit 1; }\n',
}
NIC = "--no-nics"
_numbers = itertools.count(1)


def define(node: lab.Node, name: str, files: dict[str, str]) -> Path:
    folder = node.root / "srv/os" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text)
        (folder / file).chmod(0o755 if text.startswith("#!") else 0o644)
    return folder


@pytest.fixture(scope="module")
def pair() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        cluster_lab.add_network()
        for node in cluster_lab.nodes:
            define(node, "scripted", SCRIPTED)
        yield cluster_lab


@pytest.fixture
def name(pair: lab.Lab) -> Iterator[str]:
    """The name of an instance; its remains are removed afterwards."""
    vm = f"vm{next(_numbers)}.example"
    yield vm
    for owner in (vm, f"new-{vm}"):
        pair.run("gnt-instance", "remove", "-f", "--shutdown-timeout", "0", owner, check=False)
        pair.run("gnt-backup", "remove", owner, check=False)
    assert leftovers(pair, vm) == []


def leftovers(pair: lab.Lab, name: str) -> list[str]:
    folders = [node.root / folder for node in pair.nodes for folder in ("lib/export", "srv/file-storage")]
    paths = [path for folder in folders if folder.exists() for path in folder.glob(f"*{name}*/*-*-*-*-*")]
    return [str(path) for path in paths if path.suffix == ""]


def add(pair: lab.Lab, name: str, *more: object, system: str = "plain", disks: int = 1) -> list[Path]:
    sizes = [word for index in range(disks) for word in ("--disk", f"{index}:size={8 * (index + 1)}m")]
    pair.run("gnt-instance", "add", "-t", "file", *sizes, "-o", system, "-n", "node1", "--no-start", *more, name)
    return disk_files(pair.nodes[0], name)


def disk_files(node: lab.Node, name: str) -> list[Path]:
    folder = node.root / "srv/file-storage" / name
    paths = [path for path in folder.glob("*-*-*-*-*") if path.suffix == ""] if folder.exists() else []
    return sorted(paths, key=lambda path: path.stat().st_size)


def environ(node: lab.Node, script: str, index: int = 0) -> set[str]:
    return set((node.root / f"srv/os/scripted/{script}.environ.{index}").read_text().splitlines())


@pytest.mark.promise("cluster-112", "cluster-122", "cluster-125")
@pytest.mark.parametrize("compress", ["none", *(pytest.param(way, marks=pytest.mark.slow) for way in ("gzip", "zstd"))])
def test_disks_come_back_on_another_node_as_they_were(pair: lab.Lab, name: str, compress: str) -> None:
    nic = "0:ip0=lan4,ip1=lan6,network=net1"
    disks = add(pair, name, "--net", nic, "-B", "memory=64", "--tags", "red,blue", disks=2)
    for disk in disks:
        with disk.open("r+b") as file:
            file.write(os.urandom(1 << 20))
            file.seek(5 << 20)
            file.write(b"in the middle of nothing")
    contents = [disk.read_bytes() for disk in disks]
    fields = "hypervisor,os,disk_template,disk.sizes,nic.macs,nic.ips,be/maxmem,tags"
    before = pair.rows("gnt-instance", fields, name)
    pair.run("gnt-backup", "export", "-n", "node2", "--compress", compress, name)
    assert ["node2", name] in pair.rows("gnt-backup", "node,export")
    dumps = list((pair.nodes[1].root / "lib/export" / name).glob("*-*-*-*-*"))
    assert len(dumps) == 2
    if compress != "none":
        assert sum(dump.stat().st_size for dump in dumps) < 3 << 20
    pair.run("gnt-instance", "remove", "-f", name)
    pair.run("gnt-backup", "import", "-n", "node2", "--no-start", name)
    assert pair.rows("gnt-instance", fields, name) == before
    assert pair.rows("gnt-instance", "pnode", name) == [["node2"]]
    assert [disk.read_bytes() for disk in disk_files(pair.nodes[1], name)] == contents


def test_the_description_is_what_other_tools_read(pair: lab.Lab, name: str) -> None:
    (disk,) = add(pair, name, NIC, "-O", "greeting=hello there", system="scripted+large")
    pair.run("gnt-backup", "export", "-n", "node1", "--compress", "gzip", name)
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(pair.nodes[0].root / "lib/export" / name / "config.ini")
    assert dict(parser["export"]) | {"timestamp": ""} == {
        "version": "0",
        "timestamp": "",
        "source": "node1",
        "os": "scripted+large",
        "compression": "gzip",
        "format": "script",
    }
    vm = parser["instance"]
    assert (vm["name"], vm["disk_count"], vm["disk0_dump"], vm["disk0_size"]) == (name, "1", disk.name, "8")
    assert len(vm["disk0_sha256"]) == 64
    assert dict(parser["os"]) == {"greeting": "hello there"}


@pytest.mark.promise("cluster-113", "cluster-119", "cluster-120", "cluster-121")
def test_an_os_exports_and_imports_each_disk_by_its_scripts(pair: lab.Lab, name: str) -> None:
    disks = add(pair, name, NIC, system="scripted+large", disks=2)
    disks[1].write_bytes(b"second".ljust(16 << 20, b"\0"))
    pair.run("gnt-backup", "export", "-n", "node2", name)
    dump = pair.nodes[1].root / "lib/export" / name / disks[1].name
    assert dump.read_bytes() == b"header 1\n" + b"second".ljust(64, b"\0")
    for index, disk in enumerate(disks):
        variables = environ(pair.nodes[0], "export", index)
        assert {f"EXPORT_DEVICE={disk}", f"EXPORT_INDEX={index}", f"INSTANCE_NAME={name}", "DISK_COUNT=2"} <= variables
    logs = [path.read_text() for path in (pair.nodes[0].root / "log/os").glob(f"export-*{name}*")]
    assert any("exporting" in text for text in logs)
    pair.run("gnt-instance", "remove", "-f", name)
    pair.run("gnt-backup", "import", "-n", "node2", "--no-start", name)
    first, second = disk_files(pair.nodes[1], name)
    assert (first.read_bytes()[:10], second.read_bytes()[:7]) == (b"installed\n", b"second\0")
    variables = environ(pair.nodes[1], "import", 1)
    assert {f"IMPORT_DEVICE={second}", "IMPORT_INDEX=1", "OS_API_VERSION=20", "OS_VARIANT=large"} <= variables


def test_under_another_name_an_instance_has_new_addresses_and_its_rename_script_runs(pair: lab.Lab, name: str) -> None:
    add(pair, name, "--net", "0:ip0=lan4,network=net1", system="scripted+large")
    pair.run("gnt-backup", "export", "-n", "node2", name)
    pair.run("gnt-backup", "import", "-n", "node2", "--src-dir", name, "--no-start", f"new-{name}")
    ((mac, ips),) = pair.rows("gnt-instance", "nic.macs,nic.ips", f"new-{name}")
    assert [[mac, ips]] != pair.rows("gnt-instance", "nic.macs,nic.ips", name)
    assert f"OLD_INSTANCE_NAME={name}" in environ(pair.nodes[1], "rename", 1)
    assert disk_files(pair.nodes[1], f"new-{name}")[0].read_bytes().startswith(f"new-{name}\n".encode())


def test_an_instance_that_runs_is_stopped_for_the_copy_and_runs_again(pair: lab.Lab, name: str) -> None:
    add(pair, name, NIC)
    pair.run("gnt-instance", "start", name)
    if "does not support snapshots" in pair.run("gnt-backup", "export", "-n", "node2", name).stdout:
        output = pair.refused("gnt-backup", "export", "-n", "node2", "--noshutdown", name)
        assert "does not support snapshots" in output
    assert pair.rows("gnt-instance", "status", name) == [["running"]]
    done = pair.run("gnt-backup", "export", "-n", "node1", "--remove-instance", "-f", name)
    assert done.returncode == 0
    assert not disk_files(pair.nodes[0], name)
    assert pair.rows("gnt-backup", "node,export").count(["node1", name]) == 1
    assert ["node2", name] not in pair.rows("gnt-backup", "node,export")


def damage(dump: Path) -> None:
    data = bytearray(dump.read_bytes())
    data[len(data) // 2] ^= 1
    dump.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damage, "is damaged: disk 1 ("),
        (Path.unlink, "is missing"),
        (lambda dump: dump.with_name("config.ini").write_text("[export]\nversion = 0\n"), "config.ini cannot be read"),
        (lambda dump: dump.write_bytes(dump.read_bytes()[:-1]), "is damaged: disk 1 ("),
    ],
)
def test_a_damaged_export_is_refused_and_nothing_is_created(
    pair: lab.Lab, name: str, harm: object, message: str
) -> None:
    disks = add(pair, name, NIC, disks=2)
    pair.run("gnt-backup", "export", "-n", "node2", "--compress", "gzip", name)
    pair.run("gnt-instance", "remove", "-f", name)
    assert callable(harm)
    harm(pair.nodes[1].root / "lib/export" / name / disks[1].name)
    answer = pair.refused("gnt-backup", "import", "-n", "node1", name)
    assert f"export {name} on node node2" in answer
    assert message in answer
    assert [name] not in pair.rows("gnt-instance", "name")
    assert not disk_files(pair.nodes[0], name)


@pytest.mark.promise("cluster-112")
def test_an_import_with_fewer_or_smaller_disks_is_refused_and_with_more_it_works(pair: lab.Lab, name: str) -> None:
    add(pair, name, NIC, disks=2)
    pair.run("gnt-backup", "export", "-n", "node2", name)
    pair.run("gnt-instance", "remove", "-f", name)
    few = pair.refused("gnt-backup", "import", "-n", "node1", "--disk", "0:size=8m", name)
    assert "the export has 2 disks, the request only 1" in few
    small = pair.refused("gnt-backup", "import", "-n", "node1", "--disk", "0:size=8m", "--disk", "1:size=4m", name)
    assert "disk 1 had 16 MiB when it was exported, 4 MiB is too small" in small
    sizes = [word for index, size in enumerate((8, 32, 4)) for word in ("--disk", f"{index}:size={size}m")]
    pair.run("gnt-backup", "import", "-n", "node1", "--no-start", *sizes, name)
    assert pair.rows("gnt-instance", "disk.sizes", name) == [["8,32,4"]]


@pytest.mark.promise("cluster-114")
def test_an_os_with_only_one_of_both_scripts_cannot_be_exported_but_everything_else(pair: lab.Lab, name: str) -> None:
    define(
        pair.nodes[0],
        "half",
        {key: SCRIPTED[key] for key in ("ganeti_api_version", "parameters.list", "create", "export")},
    )
    (disk,) = add(pair, name, NIC, system="half")
    output = pair.refused("gnt-backup", "export", "-n", "node2", name)
    assert "OS half has the script export only" in output
    output = pair.refused("gnt-instance", "rename", name, f"new-{name}")
    assert "OS half has no rename script" in output
    disk.write_bytes(bytes(8 << 20))
    pair.run("gnt-instance", "reinstall", "-f", name)
    assert disk.read_bytes().startswith(b"installed")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\necho something; echo the disk is odd >&2; exit 7\n", "failed with exit code 7: the disk is odd"),
        ("#!/bin/sh\nhead -c 40000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo the end >&2; exit 1\n", "the end"),
        ("#!/bin/sh\nkill -9 $$\n", "failed with exit code -9"),
    ],
)
def test_an_export_script_that_fails_leaves_nothing_and_its_output_is_reported(
    pair: lab.Lab, name: str, script: str, message: str
) -> None:
    define(pair.nodes[0], "broken", SCRIPTED | {"export": script, "hypervisors": "fake\n"})
    add(pair, name, NIC, system="broken+large")
    pair.run("gnt-instance", "start", name)
    answer = pair.refused("gnt-backup", "export", "-n", "node2", name)
    assert message in answer
    assert len(answer) < 5000
    assert not (pair.nodes[1].root / "lib/export" / f"{name}.new").exists()
    assert pair.rows("gnt-instance", "status", name) == [["running"]]
    for log in (pair.nodes[0].root / "log/os").glob("export-broken*"):
        assert log.stat().st_size < 2 << 20


def test_an_export_that_is_not_there_is_named(pair: lab.Lab) -> None:
    assert "no node has an export nothing" in pair.refused("gnt-backup", "import", "-n", "node1", "nothing")
    assert "no node has an export nothing" in pair.refused("gnt-backup", "remove", "nothing")
    assert "has no export nothing" in pair.refused(
        "gnt-backup", "import", "-n", "node1", "--src-node", "node2", "nothing"
    )
    assert "Target node must be specified" in pair.refused("gnt-backup", "export", "nothing")


HANGS = "#!/bin/sh\nsleep 600 & echo $! > $0.begun.new; mv $0.begun.new $0.begun; wait\n"


def canceled(pair: lab.Lab, begun: Path) -> None:
    """Cancel the job whose script runs; return when it has, and when that has ended."""
    lab.wait_until(begun.exists, "the script")
    (number,) = (number for number, status in pair.rows("gnt-job", "id,status") if status == "running")
    assert "will be canceled" in pair.run("gnt-job", "cancel", number).stdout
    pair.run("gnt-job", "wait", number, check=False)
    assert pair.rows("gnt-job", "status", number) == [["canceled"]]
    lab.wait_until(lambda: lab.is_gone(int(begun.read_text())), "the end of the script")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["node1", "node2"])
def test_an_export_script_that_hangs_is_canceled_and_nothing_is_left(pair: lab.Lab, name: str, target: str) -> None:
    folder = define(pair.nodes[0], f"export-hangs-{target}", {**SCRIPTED, "export": HANGS})
    add(pair, name, NIC, system=f"{folder.name}+large")
    pair.run("gnt-backup", "export", "--submit", "-n", target, name)
    canceled(pair, folder / "export.begun")
    assert ["node1", name] not in pair.rows("gnt-backup", "node,export")
    assert not any((node.root / f"lib/export/{name}.new").exists() for node in pair.nodes)


@pytest.mark.slow
def test_an_import_script_that_hangs_is_canceled_and_nothing_is_left(pair: lab.Lab, name: str) -> None:
    add(pair, name, NIC, system="scripted+large")
    pair.run("gnt-backup", "export", "-n", "node2", name)
    pair.run("gnt-instance", "remove", "-f", name)
    folder = define(pair.nodes[0], "import-hangs", {**SCRIPTED, "import": HANGS})
    pair.run("gnt-backup", "import", "--submit", "-n", "node1", "-o", "import-hangs+large", "--no-start", name)
    canceled(pair, folder / "import.begun")
    assert [name] not in pair.rows("gnt-instance", "name")
    assert disk_files(pair.nodes[0], name) == []
