"""Exports on a node, and the streams that fill them and that fill disks from them.

    <paths.exports>/<name>/config.ini           what was exported, written by the master
    <paths.exports>/<name>/<disk uuid>          a dump per disk
    <paths.exports>/<name>.new/                 an export that is not finished yet
    <paths.exports>/.newest                     the name of the last that was finished

A stream is a pipeline on each side (``runtime.streams``): at the end that is a disk ``dd``, or the OS's script, and a
compressor; at the end that is a dump ``cat`` or ``dd`` alone. Who waits for a stream shows the node's certificate, who
sends it the token that the master gave to both. What nobody asks for any more ends by its time limits.
"""

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.node import call_table, drivers
from gantry.node.membership import enrollment
from gantry.node.os import os_definitions, stream_tls
from gantry.node.storage import file, programs
from gantry.rpc import calls
from gantry.runtime import commands, interface, paths

COMPRESSORS = {
    "gzip": ("gzip", "-c"),
    "gzip-fast": ("gzip", "-c1"),
    "gzip-slow": ("gzip", "-c9"),
    "zstd": ("zstd", "-q", "-c"),
    "lzop": ("lzop", "-c"),
}
PIPE = (-signal.SIGPIPE, 128 + signal.SIGPIPE)
# streams that are over and that nobody asked how they ended
REMEMBERED = 64
# seconds for a program that failed to be reaped
GRACE = 1.0


@dataclass(frozen=True)
class _End:
    """An end of a stream, ready: its programs, and what they are shown while ``shown`` is open."""

    of: calls.StreamEnd
    stages: Sequence[commands.Stage]
    shown: contextlib.AsyncExitStack


