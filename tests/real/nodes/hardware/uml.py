"""Machines that are User-Mode Linux processes: Debian's kernel as a program, which shares this machine's files."""

import shutil
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.real.nodes.hardware import Hardware, image

KERNEL = "linux.uml"
MODULES = Path("/usr/lib/uml/modules")


class Uml(Hardware):
    """User-Mode Linux. Its process is the parent of those in the node."""

    @classmethod
    def prepare(cls) -> None:
        image()

    def device(self, number: int) -> str:
        return f"/dev/ubd{_letter(number)}"

    def _command(self, words: Sequence[str]) -> list[str | Path]:
        # The name of the machine's own folder, which holds the socket of its management console.
        shutil.rmtree(self.folder / "uml", ignore_errors=True)
        return [
            KERNEL, f"mem={self.memory}M", "umid=uml", f"uml_dir={self.folder}/",
            f"ubda={self.folder}/root,{image()}", "root=/dev/ubda", "rw", "quiet",
            *(f"ubd{_letter(number)}={path}" for number, path in self.disks.items()),
            # Without gro, long answers over TCP stall.
            f"vec0:transport=tap,ifname={self.tap},depth=64,gro=1,mac={self.mac}",
            "con=null", "con0=null,fd:1", "ssl=null", f"init.modules={MODULES}", *words,
        ]  # fmt: skip

    def _plug(self, number: int) -> None:
        self._manage(f"config ubd{number + 1}={self.disks[number]}")

    def _unplug(self, number: int) -> None:
        self._manage(f"remove ubd{number + 1}")

    def _manage(self, command: str) -> None:
        """Run a command of User-Mode Linux's management console."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.bind("")
            ours.settimeout(10)
            words = command.encode()
            packet = struct.pack("III", 0xCAFEBABE, 2, len(words)) + words.ljust(512, b"\0")
            ours.sendto(packet, str(self.folder / "uml" / "mconsole"))
            failed, _, length = struct.unpack_from("iii", answer := ours.recv(2048))
            assert not failed, f"{command}: {answer[12 : 12 + length].decode(errors='replace')}"


def _letter(number: int) -> str:
    # a is the disk of the operating system.
    return chr(ord("b") + number)
