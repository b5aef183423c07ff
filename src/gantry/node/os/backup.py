"""Exports on a node, and the streams that copy disks into exports and back.

    <paths.exports>/<name>/config.ini           the description of the export, written by the master
    <paths.exports>/<name>/<disk uuid>          a dump per disk
    <paths.exports>/<name>.new/                 an incomplete export
    <paths.exports>/.newest                     the name of the last completed export

A stream is a pipeline of programs on each side (``runtime.streams``): for a disk ``dd`` or the OS's script, and a
compressor; for a dump only ``cat`` or ``dd``. The listener of a stream has the node's certificate, the sender has the
token that the master has passed to both. A stream that the master has abandoned ends by its timeouts.
"""

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gantry import errors
from gantry.lib_files import member as member_file
from gantry.node import call_table, drivers, permits
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
MAX_UNCLAIMED_RESULTS = 64
"""How many results of ended streams are kept for a ``StreamClose``."""
FAILURE_TIMEOUT_SECONDS = 1.0
"""For a failed program's exit code, when its stream is cancelled."""


@dataclass(frozen=True)
class _End:
    """A prepared end of a stream: its programs, which can read and write the disks until ``resources`` is closed."""

    request: calls.StreamEnd
    stages: Sequence[commands.Stage]
    resources: contextlib.AsyncExitStack