class Backup:
    """The exports and streams of one node; ``secure`` as in ``membership.enrollment.Enrolment``."""

    def __init__(
        self,
        runtime: interface.Runtime,
        folders: paths.Paths,
        *,
        registry: drivers.Registry,
        definitions: os_definitions.Definitions,
        secure: bool = True,
    ) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self._root = folders.exports
        self._certificates = folders.certificates
        self._registry = registry
        self._definitions = definitions
        self._channels = stream_tls.Channels(runtime.disk, folders, secure=secure)
        self._arrivals: dict[str, tuple[commands.Arrival, asyncio.Task[calls.Streamed]]] = {}
        self._departures: dict[str, asyncio.Future[commands.Streamed]] = {}

    def add_to(self, table: call_table.Table) -> None:
        """Add all calls to a table."""
        table.add(calls.StreamOpen, self._open)
        table.add(calls.StreamSend, self._send)
        table.add(calls.StreamClose, self._close)
        table.add(calls.StreamCancel, self._cancel)
        table.add(calls.ExportFinalize, self._finalize)
        table.add(calls.ExportDiscard, self._discard)
        table.add(calls.ExportInfo, self._info)
        table.add(calls.ExportDumpList, self._dumps)
        table.add(calls.ExportVerify, self._verify)
        table.add(calls.ExportList, self._list)
        table.add(calls.ExportRemove, self._remove)

    async def _open(self, call: calls.StreamOpen) -> int:
        if call.token in self._arrivals:
            return self._arrivals[call.token][0].port
        for token in [token for token, (_, task) in self._arrivals.items() if task.done()][:-REMEMBERED]:
            del self._arrivals[token]
        end = await self._ready(call.end, source=False)
        try:
            arrival = await self._runtime.streams.listen(self._address(), token=call.token, tls=self._channels.here())
        except OSError as error:
            await end.shown.aclose()
            raise errors.EnvironmentFaultError(
                f"node {self._registry.node} cannot listen for a stream: {error}"
            ) from None
        self._arrivals[call.token] = arrival, asyncio.ensure_future(self._receive(arrival, end))
        return arrival.port

    async def _receive(self, arrival: commands.Arrival, end: _End) -> calls.Streamed:
        async with end.shown:
            try:
                streamed = await arrival.receive(end.stages, timeout=calls.StreamSend.LIMIT)
            except OSError as error:
                raise errors.RemoteError(f"{_named(end.of)}: the stream broke off: {error}") from None
            return await self._ended(end, streamed)

    async def _send(self, call: calls.StreamSend) -> calls.Streamed:
        end = await self._ready(call.end, source=True)
        async with end.shown:
            sending = self._departures[call.token] = asyncio.ensure_future(
                self._runtime.streams.send(
                    end.stages,
                    host=call.host,
                    port=call.port,
                    token=call.token,
                    tls=self._channels.there(),
                    timeout=calls.StreamSend.LIMIT,
                )
            )
            try:
                await asyncio.wait([sending])
            finally:
                sending.cancel()
                await asyncio.wait([sending])
                if self._departures.get(call.token) is sending:
                    del self._departures[call.token]
            return await self._ended(end, _sent(call, sending))

    async def _ended(self, end: _End, streamed: commands.Streamed) -> calls.Streamed:
        """Keep what an OS script said; raise ExecutionError for the program that failed by itself."""
        said, log = b"".join(done.stderr for done in streamed.ended), ""
        if end.of.scripted and end.of.instance:
            log = await self._definitions.log("import" if _is_sink(end) else "export", end.of.instance, said)
        failed = [
            (stage, done) for stage, done in zip(end.stages, streamed.ended, strict=True) if done.code not in (0, *PIPE)
        ] or [(stage, done) for stage, done in zip(end.stages, streamed.ended, strict=True) if done.code]
        if failed:
            stage, done = failed[0]
            raise errors.ExecutionError(
                f"{_named(end.of)}: {stage.arguments[0]} failed with exit code {done.code}: "
                f"{os_definitions.last_lines(done.stderr) or 'it did not say why'}",
                hint=f"all that was said is in {log} on node {self._registry.node}" if log else "",
            )
        return calls.Streamed(size=streamed.size, digest=streamed.digest)

    async def _close(self, call: calls.StreamClose) -> calls.Streamed:
        if call.token not in self._arrivals:
            raise errors.NotFoundError(
                "nobody waits for such a stream here", hint="has the node daemon been restarted?"
            )
        streamed = await asyncio.shield(self._arrivals[call.token][1])
        self._arrivals.pop(call.token, None)
        return streamed

    async def _cancel(self, call: calls.StreamCancel) -> str:
        """Break off; the sender's complaint that it was hung up on may be faster than what it was hung up for."""
        if sending := self._departures.get(call.token):
            sending.cancel()
            await asyncio.wait([sending])
        arrival, task = self._arrivals.pop(call.token, (None, None))
        if arrival is None or task is None:
            return ""
        await asyncio.wait([task], timeout=GRACE)
        await arrival.close()
        await asyncio.wait([task])
        fault = None if task.cancelled() else task.exception()
        return str(fault) if isinstance(fault, errors.ExecutionError) else ""

    async def _ready(self, end: calls.StreamEnd, *, source: bool) -> _End:
        """Find out how an end is read (``source``) or written; what has to be shown for it is shown."""
        shown = contextlib.AsyncExitStack()
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(shown.aclose)
            if end.disk is None:
                stages = [await self._dump(end, source=source)]
            else:
                stages = await self._device(end, end.disk, shown=shown, source=source)
            for stage in stages:
                await self._check_program(stage.arguments[0])
            on_failure.pop_all()
        return _End(end, stages, shown)

    async def _dump(self, end: calls.StreamEnd, *, source: bool) -> commands.Stage:
        if source:
            return _stage("cat", "--", f"{self._folder(end.export)}/{_checked(end.dump)}")
        folder = f"{self._folder(end.export)}.new"
        await self._disk.make_directory(folder, mode=0o700)
        return _stage(
            "dd", f"of={folder}/{_checked(end.dump)}", "bs=1M", "iflag=fullblock", "conv=fsync", "status=none"
        )

    async def _device(
        self, end: calls.StreamEnd, disk: calls.Disk, *, shown: contextlib.AsyncExitStack, source: bool
    ) -> list[commands.Stage]:
        others = end.instance.disks if end.instance and end.scripted else ()
        wanted = {one.uuid: one for one in (*others, disk)}
        where: Mapping[str, str] = await shown.enter_async_context(self._registry.exposed(list(wanted.values())))
        device = where[disk.uuid]
        if end.scripted and end.instance:
            script = self._definitions.stage(
                end.instance, "export" if source else "import", where, disk=disk, device=device, debug=end.debug
            )
        elif source:
            # A volume may be a little larger than its disk, which is all that is to be kept.
            script = _stage("dd", f"if={device}", "bs=1M", f"count={disk.size}", "iflag=fullblock", "status=none")
        else:
            # A file was made for this and is all zeros; what is on a volume may be anything.
            conversion = "notrunc,nocreat,fsync" + (",sparse" if disk.dev_type in (file.OWN, file.SHARED) else "")
            script = _stage(
                "dd", f"of={device}", "bs=1M", f"count={disk.size}", "iflag=fullblock", f"conv={conversion}",
                "status=none",
            )  # fmt: skip
        if end.compress == "none":
            return [script]
        if end.compress not in COMPRESSORS:
            raise errors.InvalidError(
                f"{end.compress!r} is no compression", hint=f"there are none, {', '.join(COMPRESSORS)}"
            )
        command = COMPRESSORS[end.compress]
        return [script, _stage(*command)] if source else [_stage(*command[:1], *_back(command)), script]

    async def _check_program(self, name: str) -> None:
        if "/" in name:
            return
        folders = programs.ENVIRONMENT["PATH"].split(":")
        if not any(self._disk.exists(f"{folder}/{name}") for folder in folders):
            raise errors.EnvironmentFaultError(
                f"node {self._registry.node} has no program {name}", hint=f"install the package {name} there"
            )

    def _address(self) -> str:
        member = msgspec.json.decode(self._disk.read(f"{self._certificates}/member.json"), type=enrollment.Member)
        return member.address

    def _folder(self, export: str) -> str:
        return f"{self._root}/{_checked(export)}"

    async def _finalize(self, call: calls.ExportFinalize) -> None:
        folder = self._folder(call.export)
        if not self._disk.exists(f"{folder}.new"):
            self._needed(call.export)
            return
        await self._disk.write(f"{folder}.new/config.ini", call.description.encode(), mode=0o600)
        await self._disk.remove_tree(folder)
        await self._disk.rename({f"{folder}.new": folder})
        # Brings the names in this folder to storage: to sync the file system could take as long as the export did.
        await self._disk.write(f"{self._root}/.newest", call.export.encode(), mode=0o600)

    async def _discard(self, call: calls.ExportDiscard) -> None:
        await self._disk.remove_tree(f"{self._folder(call.export)}.new")

    def _needed(self, export: str) -> str:
        folder = self._folder(export)
        if not self._disk.exists(f"{folder}/config.ini"):
            raise errors.NotFoundError(
                f"node {self._registry.node} has no export {export}", hint="gnt-backup list shows those there are"
            )
        return folder

    async def _info(self, call: calls.ExportInfo) -> str:
        return self._disk.read(f"{self._needed(call.export)}/config.ini").decode(errors="replace")

    async def _dumps(self, call: calls.ExportDumpList) -> tuple[str, ...]:
        return tuple(name for name in self._disk.names(self._needed(call.export)) if name != "config.ini")

    async def _verify(self, call: calls.ExportVerify) -> dict[str, str]:
        folder = self._needed(call.export)
        there = [dump for dump in call.dumps if self._disk.exists(f"{folder}/{_checked(dump)}")]
        done = await asyncio.gather(*(self._disk.digest(f"{folder}/{dump}") for dump in there))
        return dict(zip(there, done, strict=True))

    async def _list(self, call: calls.ExportList) -> tuple[str, ...]:
        names = self._disk.names(self._root) if self._disk.exists(self._root) else []
        return tuple(name for name in names if self._disk.exists(f"{self._root}/{name}/config.ini") and _whole(name))

    async def _remove(self, call: calls.ExportRemove) -> bool:
        folder = self._folder(call.export)
        found = self._disk.exists(folder)
        await self._disk.remove_tree(folder)
        return found


