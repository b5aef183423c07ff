"""Exports and streams of one node, sent to itself; what is refused, and that nothing is left behind."""

import asyncio
import contextlib
import gzip
import os
import pathlib
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.node import samples

from gantry import errors
from gantry.lib_files import member as member_file
from gantry.node import call_table
from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.node.os import backup, os_definitions
from gantry.node.storage import programs
from gantry.rpc import calls
from gantry.runtime import paths

TOKEN = "a-token"
Ask = Callable[[calls.Call[object]], Awaitable[object]]


@pytest.fixture
def ask(folders: paths.Paths) -> Ask:
    """Return what makes a call to a node that has joined a cluster; its streams are not encrypted."""
    runtime = samples.runtime()
    registry = wiring.registry(
        runtime, folders, accelerators=accelerator_probe.Accelerators(runtime, folders, bootid="")
    )
    definitions = os_definitions.Definitions(runtime, folders, registry=registry)
    os.makedirs(folders.certificates)
    member = member_file.Member(cluster="lab", node="node1", uuid="u", address="127.0.0.1")
    samples.write(f"{folders.certificates}/member.json", msgspec.json.encode(member).decode())
    table = call_table.Table()
    backup.Backup(runtime, folders, registry=registry, definitions=definitions, secure=False).add_to(table)

    async def call(request: calls.Call[object]) -> object:
        return await table.answer(request.procedure(), msgspec.json.encode(request))

    return call


