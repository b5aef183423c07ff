"""A node whose kernel runs on Xen: QEMU boots the hypervisor and Debian with its tools (``image.sh``), by emulation.

It is one of ``tests.real.nodes.lab``'s nodes, and runs gantry-noded from this checkout. Only one of them runs at a
time: Xen's own domain takes most of a processor.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import cache
from tests.real import demonstration
from tests.real.nodes import lab
from tests.real.nodes.hardware import Hardware, qemu

HERE = Path(__file__).parent
XEN = (
    "console=com1 com1=115200,8n1 dom0_mem=700M,max:700M loglvl=warning guest_loglvl=warning "
    "no-real-mode=1 watchdog=0 spec-ctrl=no xpti=0 smt=1"
)

NEEDS = [
    pytest.mark.real,
    demonstration.MINUTES,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(not shutil.which(qemu.QEMU), reason="QEMU is not installed: make system"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed: make system"),
]


def image() -> Path:
    """Return the folder with what the machine boots."""
    return cache.cached("xen", HERE / "image.sh", HERE / "init-guest.sh")


class Machine(qemu.Qemu):
    """QEMU that emulates a machine, which boots Xen."""

    OVERHEAD = 0
    PROCESSORS = 1

    @classmethod
    def prepare(cls) -> None:
        image()

    def root(self) -> Path:
        return image() / "root.ext4"

    def boot_options(self, words: Sequence[str]) -> list[str | Path]:
        line = ["console=hvc0", "quiet", "root=/dev/vda", "rw", "init=/sbin/init", "net.ifnames=0", *words]
        # On other processors Debian's kernel hangs when Xen starts it, and guests with their own firmware need svm.
        return [
            "-accel", "tcg,thread=multi,tb-size=256", "-cpu", qemu.EMULATED, "-kernel", image() / "xen", "-append", XEN,
            "-initrd", f"{image()}/vmlinuz {' '.join(line)},{image()}/initrd",
        ]  # fmt: skip


class Host(lab.Node):
    """A machine with Xen, its cable in the lab's bridge."""

    MEMORY = 1400
    INIT = HERE / "init.sh"

    @classmethod
    def hardware_kind(cls) -> type[Hardware]:
        return Machine