def _stage(*arguments: str) -> commands.Stage:
    return commands.Stage(arguments, environment=programs.ENVIRONMENT)


def _back(command: Sequence[str]) -> list[str]:
    """Return the options of a compressor that decompress."""
    return ["-q", "-dc"] if "-q" in command else ["-dc"]


def _checked(name: str) -> str:
    """Return the name of an export or a dump: one name of a folder, never a way out of it."""
    if not name or name.startswith(".") or "/" in name or "\0" in name or not _whole(name):
        raise errors.InvalidError(f"{name!r} cannot be the name of an export or a dump")
    return name


def _sent(call: calls.StreamSend, sending: asyncio.Future[commands.Streamed]) -> commands.Streamed:
    """Return what went over a stream that has ended; raises ExecutionError."""
    name = _named(call.end)
    if sending.cancelled():
        raise errors.ExecutionError(f"{name}: the stream was broken off")
    try:
        return sending.result()
    except TimeoutError:
        raise errors.ExecutionError(f"{name} could not be sent in {calls.StreamSend.LIMIT:.0f} s") from None
    except OSError as error:
        raise errors.ExecutionError(f"{name} could not be sent to {call.host}: {error}") from None


def _whole(name: str) -> bool:
    return not name.endswith(".new")


def _is_sink(end: _End) -> bool:
    return end.stages[-1].arguments[0].endswith("/import")


def _named(end: calls.StreamEnd) -> str:
    if end.disk is None:
        return f"dump {end.dump} of export {end.export}"
    return f"disk {end.disk.index}" + (f" of {end.instance.name}" if end.instance else "")
