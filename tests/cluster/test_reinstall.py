"""Reinstalling, renaming and batch creation of instances, with real daemons and real OS scripts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab, test_backup

NIC = test_backup.NIC


@pytest.fixture(scope="module")
def pair() -> Iterator[lab.Lab]:
    with lab.lab() as two_nodes:
        two_nodes.init()
        two_nodes.add_node()
        two_nodes.add_network()
        for node in two_nodes.nodes:
            test_backup.define(node, "scripted", test_backup.SCRIPTED)
        yield two_nodes


def test_a_system_is_installed_again_and_another_with_its_parameters(pair: lab.Lab) -> None:
    (disk,) = test_backup.add(pair, "vm1", NIC)
    disk.write_bytes(bytes(8 << 20))
    pair.run("gnt-instance", "reinstall", "-f", "vm1")
    assert "INSTANCE_REINSTALL=1" in disk.with_suffix(".env").read_text()
    pair.run("gnt-instance", "reinstall", "-f", "-o", "scripted+small", "-O", "greeting=hello", "vm1")
    assert disk.read_bytes().startswith(b"installed\n")
    assert pair.rows("gnt-instance", "os", "vm1") == [["scripted+small"]]
    assert "greetin; did you mean greeting?" in pair.refused("gnt-instance", "modify", "-O", "greetin=x", "vm1")
    assert "no manners" in pair.refused("gnt-instance", "modify", "-O", "greeting=rude", "vm1")
    assert "greeting: hello" in pair.run("gnt-instance", "info", "vm1").stdout
    pair.run("gnt-instance", "remove", "-f", "vm1")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-o", "scripte"), "has no OS definition scripte"),
        (("-o", "scripted"), "OS scripted needs a variant"),
        (("-o", "scripted+smal"), "OS scripted has no variant smal; did you mean small?"),
        (("-o", "scripted+small", "-O", "greetin=x"), "greetin; did you mean greeting?"),
        (("-o", "scripted+small", "-O", "greeting=rude"), "OS scripted rejects its parameters: no manners"),
    ],
)
@pytest.mark.parametrize("command", ["add", "reinstall"])
def test_what_does_not_fit_the_system_is_refused_before_anything_is_changed(
    pair: lab.Lab, command: str, options: tuple[str, ...], complaint: str
) -> None:
    if command == "add":
        disk = ("-t", "file", "--disk", "0:size=8m", "-n", "node1", NIC)
        assert complaint in pair.refused("gnt-instance", "add", *disk, *options, "wrong")
        assert ["wrong"] not in pair.rows("gnt-instance", "name")
        return
    if ["vm2"] not in pair.rows("gnt-instance", "name"):
        test_backup.add(pair, "vm2", NIC)
    assert complaint in pair.refused("gnt-instance", "reinstall", "-f", *options, "vm2")
    assert pair.rows("gnt-instance", "os", "vm2") == [["plain"]]


@pytest.mark.promise("cluster-115", "cluster-116", "cluster-118", "cluster-123")
def test_the_scripts_receive_the_instance_its_disks_and_its_nics(pair: lab.Lab) -> None:
    folder = test_backup.define(pair.nodes[0], "telling", test_backup.SCRIPTED)
    (folder / "create").write_text(test_backup.RECORD % "DISK_COUNT")
    disks = ("-t", "file", "--disk", "0:size=8m", "--disk", "1:size=16m,mode=ro", "-n", "node1", "--no-start")
    nic = ("--net", "0:ip0=lan4,ip1=lan6,network=net1")
    pair.run("gnt-instance", "add", "-d", *disks, *nic, "-o", "telling+large", "told.example")
    variables = set((folder / "create.environ.2").read_text().splitlines())
    first, second = test_backup.disk_files(pair.nodes[0], "told.example")
    ((mac, ips),) = pair.rows("gnt-instance", "nic.macs,nic.ips", "told.example")
    assert {
        "OS_API_VERSION=20",
        "INSTANCE_NAME=told.example",
        "HYPERVISOR=fake",
        "DEBUG_LEVEL=1",
        "DISK_COUNT=2",
        f"DISK_0_PATH={first}",
        "DISK_0_ACCESS=rw",
        "DISK_0_ACCESS_LETTER=W",
        "DISK_0_BACKEND_TYPE=file:loop",
        f"DISK_1_PATH={second}",
        "DISK_1_ACCESS=ro",
        "DISK_1_ACCESS_LETTER=R",
        "NIC_COUNT=1",
        f"NIC_0_MAC={mac}",
        f"NIC_0_IP={ips.split('/')[0]}",
    } <= variables
    pair.run("gnt-instance", "remove", "-f", "told.example")


@pytest.mark.promise("cluster-124")
def test_a_system_for_other_hypervisors_is_refused(pair: lab.Lab) -> None:
    test_backup.define(pair.nodes[0], "elsewhere", test_backup.SCRIPTED | {"hypervisors": "kvm\n# fake\n"})
    disk = ("-t", "file", "--disk", "0:size=8m", "-n", "node1", NIC)
    refusal = pair.refused("gnt-instance", "add", *disk, "-o", "elsewhere+small", "wrong")
    assert "OS elsewhere does not support hypervisor fake; supported hypervisors: kvm" in refusal


@pytest.mark.promise("cluster-113", "cluster-119")
def test_a_renamed_instance_has_its_name_everywhere(pair: lab.Lab) -> None:
    test_backup.add(pair, "old.example", "--net", "0:ip0=lan4,network=net1", system="scripted+small")
    before = pair.rows("gnt-instance", "uuid,nic.macs,nic.ips", "old.example")
    assert "already" in pair.refused("gnt-instance", "rename", "old.example", "old.example")
    pair.run("gnt-instance", "rename", "--no-name-check", "--no-ip-check", "old.example", "new.example")
    assert pair.rows("gnt-instance", "uuid,nic.macs,nic.ips", "new.example") == before
    (disk,) = test_backup.disk_files(pair.nodes[0], "new.example")
    assert disk.read_bytes().startswith(b"new.example\n")
    assert not (pair.nodes[0].root / "srv/file-storage/old.example").exists()
    variables = test_backup.environ(pair.nodes[0], "rename", 1)
    assert {"OLD_INSTANCE_NAME=old.example", "INSTANCE_NAME=new.example"} <= variables
    pair.run("gnt-instance", "start", "new.example")
    assert "is running" in pair.refused("gnt-instance", "rename", "new.example", "other.example")
    pair.run("gnt-instance", "remove", "-f", "new.example")


def test_a_rename_script_that_fails_leaves_the_old_name(pair: lab.Lab) -> None:
    broken = test_backup.SCRIPTED | {"rename": "#!/bin/sh\necho cannot do it >&2\nexit 4\n"}
    test_backup.define(pair.nodes[0], "stubborn", broken)
    test_backup.add(pair, "old.example", NIC, system="stubborn+small")
    refusal = pair.refused("gnt-instance", "rename", "old.example", "new.example")
    assert "the rename script of OS stubborn for new.example failed with exit code 4: cannot do it" in refusal
    names = [row[0] for row in pair.rows("gnt-instance", "name")]
    assert "old.example" in names
    assert "new.example" not in names
    (disk,) = test_backup.disk_files(pair.nodes[0], "old.example")
    assert disk.exists()
    pair.run("gnt-instance", "remove", "-f", "old.example")


def test_a_file_describes_many_instances(pair: lab.Lab, tmp_path: Path) -> None:
    common = {"disk_template": "diskless", "hypervisor": "fake", "pnode": "node1", "start": False}
    file = tmp_path / "many.json"
    file.write_text(json.dumps([{"instance_name": f"many{index}", **common} for index in range(3)]))
    pair.run("gnt-instance", "batch-create", file)
    assert [row[0] for row in pair.rows("gnt-instance", "name", "many*")] == ["many0", "many1", "many2"]
    file.write_text(
        json.dumps([{"instance_name": "many3", **common}, {"instance_name": "many4", **common, "pnode": "nowhere"}])
    )
    done = pair.run("gnt-instance", "batch-create", file, check=False)
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert ["many3"] in pair.rows("gnt-instance", "name")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "does not contain a list of instances"),
        ('[{"os_type": "x"}]', "has no instance_name"),
    ],
)
def test_a_file_that_describes_nothing_is_refused(pair: lab.Lab, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "f").write_text(text)
    done = pair.run("gnt-instance", "batch-create", tmp_path / "f", check=False)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_what_is_private_is_not_shown_and_what_is_secret_is_not_stored(pair: lab.Lab) -> None:
    files = test_backup.SCRIPTED | {"parameters.list": "password Root's\ntoken Of the registry\ngreeting Welcome\n"}
    folder = test_backup.define(pair.nodes[0], "quiet", files)
    (folder / "create").write_text(test_backup.RECORD % "DISK_COUNT")
    parameters = (
        "-O",
        "greeting=hi",
        "--os-parameters-private",
        "password=pr1vate",
        "--os-parameters-secret",
        "token=s3cret",
    )
    disk = ("-t", "file", "--disk", "0:size=8m", "-n", "node1", test_backup.NIC)
    pair.run("gnt-instance", "add", *disk, "-o", "quiet+large", *parameters, "quiet.example")
    variables = set((folder / "create.environ.1").read_text().splitlines())
    assert {"OSP_GREETING=hi", "OSP_PASSWORD=pr1vate", "OSP_TOKEN=s3cret"} <= variables
    pair.run("gnt-instance", "modify", "--os-parameters-private", "token=pr1vate-too", "quiet.example")
    (number,) = pair.rows("gnt-job", "id")[-1]
    outputs = [
        pair.run("gnt-instance", "info", "quiet.example").stdout,
        pair.run("gnt-job", "info", number, str(int(number) - 1)).stdout,
        pair.run("gnt-instance", "list", "-o", "osparams,custom_osparams", "quiet.example").stdout,
        pair.run("gantry", "export-config").stdout,
    ]
    for text in outputs:
        assert "(blanked)" in text
        assert "pr1vate" not in text
    stop = ("gnt-instance", "stop", "--timeout", "0", "quiet.example")
    pair.run(*stop)
    refused = pair.refused("gnt-instance", "reinstall", "-f", "--os-parameters-secret", "token=x", "quiet.example")
    assert "token of the operating system is both private and secret" in refused
    pair.run("gnt-instance", "remove", "-f", "quiet.example")
    stored = [path for node in pair.nodes for path in lab.files(node.root) if path.is_file() and path.parent != folder]
    assert not [path for path in stored if b"s3cret" in _content(path)]


def test_a_script_that_hangs_is_canceled_and_nothing_is_left(pair: lab.Lab) -> None:
    (node, *_) = pair.nodes
    begun = node.root / "srv/os/hangs/begun"
    create = "#!/bin/sh\nsleep 600 & echo $! > begun.new; mv begun.new begun; wait\n"
    test_backup.define(node, "hangs", {**lab.OS_FILES, "create": create})
    pair.run("gnt-instance", "add", "--submit", *lab.instance_arguments("-o", "hangs"), "stuck")
    test_backup.canceled(pair, begun)
    assert ["stuck"] not in pair.rows("gnt-instance", "name")
    assert not (node.root / "srv/file-storage/stuck").exists()


def _content(path: Path) -> bytes:
    """Return a file's content; empty if the file was renamed meanwhile."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
