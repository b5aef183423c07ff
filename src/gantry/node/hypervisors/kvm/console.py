"""Finds a running guest's console: the serial console, else VNC, else SPICE (contracts/remote-api.md#console)."""

from asyncio import timeout

import msgspec

from gantry.node.hypervisors.kvm import blockdev_args, display_args, guest_records, qmp
from gantry.rpc import calls
from gantry.runtime import interface

# Ctrl-] closes the console, as with telnet.
SOCAT = ("socat", "-,raw,echo=0,escape=0x1d")


class _Vnc(msgspec.Struct):
    service: str = "0"


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
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            port = int(msgspec.json.decode(await control.execute("query-vnc"), type=_Vnc).service)
        return calls.Console(instance=name, kind="vnc", host=address, port=port, display=port - display_args.VNC_FIRST)


def _none(name: str, message: str) -> calls.Console:
    return calls.Console(instance=name, kind="message", message=message)