def disk_end(folders: paths.Paths, content: bytes, **more: object) -> calls.StreamEnd:
    disk = samples.disk(folders)
    path = pathlib.Path(disk.logical_id[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.ljust(disk.size << 20, b"\0"))
    return msgspec.structs.replace(calls.StreamEnd(instance=samples.instance(disks=(disk,)), disk=disk), **more)


DUMP = calls.StreamEnd(export="vm1", dump="dump0")


async def carry(ask: Ask, begin: calls.StreamEnd, into: calls.StreamEnd) -> tuple[object, object]:
    port = await ask(calls.StreamOpen(token=TOKEN, end=into))
    assert isinstance(port, int)
    sent = await ask(calls.StreamSend(token=TOKEN, host="127.0.0.1", port=port, end=begin))
    return sent, await ask(calls.StreamClose(token=TOKEN))


async def test_a_disk_goes_to_an_export_and_back(folders: paths.Paths, ask: Ask) -> None:
    end = disk_end(folders, b"content", compress="gzip")
    sent, came = await carry(ask, end, DUMP)
    assert isinstance(sent, calls.Streamed)
    assert isinstance(came, calls.Streamed)
    assert sent.size == came.size
    assert came.size < 1 << 20
    assert await ask(calls.ExportList()) == ()
    await ask(calls.ExportFinalize(export="vm1", description="text"))
    await ask(calls.ExportFinalize(export="vm1", description="text"))
    assert await ask(calls.ExportList()) == ("vm1",)
    assert await ask(calls.ExportInfo(export="vm1")) == "text"
    digests = await ask(calls.ExportVerify(export="vm1", dumps=("dump0", "missing")))
    assert digests == {"dump0": came.digest}
    disk_end(folders, b"")
    await carry(ask, DUMP, end)
    assert end.disk
    assert samples.read(end.disk.logical_id[-1]) == b"content".ljust(4 << 20, b"\0")
    assert [await ask(calls.ExportRemove(export="vm1")) for _ in range(2)] == [True, False]
    assert await ask(calls.ExportList()) == ()


def define_scripted(folders: paths.Paths) -> None:
    """Define the system of ``samples.instance`` with scripts that export 100 bytes of a disk and import them."""
    folder = pathlib.Path(folders.os_definitions[0], "busybox")
    folder.mkdir(parents=True)
    files = {
        "ganeti_api_version": "20\n",
        "variants.list": "small\n",
        "create": "#!/bin/sh\n",
        "export": '#!/bin/sh\nhead -c 100 "$EXPORT_DEVICE"\n',
        "import": '#!/bin/sh\ndd of="$IMPORT_DEVICE" conv=notrunc status=none\n',
    }
    for name, text in files.items():
        samples.write(f"{folder}/{name}", text, mode=0o755 if text.startswith("#!") else 0o644)


@pytest.mark.promise("cluster-122")
async def test_what_a_script_exports_is_compressed_and_its_import_gets_it_as_it_was(
    folders: paths.Paths, ask: Ask
) -> None:
    define_scripted(folders)
    end = disk_end(folders, b"content", compress="gzip", scripted=True)
    await carry(ask, end, DUMP)
    await ask(calls.ExportFinalize(export="vm1", description="text"))
    assert gzip.decompress(samples.read(f"{folders.exports}/vm1/dump0")) == b"content".ljust(100, b"\0")
    disk_end(folders, b"")
    await carry(ask, DUMP, end)
    assert end.disk
    assert samples.read(end.disk.logical_id[-1]) == b"content".ljust(4 << 20, b"\0")


async def test_an_end_that_is_opened_again_is_the_same(folders: paths.Paths, ask: Ask) -> None:
    opened = calls.StreamOpen(token=TOKEN, end=DUMP)
    assert await ask(opened) == await ask(opened)
    assert await ask(calls.StreamCancel(token=TOKEN)) == ""
    assert await ask(calls.StreamCancel(token=TOKEN)) == ""
    with pytest.raises(errors.NotFoundError, match="does not know this stream"):
        await ask(calls.StreamClose(token=TOKEN))


async def test_a_stream_into_a_full_disk_says_so(folders: paths.Paths, ask: Ask) -> None:
    os.makedirs(f"{folders.exports}/vm1.new")
    os.symlink("/dev/full", f"{folders.exports}/vm1.new/dump0")
    port = await ask(calls.StreamOpen(token=TOKEN, end=DUMP))
    assert isinstance(port, int)
    send = calls.StreamSend(token=TOKEN, host="127.0.0.1", port=port, end=disk_end(folders, b"content"))
    with pytest.raises(errors.ExecutionError, match="disk 0 of vm1 could not be sent"):
        await ask(send)
    assert "No space left on device" in str(await ask(calls.StreamCancel(token=TOKEN)))
    await ask(calls.ExportDiscard(export="vm1"))
    assert os.listdir(folders.exports) == []


async def opened_for_writing(pipe: str) -> int:
    """Open a named pipe as soon as a program reads from it."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            await asyncio.sleep(0.01)


async def test_a_stream_whose_programs_hang_is_broken_off_at_both_ends(folders: paths.Paths, ask: Ask) -> None:
    os.makedirs(f"{folders.exports}/vm1")
    os.mkfifo(f"{folders.exports}/vm1/dump0")
    end = disk_end(folders, b"content")
    port = await ask(calls.StreamOpen(token=TOKEN, end=end))
    assert isinstance(port, int)
    sending = asyncio.ensure_future(ask(calls.StreamSend(token=TOKEN, host="127.0.0.1", port=port, end=DUMP)))
    # The sender's program hangs, because nothing is written into the pipe that it has opened.
    writer = await opened_for_writing(f"{folders.exports}/vm1/dump0")
    assert not sending.done()
    assert await ask(calls.StreamCancel(token=TOKEN)) == ""
    with pytest.raises(errors.ExecutionError, match="dump dump0 of export vm1: the stream was cancelled"):
        await sending
    os.close(writer)
    assert await ask(calls.StreamCancel(token=TOKEN)) == ""
    with pytest.raises(errors.NotFoundError, match="does not know this stream"):
        await ask(calls.StreamClose(token=TOKEN))


async def test_the_receiver_says_how_much_has_arrived(folders: paths.Paths, ask: Ask) -> None:
    os.makedirs(f"{folders.exports}/vm1")
    os.mkfifo(f"{folders.exports}/vm1/dump0")
    port = await ask(calls.StreamOpen(token=TOKEN, end=disk_end(folders, b"content")))
    assert isinstance(port, int)
    assert await ask(calls.StreamProgress(token=TOKEN)) == 0
    sending = asyncio.ensure_future(ask(calls.StreamSend(token=TOKEN, host="127.0.0.1", port=port, end=DUMP)))
    writer = await opened_for_writing(f"{folders.exports}/vm1/dump0")
    os.write(writer, b"x" * 1000)
    async with asyncio.timeout(60):
        while True:
            if await ask(calls.StreamProgress(token=TOKEN)) == 1000:
                break
            await asyncio.sleep(0.01)
    os.close(writer)
    await sending
    assert await ask(calls.StreamProgress(token=TOKEN)) == 1000
    await ask(calls.StreamClose(token=TOKEN))
    with pytest.raises(errors.NotFoundError, match="does not know this stream"):
        await ask(calls.StreamProgress(token=TOKEN))


@pytest.mark.parametrize("name", ["", "..", ".hidden", "../x", "a/b", "x.new", "a\0b"])
async def test_no_name_leads_out_of_the_exports(ask: Ask, name: str) -> None:
    for call in (
        calls.ExportInfo(export=name),
        calls.ExportRemove(export=name),
        calls.ExportDiscard(export=name),
        calls.StreamOpen(token=TOKEN, end=calls.StreamEnd(export=name, dump="d")),
        calls.StreamOpen(token=TOKEN, end=calls.StreamEnd(export="x", dump=name)),
    ):
        with pytest.raises((errors.InvalidError, errors.ProtocolError), match=r"is not a valid name of an|at `\$\."):
            await ask(call)


async def test_what_a_node_lacks_is_said_before_anything_is_sent(
    folders: paths.Paths, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(programs.ENVIRONMENT, "PATH", folders.etc)
        with pytest.raises(errors.EnvironmentFaultError, match="has no program lzop; install the package lzop"):
            await ask(calls.StreamOpen(token=TOKEN, end=disk_end(folders, b"", compress="lzop")))
    with pytest.raises(errors.InvalidError, match="'zip' is not a compression method"):
        await ask(calls.StreamOpen(token=TOKEN, end=disk_end(folders, b"", compress="zip")))
    with pytest.raises(errors.NotFoundError, match="has no OS definition busybox"):
        await ask(calls.StreamOpen(token=TOKEN, end=disk_end(folders, b"", scripted=True)))


async def test_a_dump_that_is_no_archive_is_refused_by_its_compressor(folders: paths.Paths, ask: Ask) -> None:
    folder = pathlib.Path(folders.exports) / "vm1"
    folder.mkdir(parents=True)
    (folder / "dump0").write_bytes(b"no archive" * 1000)
    port = await ask(calls.StreamOpen(token=TOKEN, end=disk_end(folders, b"", compress="gzip")))
    assert isinstance(port, int)
    sending = ask(calls.StreamSend(token=TOKEN, host="127.0.0.1", port=port, end=DUMP))
    await asyncio.gather(sending, return_exceptions=True)
    with pytest.raises(errors.ExecutionError, match=r"gzip failed with exit code 1: .*not in gzip format"):
        await ask(calls.StreamClose(token=TOKEN))
