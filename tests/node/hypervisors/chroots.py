"""Disks that the hypervisor chroot runs: busybox and an init script in a small file system."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.node import samples

from gantry.node import drivers
from gantry.node.hypervisors import chroot
from gantry.node.storage import file, qcow2_export
from gantry.rpc import calls
from gantry.runtime import paths

BUSYBOX = "/bin/busybox"
NEEDED = os.geteuid() == 0 and os.path.exists("/dev/loop-control") and os.path.exists(BUSYBOX) and shutil.which("fuser")
SCRIPT = """#!/bin/busybox sh
echo "$1" >>/said
case $1 in
    start) [ ! -e /broken ] || { echo "it is broken" >&2; exit 3; }
           /bin/busybox sh -c 'while :; do /bin/busybox sleep 1; done' >/dev/null 2>&1 & ;;
    stop) [ ! -e /stubborn ] || /bin/busybox sleep 60 ;;
esac
"""


def driver(folders: paths.Paths) -> chroot.Chroot:
    runtime = samples.runtime()
    storage = file.FileStorage(runtime, folders.file_storage, views=qcow2_export.Views(runtime, folders.run))
    return chroot.Chroot(runtime, folders, parts=drivers.Registry(runtime, storage={"file": storage}))


def disk(folders: paths.Paths, *marks: str, owner: str = "vm1", script: str = "ganeti-chroot") -> calls.Disk:
    """Make a disk with an init script on it, and files that tell it to misbehave."""
    disk = samples.disk(folders, size=16, owner=owner)
    path = Path(disk.logical_id[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return disk
    with tempfile.TemporaryDirectory() as draft:
        tree = Path(draft)
        (tree / "bin").mkdir()
        shutil.copy(BUSYBOX, tree / "bin/busybox")
        (tree / script).write_text(SCRIPT)
        (tree / script).chmod(0o755)
        for mark in marks:
            (tree / mark).touch()
        subprocess.run(["truncate", "--size=16M", path], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-d", tree, path], check=True)
    return disk
