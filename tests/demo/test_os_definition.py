"""The demonstration's OS definition, run by hand: what its scripts write, and what they refuse.

No virtual machine: debugfs shows what is in the file system that ``create`` wrote.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

DEFINITION = pathlib.Path(__file__).parents[2] / "os" / "busybox"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
MISSING = [tool for tool in ("mkfs.ext4", "debugfs", "busybox") if not shutil.which(tool, path=PATH)]
MIB = 1024 * 1024

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

Environment = dict[str, str]


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(16 * MIB)
    return path


@pytest.fixture
def environment(disk: pathlib.Path) -> Environment:
    return {
        "PATH": PATH,
        "OS_API_VERSION": "20",
        "INSTANCE_NAME": "web1.example",
        "DISK_COUNT": "1",
        "DISK_0_PATH": str(disk),
        "DISK_0_SIZE": "16",
        "NIC_COUNT": "1",
        "NIC_0_MAC": "AA:00:00:12:34:56",
        "NIC_0_IP": "192.0.2.10",
        "NIC_0_IP_COUNT": "2",
        "NIC_0_IP_0": "192.0.2.10",
        "NIC_0_NETWORK_SUBNET_0": "192.0.2.0/24",
        "NIC_0_NETWORK_GATEWAY_0": "192.0.2.1",
        "NIC_0_IP_1": "2001:db8::1:0",
        "NIC_0_NETWORK_SUBNET_1": "2001:db8::/64",
        "NIC_0_NETWORK_GATEWAY_1": "",
    }


def run(
    script: str, environment: Environment, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [DEFINITION / script, *arguments], env=environment, input=stdin, capture_output=True, check=False
    )


def succeed(
    script: str, environment: Environment, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    done = run(script, environment, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done


def inspect(disk: pathlib.Path, command: str) -> str:
    debugfs = shutil.which("debugfs", path=PATH)
    assert debugfs
    done = subprocess.run([debugfs, "-R", command, disk], capture_output=True, check=True, text=True)
    return done.stdout


def content(disk: pathlib.Path, path: str) -> str:
    return inspect(disk, f"cat {path}")


def test_the_definition_has_every_part_of_api_version_20() -> None:
    assert "20" in (DEFINITION / "ganeti_api_version").read_text().split()
    for script in ("create", "export", "import", "rename", "verify"):
        assert os.access(DEFINITION / script, os.X_OK), script
    assert (DEFINITION / "parameters.list").is_file()
    variants = (DEFINITION / "variants.list").read_text().splitlines()
    assert [line for line in variants if not line.startswith("#")] == []


def test_create_writes_the_name_the_addresses_and_an_init(environment: Environment, disk: pathlib.Path) -> None:
    done = succeed("create", environment)
    assert done.stdout == b""
    assert b"web1.example" in done.stderr
    assert content(disk, "/etc/hostname") == "web1.example\n"
    assert content(disk, "/etc/addresses").splitlines() == [
        "aa:00:00:12:34:56 192.0.2.10/24 192.0.2.1",
        "aa:00:00:12:34:56 2001:db8::1:0/64 -",
    ]
    assert "/sbin/power-button" in content(disk, "/etc/inittab")
    assert content(disk, "/usr/bin/start").startswith("#!/bin/sh")
    assert 'Fast link dest: "busybox"' in inspect(disk, "stat /usr/bin/init")
    assert disk.stat().st_size == 16 * MIB


def test_create_understands_the_environment_of_a_single_address(environment: Environment, disk: pathlib.Path) -> None:
    single = {
        name: value for name, value in environment.items() if not name.startswith(("NIC_0_IP_", "NIC_0_NETWORK_"))
    }
    single |= {"NIC_0_NETWORK_SUBNET": "192.0.2.0/25", "NIC_0_NETWORK_GATEWAY": "192.0.2.1"}
    succeed("create", single)
    assert content(disk, "/etc/addresses") == "aa:00:00:12:34:56 192.0.2.10/25 192.0.2.1\n"


def test_create_keeps_several_nics_apart_by_their_mac_addresses(environment: Environment, disk: pathlib.Path) -> None:
    second = {"NIC_1_MAC": "aa:00:00:00:00:02", "NIC_1_IP": "2001:db8::7", "NIC_2_MAC": "aa:00:00:00:00:03"}
    succeed("create", environment | second | {"NIC_COUNT": "3"})
    assert content(disk, "/etc/addresses").splitlines()[2:] == ["aa:00:00:00:00:02 2001:db8::7/128 -"]


def test_create_without_a_nic_installs_a_guest_without_addresses(environment: Environment, disk: pathlib.Path) -> None:
    succeed("create", environment | {"NIC_COUNT": "0"})
    assert content(disk, "/etc/hostname") == "web1.example\n"
    assert content(disk, "/etc/addresses") == ""


def test_create_replaces_what_was_on_the_disk(environment: Environment, disk: pathlib.Path) -> None:
    succeed("create", environment)
    succeed("create", environment | {"INSTANCE_NAME": "web2.example", "INSTANCE_REINSTALL": "1"})
    assert content(disk, "/etc/hostname") == "web2.example\n"


def test_create_fits_on_the_smallest_disk_that_it_accepts(environment: Environment, disk: pathlib.Path) -> None:
    os.truncate(disk, 8 * MIB)
    succeed("create", environment | {"DISK_0_SIZE": "8"})
    assert content(disk, "/etc/hostname") == "web1.example\n"


@pytest.mark.parametrize(
    "name",
    ["INSTANCE_NAME", "DISK_COUNT", "DISK_0_PATH", "DISK_0_SIZE", "NIC_COUNT", "NIC_0_MAC", "NIC_0_IP_1"],
)
def test_create_names_the_variable_that_is_missing(environment: Environment, disk: pathlib.Path, name: str) -> None:
    del environment[name]
    done = run("create", environment)
    assert done.returncode == 1
    assert name in done.stderr.decode().splitlines()[-1]
    assert not any(disk.read_bytes())


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("DISK_COUNT", "0", "no disk"),
        ("DISK_0_SIZE", "7", "at least 8 MiB"),
        ("DISK_0_SIZE", "-1", "not a number"),
        ("DISK_0_PATH", "/nonexistent/disk", "no file and no block device"),
        ("INSTANCE_NAME", "$(touch /tmp/x)", "not a host name"),
        ("INSTANCE_NAME", "a\nb", "not a host name"),
        ("NIC_COUNT", "a[$(id)]", "not a number"),
        ("NIC_0_MAC", "aa:00", "not a MAC address"),
        ("NIC_0_IP_0", "192.0.2.10; reboot", "not an address"),
        ("NIC_0_NETWORK_SUBNET_0", "192.0.2.0", "not a subnet"),
        ("NIC_0_NETWORK_GATEWAY_0", "none at all", "not an address"),
    ],
)
def test_create_refuses_bad_input_and_leaves_the_disk_alone(
    environment: Environment, disk: pathlib.Path, name: str, value: str, complaint: str
) -> None:
    done = run("create", environment | {name: value})
    assert done.returncode == 1
    assert complaint in done.stderr.decode().splitlines()[-1]
    assert done.stdout == b""
    assert not any(disk.read_bytes())


def test_debug_level_shows_each_command(environment: Environment) -> None:
    quiet = succeed("verify", environment, "parameters")
    traced = succeed("verify", environment | {"DEBUG_LEVEL": "1"}, "parameters")
    assert quiet.stderr == b""
    assert b"+ " in traced.stderr


def test_what_export_writes_import_restores(
    environment: Environment, disk: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    succeed("create", environment)
    dump = succeed("export", environment | {"EXPORT_DEVICE": str(disk), "EXPORT_INDEX": "0"}).stdout
    assert dump == disk.read_bytes()
    other = tmp_path / "other"
    other.write_bytes(b"\xff" * len(dump))
    succeed("import", environment | {"IMPORT_DEVICE": str(other), "IMPORT_INDEX": "0"}, stdin=dump)
    assert other.read_bytes() == dump


def test_import_refuses_data_that_is_larger_than_the_disk(environment: Environment, disk: pathlib.Path) -> None:
    done = run("import", environment | {"IMPORT_DEVICE": str(disk)}, stdin=b"x" * (16 * MIB + 1))
    assert done.returncode == 1
    assert b"larger than the disk" in done.stderr
    assert disk.stat().st_size == 16 * MIB


@pytest.mark.parametrize(("script", "variable"), [("export", "EXPORT_DEVICE"), ("import", "IMPORT_DEVICE")])
def test_export_and_import_need_an_existing_device(environment: Environment, script: str, variable: str) -> None:
    assert variable.encode() in run(script, environment).stderr
    assert run(script, environment | {variable: "/nonexistent/disk"}).returncode == 1


def test_rename_changes_the_host_name_and_nothing_else(environment: Environment, disk: pathlib.Path) -> None:
    succeed("create", environment)
    addresses = content(disk, "/etc/addresses")
    new = environment | {"INSTANCE_NAME": "web2.example", "OLD_INSTANCE_NAME": "web1.example"}
    succeed("rename", new)
    assert content(disk, "/etc/hostname") == "web2.example\n"
    assert content(disk, "/etc/addresses") == addresses
    e2fsck = shutil.which("e2fsck", path=PATH)
    assert e2fsck
    assert subprocess.run([e2fsck, "-fn", disk], capture_output=True, check=False).returncode == 0


def test_rename_of_a_disk_without_a_file_system_fails(environment: Environment, disk: pathlib.Path) -> None:
    done = run("rename", environment)
    assert done.returncode == 1
    assert not any(disk.read_bytes())


def test_verify_accepts_no_parameters_and_refuses_unknown_ones(environment: Environment) -> None:
    succeed("verify", environment, "parameters")
    unknown = run("verify", environment | {"OSP_FLAVOUR": "mint"}, "parameters")
    assert (unknown.returncode, b"FLAVOUR" in unknown.stderr) == (1, True)
    assert run("verify", environment).returncode == 1
