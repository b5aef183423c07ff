"""Machines that are QEMU's, with Debian's kernel: slower than User-Mode Linux if QEMU emulates; for any processor."""

import asyncio
import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests import cache
from tests.real.nodes.hardware import Hardware, image

from gantry.node.daemon import node_info
from gantry.node.hypervisors.kvm import accelerator_probe, qmp
from gantry.runtime import paths, real

QEMU = accelerator_probe.QEMU
HERE = Path(__file__).parent
SCRIPTS = (HERE / "kernel.sh", HERE.parents[3] / "demo/kernel.sh")
TIMEOUT_SECONDS = 120
EMULATED = "qemu64,+svm,+npt"
"""The processor that QEMU emulates. It has AMD's virtualization: KVM in the node runs guests twenty times faster than a
QEMU there that emulates too."""
LETTERS = "bcdefghijklmnopqrstuvwxyz"
"""Those of the disks that can be added; a is the disk of the operating system."""


def kernel() -> Path:
    """Return the folder with Debian's kernel, an initial RAM disk and the kernel's modules."""
    return cache.cached("node-kernel", *SCRIPTS)


@functools.cache
def accelerator() -> str:
    """Return ``kvm`` if a guest really runs with it on this machine, else ``tcg``; kept until the machine reboots."""
    runtime = real.RealRuntime()
    folders = paths.Paths.below(f"{cache.folder()}/qemu")
    for folder in (folders.lib, folders.run):
        Path(folder).mkdir(parents=True, exist_ok=True)
    probe = accelerator_probe.Accelerators(runtime, folders, bootid=node_info.boot_id(runtime.disk))
    return asyncio.run(probe.choose("auto"))


class Qemu(Hardware):
    """QEMU with Debian's kernel, with KVM where that works. This machine's files reach the node over 9p."""

    OVERHEAD: ClassVar[int] = 128
    """MiB that Debian's kernel takes more than that of User-Mode Linux."""
    PROCESSORS: ClassVar[int] = 2
    """With the second one a node's daemon answers in time while a command runs."""

    def __init__(self, folder: Path, *, tap: str, mac: str, memory: int) -> None:
        super().__init__(folder, tap=tap, mac=mac, memory=memory)
        self._control = folder / "qmp"
        self._letters: dict[int, str] = {}

    @classmethod
    def prepare(cls) -> None:
        image()
        kernel()
        accelerator()

    def root(self) -> Path:
        """Return the file system of the operating system, of which each machine has a copy."""
        return image()

    def boot_options(self, words: Sequence[str]) -> list[str | Path]:
        """Return QEMU's options for processor and kernel, whose command line gets ``words``."""
        line = [
            "console=ttyS0", "quiet", "root=/dev/vda", "rw", "net.ifnames=0", "mitigations=off", "panic=1",
            # On a loaded machine the kernel takes an emulated timer for a broken one.
            "no_timer_check", f"init.modules={kernel()}/modules", *words,
        ]  # fmt: skip
        processor = (
            ["kvm", "-cpu", "host"] if accelerator() == "kvm" else ["tcg,thread=multi,tb-size=128", "-cpu", EMULATED]
        )
        boot = kernel()
        return [
            "-accel", *processor, "-kernel", boot / "vmlinuz", "-initrd", boot / "initrd", "-append", " ".join(line),
        ]  # fmt: skip

    def device(self, number: int) -> str:
        return f"/dev/vd{self._letters[number]}"

    def _command(self, words: Sequence[str]) -> list[str | Path]:
        root = self.folder / "root"
        if not root.exists():
            subprocess.run(
                ["qemu-img", "create", "-q", "-f", "qcow2", "-b", self.root(), "-F", "raw", root], check=True
            )
        # The kernel finds the disks in this order.
        self._letters = dict(zip(self.disks, LETTERS, strict=False))
        # Nobody changes the image, but User-Mode Linux has a lock on it, which QEMU takes for another's use of it.
        base = (
            f"backing.driver=raw,backing.file.driver=file,backing.file.filename={self.root()},backing.file.locking=off"
        )
        disks = [
            ("root", f"driver=qcow2,{base}", root),
            *((f"disk{number}", "driver=raw", path) for number, path in self.disks.items()),
        ]
        self._control.unlink(missing_ok=True)
        return [
            QEMU, *self.boot_options(words), "-machine", "pc", "-m", str(self.memory + self.OVERHEAD),
            "-smp", str(self.PROCESSORS), "-no-reboot", "-nodefaults", "-no-user-config", "-display", "none",
            # What QEMU says itself is in the same file.
            "-chardev", f"file,id=console,path={self.console},append=on", "-serial", "chardev:console",
            "-qmp", f"unix:{self._control},server=on,wait=off",
            *(word for disk in disks for word in _disk_options(*disk)),
            "-netdev", f"tap,id=cable,ifname={self.tap},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=cable,mac={self.mac}",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-rng-pci",
        ]  # fmt: skip

    def _plug(self, number: int) -> None:
        # The kernel gives a new disk the first letter that no disk has.
        self._letters[number] = min({*LETTERS} - {*self._letters.values()})
        asyncio.run(self._plug_in(f"disk{number}", self.disks[number]))

    async def _plug_in(self, name: str, path: Path) -> None:
        file = {"driver": "file", "filename": str(path)}
        async with asyncio.timeout(TIMEOUT_SECONDS), await self._connect() as control:
            await control.execute("blockdev-add", {"node-name": name, "driver": "raw", "file": file})
            await control.execute("device_add", {"driver": "virtio-blk-pci", "id": f"dev-{name}", "drive": name})

    def _unplug(self, number: int) -> None:
        asyncio.run(self._pull_out(f"disk{number}"))
        del self._letters[number]

    async def _pull_out(self, name: str) -> None:
        device = f"dev-{name}"
        async with asyncio.timeout(TIMEOUT_SECONDS), await self._connect() as control:
            await control.execute("device_del", {"id": device})
            await control.event(("DEVICE_DELETED",), device=device)
            await control.execute("blockdev-del", {"node-name": name})

    async def _connect(self) -> qmp.Connection:
        return await qmp.connect(real.RealRuntime(), str(self._control), guest=self.folder.name)


def _disk_options(name: str, form: str, path: Path) -> list[str]:
    return [
        "-blockdev", f"{form},node-name={name},file.driver=file,file.filename={path}",
        "-device", f"virtio-blk-pci,id=dev-{name},drive={name}",
    ]  # fmt: skip
