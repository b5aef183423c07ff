"""A node whose kernel runs on Xen: QEMU boots the hypervisor and Debian with its tools (``image.sh``), by emulation.

It is one of ``tests.real.nodes.lab``'s nodes, and runs gantry-noded from this checkout. Only one of them runs at a
time: Xen's own domain takes most of a processor.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests import cache
from tests.real import demonstration
from tests.real.nodes import lab

HERE = Path(__file__).parent
QEMU = "qemu-system-x86_64"
# Of other processors than this one Debian's kernel hangs when Xen starts it; guests of their own firmware need svm.
PROCESSOR = "qemu64,+svm,+npt"
XEN = (
    "console=com1 com1=115200,8n1 dom0_mem=700M,max:700M loglvl=warning guest_loglvl=warning "
    "no-real-mode=1 watchdog=0 spec-ctrl=no xpti=0 smt=1"
)

NEEDS = [
    pytest.mark.real,
    demonstration.MINUTES,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not shutil.which(QEMU), reason="QEMU is not installed: make system"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed: make system"),
]


def image() -> Path:
    """Return the folder with what the machine boots."""
    return cache.cached("xen", HERE / "image.sh", HERE / "init-guest.sh")


class Host(lab.Node):
    """A machine with Xen, its cable in the lab's bridge."""

    @classmethod
    def prepare(cls) -> None:
        """Make what the machine boots."""
        image()

    def start(self) -> None:
        """Boot, with nothing left of an earlier time."""
        root, parts = self.folder / "root.qcow2", image()
        root.unlink(missing_ok=True)
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", parts / "root.ext4", "-F", "raw", root], check=True
        )
        kernel = (
            f"console=hvc0 quiet root=/dev/vda rw init=/sbin/init net.ifnames=0 init.name={self.name} "
            f"init.address={self.address}/24 init.script={HERE}/init.sh init.agent={lab.HERE}/agent.py"
        )
        arguments = [
            QEMU, "-accel", "tcg,thread=multi,tb-size=256", "-machine", "pc", "-cpu", PROCESSOR, "-m", "1400",
            "-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{self.folder}/console",
            "-kernel", f"{parts}/xen", "-append", XEN,
            "-initrd", f"{parts}/vmlinuz {kernel},{parts}/initrd",
            "-drive", f"file={root},if=virtio,format=qcow2",
            "-netdev", f"tap,id=cable,ifname={self.tap},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=cable,mac=52:54:00:00:02:{self.number:02x}",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host", "-device", "virtio-rng-pci",
        ]  # fmt: skip
        with open(self.folder / "qemu", "wb") as file:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        (self.folder / "console").touch()
