"""Every storage type that this machine can have, for the tests of its driver: files, scripts, and LVM's records.

LVM is real, on loop devices, but without a device mapper: volumes are made, grown, tagged and removed, and cannot be
opened. ``tests/real`` has it whole, and DRBD.
"""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from gantry.node import drivers
from gantry.node.storage import external, file, lvm, plain, programs, qcow2_export
from gantry.rpc import calls
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime

NODE = "node1"
OWNER = "vm1.example.com"

PROVIDER = """#!/bin/sh
# A provider whose volumes are files beside it.
set -e
volumes=$(dirname "$0")/../../volumes
mkdir -p "$volumes"
volume=$volumes/$VOL_NAME
case ${0##*/} in
create) test ! -e "$volume"; truncate --size="${VOL_SIZE}M" "$volume" ;;
attach) test -e "$volume" || { echo "no volume $VOL_NAME" >&2; exit 1; }; echo "$volume"; echo "kvm:file=$volume" ;;
grow) truncate --size="${VOL_NEW_SIZE}M" "$volume" ;;
remove) rm "$volume" ;;
snapshot) cp "$volume" "$volumes/$VOL_SNAPSHOT_NAME" ;;
verify) test "$EXTP_POOL" = fast || { echo "there is no pool $EXTP_POOL" >&2; exit 1; } ;;
esac
env | grep -E '^(VOL|EXTP)_' | sort >"$volume.${0##*/}.env" 2>/dev/null || true
"""


@dataclass(frozen=True)
class Storage:
    """A storage type under test; ``place`` begins the logical ids, ``unit`` names what it draws from.

    With ``readable`` a disk's path is a file that can be read and written.
    """

    kind: str
    driver: drivers.BlockDevice
    place: str
    unit: str = ""
    params: Mapping[str, calls.Value] = field(default_factory=dict)
    readable: bool = True
    grain: int = 1

    def disk(self, *, size: int = 4, uuid: str = "d0", index: int = 0) -> calls.Disk:
        name = self.driver.logical_id(OWNER, uuid, index=index)
        return calls.Disk(
            index=index,
            uuid=uuid,
            dev_type=self.kind,
            size=size,
            logical_id=(self.place, name),
            params=dict(self.params),
        )


def runtime() -> RealRuntime:
    return RealRuntime(NODE)


def file_storage(folder: Path, name: str, *, kind: str = file.OWN) -> file.FileStorage:
    views = qcow2_export.Views(runtime(), str(folder / "views"))
    return file.FileStorage(runtime(), str(folder / name), views=views, kind=kind)


@contextlib.contextmanager
def files(folder: Path, kind: str, image: str) -> Iterator[Storage]:
    (folder / "storage").mkdir()
    driver = file_storage(folder, "storage", kind=kind)
    yield Storage(kind, driver, kind, params={"format": image}, readable=image == "raw")


@contextlib.contextmanager
def volumes(folder: Path, sizes: tuple[int, ...] = (64, 64, 64)) -> Iterator[Storage]:
    """Make a volume group on loop devices of these sizes in MiB."""
    name = f"gt{uuid.uuid4().hex[:8]}"
    with loops(folder, sizes) as devices:
        command("vgcreate", name, *devices)
        tools = programs.Programs(runtime())
        driver = plain.Plain(lvm.Lvm(tools, mapper=False), tools)
        try:
            yield Storage(plain.KIND, driver, name, unit=name, readable=False, grain=4)
        finally:
            command("vgremove", "--yes", "--force", name)


@contextlib.contextmanager
def loops(folder: Path, sizes: tuple[int, ...]) -> Iterator[list[str]]:
    devices: list[str] = []
    try:
        for index, size in enumerate(sizes):
            path = folder / f"disk{index}"
            path.touch()
            os.truncate(path, size << 20)
            attached = subprocess.run(["losetup", "--find", "--show", path], capture_output=True, text=True, check=True)
            devices.append(attached.stdout.strip())
        yield devices
    finally:
        for index in range(len(devices)):
            # By its file: a device that a test took away may be somebody else's now.
            find = ["losetup", "--associated", f"{folder}/disk{index}", "--output", "NAME", "--noheadings"]
            for device in subprocess.run(find, capture_output=True, text=True, check=True).stdout.split():
                subprocess.run(["losetup", "--detach", device], check=True)


def command(*arguments: str) -> None:
    """Run a command of LVM's; a missing group is no matter, for its test took it away."""
    done = subprocess.run([*arguments, "--driverloaded", "n"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "not found" in done.stderr, done.stderr


@contextlib.contextmanager
def provider(folder: Path) -> Iterator[Storage]:
    where = paths.Paths.below(str(folder))
    home = folder / "srv/extstorage/files"
    write_provider(home, (*external.MANDATORY, "snapshot"))
    driver = external.External(runtime(), where, providers=external.Providers(runtime(), where.storage_providers))
    yield Storage(external.KIND, driver, "files", unit="files", params={"provider": "files", "pool": "fast"})


def write_provider(home: Path, scripts: tuple[str, ...]) -> None:
    home.mkdir(parents=True)
    for script in scripts:
        (home / script).write_text(PROVIDER)
        (home / script).chmod(0o755)
    (home / "parameters.list").write_text("pool The pool that volumes are taken from\n")


Make = Callable[[Path], AbstractContextManager[Storage]]
FILES: dict[str, Make] = {
    "file": lambda folder: files(folder, file.OWN, "raw"),
    "qcow2": lambda folder: files(folder, file.OWN, "qcow2"),
    "sharedfile": lambda folder: files(folder, file.SHARED, "raw"),
    "ext": provider,
}
ALL: dict[str, Make] = {**FILES, "plain": volumes}
