"""Which accelerator guests get on this node: /dev/kvm where a guest really runs with it, else QEMU's emulation (tcg).

That /dev/kvm opens proves nothing: on some hosts a guest hangs after its firmware, on others it is emulated, a million
instructions a second. So a boot sector is run with it that only a processor gets through in time (``probe.S``). The
answer is kept in ``lib/accelerator.json`` and holds until the machine is booted anew or QEMU changes; ``NodeInfo`` can
ask for it, and for a new probe. A "no" costs the whole time limit: with kvm in the cluster the agent asks as it starts.
"""

import asyncio

import msgspec

from gantry import errors
from gantry.runtime import interface, paths

QEMU = "qemu-system-x86_64"
DEVICE = "/dev/kvm"
LIMIT = 5.0
# Two who ask for a new probe within this time get the same one.
FRESH = 60.0

# What probe.S assembles to.
SECTOR = bytes.fromhex(
    "fafcea077c00006631c08ed88ec08ed0bc007cbf0010b9001066f3abc70600100320c70600200330c7060030830066c7"
    "06304000000800c7063040da7cc7063440008e0f0116007d0f011e067d0f20e00c200f22e066b8001000000f22d866b9"
    "800000c00f3280cc010f300f20c0660d010000800f22c0ea7c7c0800b8100000008ed88ec08ed0bc007c0000cc0f20c0"
    "24fb0c020f22c00f20e0660d00060f22e00f28c8660fd4c1b900000004ffc975fc48bb47414e5452592d3688d8e6e948"
    "c1eb0875f66689eb88d8e6e988f8e6e9b810000000e7f4f4ebfdbd340a000048cf0f1f80000000000000000000000000"
    "00000000009a200000000000009200001700e87c00003f000040"
).ljust(510, b"\0") + b"\x55\xaa"  # fmt: skip
MARKER = b"GANTRY-64\n"
# The sector writes 0x10 to isa-debug-exit, which makes this of it.
EXIT = 33


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A probe's answer: ``kvm``, ``tcg`` or nothing, why, for which QEMU and boot of the machine, and when."""

    accelerator: str
    reason: str
    qemu: str = ""
    bootid: str = ""
    time: float = 0.0


UNKNOWN = Found(accelerator="", reason="")


class Accelerators:
    """The accelerators of one node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, bootid: str) -> None:
        self._runtime = runtime
        self._path = f"{folders.lib}/accelerator.json"
        self._sector = f"{folders.run}/probe"
        self._bootid = bootid
        self._found: Found | None = None
        self._lock = asyncio.Lock()

    async def choose(self, wanted: str) -> str:
        """Return what ``auto``, ``kvm`` or ``tcg`` means here; HypervisorError when it cannot be had."""
        if wanted == "tcg":
            return wanted
        found = await self.current()
        if wanted == "kvm" != found.accelerator:
            raise errors.HypervisorError(
                f"accel=kvm cannot be used on node {self._runtime.host}: {found.reason}",
                hint="use accel=auto or accel=tcg",
            )
        if not found.accelerator:
            raise errors.HypervisorError(f"node {self._runtime.host} cannot run guests: {found.reason}")
        return found.accelerator

    async def current(self, *, again: bool = False) -> Found:
        """Return what was found, probing when nothing is known yet or ``again`` is asked for."""
        async with self._lock:
            if self._found is None or again:
                self._found = await self._look(again=again)
            return self._found

    async def _look(self, *, again: bool) -> Found:
        version = await self._version()
        if not version:
            return Found(accelerator="", reason=f"{QEMU} is not installed")
        now = self._runtime.clock.now()
        kept = self._kept()
        holds = kept is not None and (kept.qemu, kept.bootid) == (version, self._bootid)
        if kept is not None and holds and (not again or now - kept.time < FRESH):
            return kept
        problem = await self.try_out("kvm") if self._runtime.disk.exists(DEVICE) else f"there is no {DEVICE}"
        found = Found(
            accelerator="tcg" if problem else "kvm",
            reason=problem or f"a guest ran with {DEVICE}",
            qemu=version,
            bootid=self._bootid,
            time=now,
        )
        await self._runtime.disk.write(self._path, msgspec.json.encode(found) + b"\n", sync=False)
        return found

    def _kept(self) -> Found | None:
        try:
            return msgspec.json.decode(self._runtime.disk.read(self._path), type=Found)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def _version(self) -> str:
        try:
            done = await self._runtime.processes.run([QEMU, "--version"])
        except FileNotFoundError:
            return ""
        return done.stdout.decode(errors="replace").partition("\n")[0]

    async def try_out(self, accelerator: str) -> str:
        """Run the sector with an accelerator; return why it did not get through, empty when it did."""
        await self._runtime.disk.write(self._sector, SECTOR, sync=False)
        try:
            done = await self._runtime.processes.run(_command(accelerator, self._sector), timeout=LIMIT)
        except TimeoutError:
            return f"a guest with {accelerator} did not run within {LIMIT:.0f} s"
        if done.code == EXIT and done.stdout == MARKER:
            return ""
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return f"a guest with {accelerator} did not run: {lines[-1] if lines else f'QEMU ended with {done.code}'}"


def _command(accelerator: str, sector: str) -> list[str]:
    return [
        # A guest that hangs would outlive a node daemon that is killed meanwhile.
        *("timeout", "--signal=KILL", f"{2 * LIMIT:.0f}"),
        *(QEMU, "-accel", accelerator, "-machine", "pc", "-m", "16", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-drive", f"if=ide,format=raw,file={sector.replace(',', ',,')}"),
        *("-chardev", "stdio,id=d", "-device", "isa-debugcon,iobase=0xe9,chardev=d"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=4"),
    ]
