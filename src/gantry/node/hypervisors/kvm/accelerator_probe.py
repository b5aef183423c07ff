"""Determines the accelerator of guests on this node: kvm if a guest really runs with it, else QEMU's emulation (tcg).

A working open of /dev/kvm proves nothing: on some hosts a guest hangs after its firmware, on others it is emulated with
a million instructions per second. So the probe runs a boot sector that only a processor finishes in time
(``probe.S``). The result is kept in ``lib/accelerator.json`` and is valid until the machine reboots or QEMU changes;
``NodeInfo`` can query it and request a new probe. A negative result takes the whole timeout, so the daemon probes when
it starts if the cluster uses kvm.
"""

import asyncio

import msgspec

from gantry import errors
from gantry.runtime import interface, paths

QEMU = "qemu-system-x86_64"
DEVICE = "/dev/kvm"
PROBE_TIMEOUT_SECONDS = 5.0
MIN_PROBE_INTERVAL_SECONDS = 60.0
"""Requests for a new probe within this time of the last get its result."""

# probe.S, assembled
SECTOR = bytes.fromhex(
    "fafcea077c00006631c08ed88ec08ed0bc007cbf0010b9001066f3abc70600100320c70600200330c7060030830066c7"
    "06304000000800c7063040da7cc7063440008e0f0116007d0f011e067d0f20e00c200f22e066b8001000000f22d866b9"
    "800000c00f3280cc010f300f20c0660d010000800f22c0ea7c7c0800b8100000008ed88ec08ed0bc007c0000cc0f20c0"
    "24fb0c020f22c00f20e0660d00060f22e00f28c8660fd4c1b900000004ffc975fc48bb47414e5452592d3688d8e6e948"
    "c1eb0875f66689eb88d8e6e988f8e6e9b810000000e7f4f4ebfdbd340a000048cf0f1f80000000000000000000000000"
    "00000000009a200000000000009200001700e87c00003f000040"
).ljust(510, b"\0") + b"\x55\xaa"  # fmt: skip
MARKER = b"GANTRY-64\n"
EXIT = 33
"""QEMU's exit code after the sector has written 0x10 to isa-debug-exit."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A probe's result: ``kvm``, ``tcg`` or nothing, the reason, QEMU's version, the machine's boot id, the time."""

    accelerator: str
    reason: str
    qemu: str = ""
    bootid: str = ""
    time: float = 0.0


UNKNOWN = Result(accelerator="", reason="")


class Accelerators:
    """The accelerators of a node."""

    def __init__(self, runtime: interface.Runtime, folders: paths.Paths, *, bootid: str) -> None:
        self._runtime = runtime
        self._path = f"{folders.lib}/accelerator.json"
        self._sector = f"{folders.run}/probe"
        self._bootid = bootid
        self._result: Result | None = None
        self._lock = asyncio.Lock()

    async def choose(self, requested: str) -> str:
        """Return the accelerator for ``auto``, ``kvm`` or ``tcg``; HypervisorError if it is not available."""
        if requested == "tcg":
            return requested
        result = await self.current()
        if requested == "kvm" != result.accelerator:
            raise errors.HypervisorError(
                f"accel=kvm cannot be used on node {self._runtime.host}: {result.reason}",
                hint="use accel=auto or accel=tcg",
            )
        if not result.accelerator:
            raise errors.HypervisorError(f"node {self._runtime.host} cannot run guests: {result.reason}")
        return result.accelerator

    async def current(self, *, again: bool = False) -> Result:
        """Return the last result; probe if there is none, or if ``again``."""
        async with self._lock:
            if self._result is None or again:
                self._result = await self._probe(again=again)
            return self._result

    async def _probe(self, *, again: bool) -> Result:
        version = await self._version()
        if not version:
            return Result(accelerator="", reason=f"{QEMU} is not installed")
        now = self._runtime.clock.now()
        stored = self._stored()
        valid = stored is not None and (stored.qemu, stored.bootid) == (version, self._bootid)
        if stored is not None and valid and (not again or now - stored.time < MIN_PROBE_INTERVAL_SECONDS):
            return stored
        problem = await self.try_out("kvm") if self._runtime.disk.exists(DEVICE) else f"there is no {DEVICE}"
        result = Result(
            accelerator="tcg" if problem else "kvm",
            reason=problem or f"a guest ran with {DEVICE}",
            qemu=version,
            bootid=self._bootid,
            time=now,
        )
        await self._runtime.disk.write(self._path, msgspec.json.encode(result) + b"\n", sync=False)
        return result

    def _stored(self) -> Result | None:
        try:
            return msgspec.json.decode(self._runtime.disk.read(self._path), type=Result)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def _version(self) -> str:
        try:
            process = await self._runtime.processes.run([QEMU, "--version"])
        except FileNotFoundError:
            return ""
        return process.stdout.decode(errors="replace").partition("\n")[0]

    async def try_out(self, accelerator: str) -> str:
        """Run the sector with an accelerator; return why it did not finish, empty if it did."""
        await self._runtime.disk.write(self._sector, SECTOR, sync=False)
        try:
            process = await self._runtime.processes.run(
                _command(accelerator, self._sector), timeout=PROBE_TIMEOUT_SECONDS
            )
        except TimeoutError:
            return f"a guest with {accelerator} did not run within {PROBE_TIMEOUT_SECONDS:.0f} s"
        if process.code == EXIT and process.stdout == MARKER:
            return ""
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        return f"a guest with {accelerator} did not run: {lines[-1] if lines else f'QEMU ended with {process.code}'}"


def _command(accelerator: str, sector: str) -> list[str]:
    return [
        # Without this a guest that hangs would survive a node daemon that is killed meanwhile.
        *("timeout", "--signal=KILL", f"{2 * PROBE_TIMEOUT_SECONDS:.0f}"),
        *(QEMU, "-accel", accelerator, "-machine", "pc", "-m", "16", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-drive", f"if=ide,format=raw,file={sector.replace(',', ',,')}"),
        *("-chardev", "stdio,id=d", "-device", "isa-debugcon,iobase=0xe9,chardev=d"),
        *("-device", "isa-debug-exit,iobase=0xf4,iosize=4"),
    ]
