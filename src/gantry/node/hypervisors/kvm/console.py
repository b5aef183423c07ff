"""Finds a running guest's console: the serial console, else VNC, else SPICE (contracts/remote-api.md#console).

It also connects to a console for the node daemon, which passes its bytes on. QEMU serves one client of the serial
console at a time: the connection of a second one is accepted, and says nothing until the first has ended. Clients of
VNC share the screen.
"""

from asyncio import timeout

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import blockdev_args, display_args, guest_records, qmp
from gantry.rpc import calls
from gantry.runtime import bytestream, frames, interface

# Ctrl-] closes the console, as with telnet.
SOCAT = ("socat", "-,raw,echo=0,escape=0x1d")

RELEASE_SECONDS = 2.0
"""How long QEMU may take to notice that the former client of a serial console has gone."""
RELEASE_POLL_SECONDS = 0.1

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server that listens on all addresses is reached on its own machine."""


class _Vnc(msgspec.Struct):
    service: str = "0"


class _Device(msgspec.Struct):
    """A character device of QEMU; ``filename`` begins with "disconnected:" while its socket has no client."""

    label: str
    filename: str


class Consoles:
    """The consoles of a node's guests."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._runtime = runtime
        self._guests = guests

    async def find(self, name: str) -> calls.Console:
        """Return how to reach a guest's console, or a message why there is none."""
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is None:
            return _none(name, f"instance {name} does not run")
        if self._runtime.disk.exists(self._guests.files(name).serial):
            return await self._serial(name)
        instance = record.instance
        if instance is not None and (address := blockdev_args.text(instance, "vnc_bind_address")):
            return await self._vnc(name, address)
        if instance is not None and (address := blockdev_args.text(instance, "spice_bind")):
            return calls.Console(instance=name, kind="spice", host=address, port=instance.network_port)
        return _none(name, f"instance {name} was started without serial_console, VNC and SPICE")

    async def _serial(self, name: str) -> calls.Console:
        try:
            await self._runtime.processes.run([SOCAT[0], "-V"])
        except FileNotFoundError:
            return _none(name, f"node {self._runtime.host} has no socat: install the package socat there")
        command = (*SOCAT, f"UNIX-CONNECT:{self._guests.files(name).serial}")
        return calls.Console(instance=name, kind="socat", host=self._runtime.host, command=command)

    async def _vnc(self, name: str, address: str) -> calls.Console:
        if address.startswith("/"):
            path = f"{address}/{name}.vnc"
            return _none(name, f"VNC of instance {name} is the socket {path} on node {self._runtime.host}")
        port = await self._vnc_port(name)
        return calls.Console(instance=name, kind="vnc", host=address, port=port, display=port - display_args.VNC_FIRST)

    async def _vnc_port(self, name: str) -> int:
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            return int(msgspec.json.decode(await control.execute("query-vnc"), type=_Vnc).service)

    async def connect(self, name: str, kind: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        """Return a stream to a guest's console; errors as ``drivers.Hypervisor.connect_console``."""
        record = self._guests.record(name)
        if record is None or self._guests.pid(name) is None:
            raise errors.WrongStateError(f"instance {name} does not run", hint=f"gnt-instance start {name}")
        try:
            if kind == "serial":
                return await self._connect_serial(name)
            return await self._connect_vnc(record)
        except OSError as error:
            raise errors.HypervisorError(f"QEMU of instance {name} refuses its {kind} console: {error}") from None

    async def _connect_serial(self, name: str) -> tuple[bytestream.Reader, bytestream.Writer]:
        path = self._guests.files(name).serial
        if not self._runtime.disk.exists(path):
            raise errors.WrongStateError(
                f"instance {name} was started without a serial console",
                hint=f"gnt-instance modify -H serial_console=true {name}, then restart the instance",
            )
        until = self._runtime.clock.monotonic() + RELEASE_SECONDS
        while await self._has_client(name):
            if self._runtime.clock.monotonic() >= until:
                raise errors.NotUniqueError(
                    f"a program on node {self._runtime.host} has the serial console of instance {name}",
                    hint="if it is a gnt-instance console, end that with Ctrl-]",
                )
            await self._runtime.clock.sleep(RELEASE_POLL_SECONDS)
        return await self._runtime.network.connect_unix(path, limit=frames.PIECE_BYTES)

    async def _has_client(self, name: str) -> bool:
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            devices = msgspec.json.decode(await control.execute("query-chardev"), type=list[_Device])
        return any(each.label == "serial" and not each.filename.startswith("disconnected:") for each in devices)

    async def _connect_vnc(self, record: guest_records.Record) -> tuple[bytestream.Reader, bytestream.Writer]:
        name, instance, network = record.name, record.instance, self._runtime.network
        address = blockdev_args.text(instance, "vnc_bind_address") if instance else ""
        if instance is None or not address:
            raise errors.WrongStateError(
                f"instance {name} was started without VNC",
                hint=f"gnt-instance modify -H vnc_bind_address=127.0.0.1 {name}, then restart the instance",
            )
        if instance.hvparams.get("vnc_tls"):
            raise errors.WrongStateError(
                f"VNC of instance {name} is encrypted, which no browser speaks",
                hint=f"gnt-instance modify -H vnc_tls=false {name}, then restart the instance",
            )
        if address.startswith("/"):
            return await network.connect_unix(f"{address}/{name}.vnc", limit=frames.PIECE_BYTES)
        host, port = _ANY_ADDRESS.get(address, address), await self._vnc_port(name)
        return await network.connect_port(host, port, tls=None, limit=frames.PIECE_BYTES)


def _none(name: str, message: str) -> calls.Console:
    return calls.Console(instance=name, kind="message", message=message)
