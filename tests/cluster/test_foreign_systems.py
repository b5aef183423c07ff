"""OS definitions that were written for others work as they are: one that does nothing, and Debian's for Debian.

The scripts of ``ganeti-instance-debootstrap`` come from its package, unpacked and not changed. What they look for on
the machine, their configuration, an archive of an installed system that saves the download, a program of udev's, is
shown to the node daemon by mounts that nobody else sees. The installed system is busybox.
"""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab, test_backup

PACKAGE = "ganeti-instance-debootstrap"
NEEDED = ("apt-get", "dpkg-deb", "unshare", "losetup", "mke2fs", "debugfs", "busybox")
SCRIPT = "#!/bin/sh\nexit 0\n"
NOOP = {
    **dict.fromkeys(("create", "export", "import", "rename", "verify"), SCRIPT),
    "ganeti_api_version": "20\n15\n10\n",
    "variants.list": "default\n",
    "parameters.list": "",
}
MOUNTS = """
set -e
mount -t overlay overlay -o lowerdir=$0/etc:/etc /etc
mount -t overlay overlay -o lowerdir=$0/sbin:/usr/sbin /usr/sbin
mount --bind $0/cache /var/cache
exec "$@"
"""


@pytest.mark.slow
def test_a_system_that_does_nothing_goes_through_an_instances_life() -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        for node in cluster_lab.nodes:
            test_backup.define(node, "noop", NOOP)
        assert "noop+default" in cluster_lab.run("gnt-os", "list", "--no-headers").stdout.split()
        test_backup.add(cluster_lab, "old.example", "--no-nics", system="noop+default", disks=2)
        cluster_lab.run("gnt-instance", "reinstall", "-f", "old.example")
        cluster_lab.run("gnt-instance", "rename", "old.example", "new.example")
        cluster_lab.run("gnt-backup", "export", "-n", "node2", "new.example")
        cluster_lab.run("gnt-instance", "remove", "-f", "new.example")
        cluster_lab.run("gnt-backup", "import", "-t", "file", "-n", "node1", "--src-node", "node2", "new.example")
        assert cluster_lab.rows("gnt-instance", "name,os,disk.sizes") == [["new.example", "noop+default", "8,16"]]
        cluster_lab.run("gnt-instance", "start", "new.example")
        cluster_lab.run("gnt-instance", "remove", "-f", "new.example")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        pytest.skip(f"there is no {', '.join(missing)} here")
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    folder = tmp_path_factory.mktemp("package")
    try:
        command = ["apt-get", "download", "-qq", PACKAGE]
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    except subprocess.SubprocessError as error:
        reason = error.stderr if isinstance(error, subprocess.CalledProcessError) else error
        pytest.skip(f"the package {PACKAGE} cannot be had: {str(reason).strip()}")
    (package,) = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder / "files"], check=True)
    return folder / "files"


@pytest.fixture(scope="module")
def cluster_lab(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    seen = tmp_path_factory.mktemp("seen")
    shutil.copytree(unpacked / "etc", seen / "etc")
    with (seen / "etc/default" / PACKAGE).open("a") as file:
        file.write("PARTITION_STYLE=none\nSUITE=small\nARCH=any\n")
    (seen / "sbin").mkdir()
    (seen / "sbin/udevadm").write_text(SCRIPT)
    (seen / "sbin/udevadm").chmod(0o755)
    _archive(seen / "cache" / PACKAGE / "cache-small-any.tar", seen / "small")
    probe = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNTS, str(seen)]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no overlays")
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        (node,) = cluster_lab.nodes
        definition = unpacked / "usr/share/ganeti/os/debootstrap"
        shutil.copytree(definition, node.root / "srv/os/debootstrap", symlinks=True)
        node.stop()
        node.within = tuple(probe)
        node.start()
        yield cluster_lab


def _archive(path: Path, root: Path) -> None:
    """Write the archive of a system that is busybox alone, with what the scripts change of it."""
    (root / "bin").mkdir(parents=True)
    (root / "etc/network").mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    for name in ("sh", "passwd"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/shadow").write_text("root:*:1::::::\n")
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w") as archive:
        archive.add(root, ".")


def _text(disk: Path, path: str) -> str:
    """Return a file of the file system on a disk."""
    return subprocess.run(["debugfs", "-R", f"cat {path}", disk], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_debians_definition_installs_renames_and_refuses_as_it_is(cluster_lab: lab.Lab) -> None:
    assert cluster_lab.run("gnt-os", "list", "--no-headers").stdout.split() == ["debootstrap+default", "plain"]
    disk = (
        "-t",
        "file",
        "--disk",
        "0:size=600m",
        "-n",
        "node1",
        "--no-nics",
        "--no-start",
        "-o",
        "debootstrap+default",
    )
    refused = cluster_lab.refused("gnt-instance", "add", *disk, "-O", "filesystem=fat", "deb.example")
    assert "Invalid value 'fat' for the filesystem parameter" in refused
    small = [word if word != "0:size=600m" else "0:size=64m" for word in disk]
    assert "Device size is too small (64 MB)" in cluster_lab.refused("gnt-instance", "add", *small, "deb.example")
    cluster_lab.run("gnt-instance", "add", *disk, "-O", "filesystem=ext3", "deb.example")
    (path,) = test_backup.disk_files(cluster_lab.nodes[0], "deb.example")
    assert _text(path, "/etc/hostname") == "deb.example\n"
    assert " ext3 " in _text(path, "/etc/fstab")
    assert _text(path, "/etc/shadow").startswith("root::")
    cluster_lab.run("gnt-instance", "rename", "deb.example", "new.example")
    (path,) = test_backup.disk_files(cluster_lab.nodes[0], "new.example")
    assert _text(path, "/etc/hostname") == "new.example\n"
    cluster_lab.run("gnt-instance", "reinstall", "-f", "-O", "filesystem=ext4", "new.example")
    assert " ext4 " in _text(path, "/etc/fstab")
    used = subprocess.run(["losetup", "--associated", path], capture_output=True, text=True, check=True).stdout
    assert used == ""
    cluster_lab.run("gnt-instance", "remove", "-f", "new.example")
