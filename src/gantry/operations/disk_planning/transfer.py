"""Copying a disk's data between two nodes, for the units that export, import and move.

The master makes one node listen for a stream and the other send it; the data does not pass through the master. Both
nodes report the size, the receiver also a checksum. TLS protects the stream against changes on the way.
"""

from collections.abc import Awaitable, Callable

from msgspec import structs

from gantry import errors
from gantry.model import instance
from gantry.operations import base, cancellable, progress
from gantry.rpc import calls, targets

MIB = 1 << 20

Side = tuple[targets.Target, calls.Instance]
"""A node, and an instance with its disks as that node sees them."""


class Transfer:
    """A stream between two nodes, or inside a node; after ``run``, ``done`` is what the receiver reported."""

    def __init__(self, environment: base.Environment, *, source: targets.Target, sink: targets.Target) -> None:
        self._environment = environment
        self._nodes = environment.nodes
        self._source = source
        self._sink = sink
        self._token = environment.inputs.uuid()
        self._meter: progress.Meter | None = None
        self.done: calls.Streamed | None = None

    async def run(self, begin: calls.StreamEnd, end: calls.StreamEnd) -> None:
        """Send from ``begin`` to ``end``; raises ExecutionError and the errors of the nodes.

        When the job is canceled meanwhile, the programs of both ends are killed.
        """
        port = await self._nodes.call(self._sink, calls.StreamOpen(token=self._token, end=end))
        send = calls.StreamSend(token=self._token, host=self._sink.address, port=port, end=begin)
        meter = self._meter = _meter(self._environment, begin, end)
        sending = self._nodes.call(self._source, send)
        try:
            sent = await cancellable.run(self._environment, sending, self._stop, look=self._look)
        except errors.JobCanceledError:
            raise
        except errors.GantryError as error:
            raise await self._cause(error) from None
        finally:
            self._meter = None
            meter.end()
        received = await self._nodes.call(self._sink, calls.StreamClose(token=self._token))
        if sent.size != received.size:
            raise errors.ExecutionError(
                f"node {self._source.name} sent {sent.size} bytes, node {self._sink.name} received {received.size}"
            )
        self.done = received

    def procedure(self, run: Callable[[], Awaitable[None]]) -> base.Procedure:
        """Return the action of a step that copies by this transfer."""
        return base.Procedure("connects two nodes, stops when the job is canceled, compares the sizes of both", run)

    @property
    def undo(self) -> base.Procedure:
        """Return the undo of a step that copies by this transfer."""

        async def cancel() -> None:
            await self.cancel()

        return base.Procedure("ignores a node that does not answer: it has dropped the stream itself", cancel)

    async def _look(self) -> None:
        """Report how much has arrived; never again if the receiver does not say, as one of an earlier version."""
        meter = self._meter
        if meter is None:
            return
        try:
            received = await self._nodes.call(self._sink, calls.StreamProgress(token=self._token))
        except errors.GantryError:
            self._meter = None
        else:
            meter.report(received / MIB)

    async def _stop(self) -> None:
        await self._nodes.call(self._source, calls.StreamCancel(token=self._token))
        await self.cancel()

    async def _cause(self, error: errors.GantryError) -> errors.GantryError:
        """Return the original error: a sender only notices that the receiver closed the connection."""
        fault = await self.cancel()
        return errors.ExecutionError(f"node {self._sink.name}: {fault}") if fault else error

    async def cancel(self) -> str:
        """Break off the stream; return the error of the receiving end, if any."""
        try:
            return await self._nodes.call(self._sink, calls.StreamCancel(token=self._token))
        except errors.RemoteError:
            return ""  # a node that does not answer breaks off the stream itself


def _meter(environment: base.Environment, begin: calls.StreamEnd, end: calls.StreamEnd) -> progress.Meter:
    """Return a meter for a stream; its size is known in advance if it is neither compressed nor that of a script."""
    disk, ends = begin.disk or end.disk, (begin, end)
    is_plain = all(side.compress == "none" and not side.scripted for side in ends)
    return progress.Meter(
        environment, f"disk {disk.index}" if disk else "stream", total=disk.size if disk and is_plain else 0
    )


def copies(environment: base.Environment, source: Side, sink: Side, *, compress: str = "none") -> list[base.Step]:
    """Return the steps that copy the disks of an instance, one step for each; the disks are active on both sides."""
    return [_copy(environment, source, sink, index=index, compress=compress) for index in range(len(source[1].disks))]


def _copy(environment: base.Environment, source: Side, sink: Side, *, index: int, compress: str) -> base.Step:
    (sender, old), (receiver, new) = source, sink
    transfer = Transfer(environment, source=sender, sink=receiver)
    begin, end = (calls.StreamEnd(instance=vm, disk=vm.disks[index], compress=compress) for vm in (old, new))

    async def copy() -> None:
        await transfer.run(begin, end)
        if transfer.done:
            environment.log.info(f"disk {index}: copied and compared {transfer.done.size >> 20} MiB")

    kinds = "" if old.disk_template == new.disk_template else f", from {old.disk_template} to {new.disk_template}"
    return base.Step(
        f"copy disk {index} of {old.name} to {receiver.name}{kinds}", (transfer.procedure(copy),), (transfer.undo,)
    )


def writable(vm: instance.Instance) -> instance.Instance:
    """Return the instance with all disks writable, as a copy to them requires."""
    return structs.replace(vm, disks=tuple(structs.replace(disk, mode="rw") for disk in vm.disks))