class Backup:
    """The exports and streams of a node; ``secure`` as in ``membership.enrollment.Enrolment``."""

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
        self._tls = stream_tls.Contexts(runtime.disk, folders, secure=secure)
        self._arrivals: dict[str, tuple[commands.BulkListener, asyncio.Task[calls.Streamed]]] = {}
        self._departures: dict[str, asyncio.Future[commands.Streamed]] = {}

    def add_to(self, table: call_table.Table) -> None:
        """Add all calls to a table."""
        table.add(calls.StreamOpen, self._open)
        table.add(calls.StreamSend, self._send)
        table.add(calls.StreamProgress, self._progress)
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
        for token in [token for token, (_, task) in self._arrivals.items() if task.done()][:-MAX_UNCLAIMED_RESULTS]:
            del self._arrivals[token]
        end = await self._ready(call.end, source=False)
        try:
            arrival = await self._runtime.streams.listen(self._address(), token=call.token, tls=self._tls.server())
        except OSError as error:
            await end.resources.aclose()
            raise errors.EnvironmentFaultError(
                f"node {self._registry.node} cannot listen for a stream: {error}"
            ) from None
        receiving = asyncio.ensure_future(self._receive(arrival, end))
        permits.keep(receiving)
        # Nobody asks for the result if the master's job has ended; asyncio would log its error with a traceback.
        receiving.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._arrivals[call.token] = arrival, receiving
        return arrival.port

    async def _receive(self, arrival: commands.BulkListener, end: _End) -> calls.Streamed:
        async with end.resources:
            try:
                streamed = await arrival.receive(end.stages, timeout=calls.StreamSend.LIMIT)
            except OSError as error:
                raise errors.RemoteError(f"{_subject(end.request)}: the stream was interrupted: {error}") from None
            return await self._result(end, streamed)

    async def _send(self, call: calls.StreamSend) -> calls.Streamed:
        end = await self._ready(call.end, source=True)
        async with end.resources:
            await permits.confirm()
            sending = self._departures[call.token] = asyncio.ensure_future(
                self._runtime.streams.send(
                    end.stages,
                    host=call.host,
                    port=call.port,
                    token=call.token,
                    tls=self._tls.client(),
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
            return await self._result(end, _sent(call, sending))

    async def _result(self, end: _End, streamed: commands.Streamed) -> calls.Streamed:
        """Return the result of an ended stream, log an OS script's messages; ExecutionError if a program failed.

        If several programs failed, the error names one that did not fail because of a broken pipe.
        """
        messages, log = b"".join(done.stderr for done in streamed.exits), ""
        if end.request.scripted and end.request.instance:
            log = await self._definitions.log("import" if _is_sink(end) else "export", end.request.instance, messages)
        failed = [
            (stage, done) for stage, done in zip(end.stages, streamed.exits, strict=True) if done.code not in (0, *PIPE)
        ] or [(stage, done) for stage, done in zip(end.stages, streamed.exits, strict=True) if done.code]
        if failed:
            stage, done = failed[0]
            raise errors.ExecutionError(
                f"{_subject(end.request)}: {stage.arguments[0]} failed with exit code {done.code}: "
                f"{os_definitions.last_lines(done.stderr) or 'no error message'}",
                hint=f"the whole output is in {log} on node {self._registry.node}" if log else "",
            )
        return calls.Streamed(size=streamed.size, digest=streamed.digest)

    async def _progress(self, call: calls.StreamProgress) -> int:
        return self._arrival(call.token)[0].received

    async def _close(self, call: calls.StreamClose) -> calls.Streamed:
        streamed = await asyncio.shield(self._arrival(call.token)[1])
        self._arrivals.pop(call.token, None)
        return streamed

    def _arrival(self, token: str) -> tuple[commands.BulkListener, asyncio.Task[calls.Streamed]]:
        if token not in self._arrivals:
            raise errors.NotFoundError(
                f"node {self._registry.node} does not know this stream",
                hint="if its node daemon was restarted, repeat the job",
            )
        return self._arrivals[token]

    async def _cancel(self, call: calls.StreamCancel) -> str:
        """Cancel a stream and return why its receiving program failed, empty if that is not the reason.

        The sender's error about the lost connection may arrive before the receiver's error that is its cause.
        """
        if sending := self._departures.get(call.token):
            sending.cancel()
            await asyncio.wait([sending])
        arrival, task = self._arrivals.pop(call.token, (None, None))
        if arrival is None or task is None:
            return ""
        await asyncio.wait([task], timeout=FAILURE_TIMEOUT_SECONDS)
        await arrival.close()
        await asyncio.wait([task])
        fault = None if task.cancelled() else task.exception()
        return str(fault) if isinstance(fault, errors.ExecutionError) else ""

    async def _ready(self, end: calls.StreamEnd, *, source: bool) -> _End:
        """Prepare to read (``source``) or write an end: determine its programs, make its disks accessible to them."""
        resources = contextlib.AsyncExitStack()
        async with contextlib.AsyncExitStack() as on_failure:
            on_failure.push_async_callback(resources.aclose)
            if end.disk is None:
                stages = [await self._dump(end, source=source)]
            else:
                stages = await self._device(end, end.disk, resources=resources, source=source)
            for stage in stages:
                await self._check_program(stage.arguments[0])
            on_failure.pop_all()
        return _End(end, stages, resources)

    async def _dump(self, end: calls.StreamEnd, *, source: bool) -> commands.Stage:
        if source:
            return _stage("cat", "--", f"{self._folder(end.export)}/{_checked(end.dump)}")
        folder = f"{self._folder(end.export)}.new"
        await self._disk.make_directory(folder, mode=0o700)
        return _stage(
            "dd", f"of={folder}/{_checked(end.dump)}", "bs=1M", "iflag=fullblock", "conv=fsync", "status=none"
        )

    async def _device(
        self, end: calls.StreamEnd, disk: calls.Disk, *, resources: contextlib.AsyncExitStack, source: bool
    ) -> list[commands.Stage]:
        script_disks = end.instance.disks if end.instance and end.scripted else ()
        disks = {each.uuid: each for each in (*script_disks, disk)}
        device_paths: Mapping[str, str] = await resources.enter_async_context(
            self._registry.exposed(list(disks.values()))
        )
        device = device_paths[disk.uuid]
        if end.scripted and end.instance:
            script = self._definitions.stage(
                end.instance, "export" if source else "import", device_paths, disk=disk, device=device, debug=end.debug
            )
        elif source:
            # A volume may be a little larger than its disk; only the disk's size is exported.
            script = _stage("dd", f"if={device}", "bs=1M", f"count={disk.size}", "iflag=fullblock", "status=none")
        else:
            # A new file is all zeros, so zeros need not be written; a volume can contain any old data.
            conversion = "notrunc,nocreat,fsync" + (",sparse" if disk.dev_type in (file.OWN, file.SHARED) else "")
            script = _stage(
                "dd", f"of={device}", "bs=1M", f"count={disk.size}", "iflag=fullblock", f"conv={conversion}",
                "status=none",
            )  # fmt: skip
        if end.compress == "none":
            return [script]
        if end.compress not in COMPRESSORS:
            raise errors.InvalidError(
                f"{end.compress!r} is not a compression method", hint=f"use none, {', '.join(COMPRESSORS)}"
            )
        command = COMPRESSORS[end.compress]
        return [script, _stage(*command)] if source else [_stage(*command[:1], *_decompress(command)), script]

    async def _check_program(self, name: str) -> None:
        if "/" in name:
            return
        folders = programs.ENVIRONMENT["PATH"].split(":")
        if not any(self._disk.exists(f"{folder}/{name}") for folder in folders):
            raise errors.EnvironmentFaultError(
                f"node {self._registry.node} has no program {name}", hint=f"install the package {name} there"
            )

    def _address(self) -> str:
        member = member_file.decode(self._disk.read(member_file.path(self._certificates)))
        return member.address

    def _folder(self, export: str) -> str:
        return f"{self._root}/{_checked(export)}"

    async def _finalize(self, call: calls.ExportFinalize) -> None:
        folder = self._folder(call.export)
        if not self._disk.exists(f"{folder}.new"):
            self._existing(call.export)
            return
        await self._disk.write(f"{folder}.new/config.ini", call.description.encode(), mode=0o600)
        await self._disk.remove_tree(folder)
        await self._disk.rename({f"{folder}.new": folder})
        # This write syncs the folder with the new name. A sync of the file system could take as long as the export did.
        await self._disk.write(f"{self._root}/.newest", call.export.encode(), mode=0o600)

    async def _discard(self, call: calls.ExportDiscard) -> None:
        await self._disk.remove_tree(f"{self._folder(call.export)}.new")

    def _existing(self, export: str) -> str:
        folder = self._folder(export)
        if not self._disk.exists(f"{folder}/config.ini"):
            raise errors.NotFoundError(
                f"node {self._registry.node} has no export {export}", hint="see gnt-backup list for the exports"
            )
        return folder

    async def _info(self, call: calls.ExportInfo) -> str:
        return self._disk.read(f"{self._existing(call.export)}/config.ini").decode(errors="replace")

    async def _dumps(self, call: calls.ExportDumpList) -> tuple[str, ...]:
        return tuple(name for name in self._disk.names(self._existing(call.export)) if name != "config.ini")

    async def _verify(self, call: calls.ExportVerify) -> dict[str, str]:
        folder = self._existing(call.export)
        dumps = [dump for dump in call.dumps if self._disk.exists(f"{folder}/{_checked(dump)}")]
        digests = await asyncio.gather(*(self._disk.digest(f"{folder}/{dump}") for dump in dumps))
        return dict(zip(dumps, digests, strict=True))

    async def _list(self, call: calls.ExportList) -> tuple[str, ...]:
        names = self._disk.names(self._root) if self._disk.exists(self._root) else []
        return tuple(name for name in names if self._disk.exists(f"{self._root}/{name}/config.ini") and _whole(name))

    async def _remove(self, call: calls.ExportRemove) -> bool:
        folder = self._folder(call.export)
        existed = self._disk.exists(folder)
        await self._disk.remove_tree(folder)
        return existed


def _stage(*arguments: str) -> commands.Stage:
    return commands.Stage(arguments, environment=programs.ENVIRONMENT, tracked=True)


def _decompress(command: Sequence[str]) -> list[str]:
    """Return the options with which a compressor decompresses."""
    return ["-q", "-dc"] if "-q" in command else ["-dc"]


def _checked(name: str) -> str:
    """Return the name of an export or a dump if it is valid: a single path component, never outside of its folder."""
    if not name or name.startswith(".") or "/" in name or "\0" in name or not _whole(name):
        raise errors.InvalidError(f"{name!r} is not a valid name of an export or a dump")
    return name


def _sent(call: calls.StreamSend, sending: asyncio.Future[commands.Streamed]) -> commands.Streamed:
    """Return the result of a stream that has ended; ExecutionError if it failed."""
    name = _subject(call.end)
    if sending.cancelled():
        raise errors.ExecutionError(f"{name}: the stream was cancelled")
    try:
        return sending.result()
    except TimeoutError:
        raise errors.ExecutionError(f"{name}: the stream timed out after {calls.StreamSend.LIMIT:.0f} s") from None
    except OSError as error:
        raise errors.ExecutionError(f"{name} could not be sent to {call.host}: {error}") from None


def _whole(name: str) -> bool:
    return not name.endswith(".new")


def _is_sink(end: _End) -> bool:
    return end.stages[-1].arguments[0].endswith("/import")


def _subject(end: calls.StreamEnd) -> str:
    if end.disk is None:
        return f"dump {end.dump} of export {end.export}"
    return f"disk {end.disk.index}" + (f" of {end.instance.name}" if end.instance else "")
