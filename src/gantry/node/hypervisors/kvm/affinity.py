"""Binds a guest to processors of the node (``cpu_mask``): the whole guest, or each of its virtual processors."""

from asyncio import timeout

import msgspec

from gantry import errors
from gantry.node.hypervisors.kvm import guest_records, qmp
from gantry.runtime import interface

ALL = "all"


class _Processor(msgspec.Struct):
    index: int = msgspec.field(name="cpu-index")
    thread: int = msgspec.field(name="thread-id")


def parse(mask: str) -> list[str]:
    """Return the processor lists of a mask: one list for all virtual processors or a list for each; InvalidError."""
    lists = mask.split(":")
    for processors in lists:
        parts = [number for part in processors.split(",") for number in part.split("-", 1)]
        if processors != ALL and not all(number.isdecimal() for number in parts):
            raise errors.InvalidError(
                f"cpu_mask: {processors!r} is not a list of processors", hint="write all, or a list like 0-1,3"
            )
    return lists


class Affinity:
    """Binds guests to processors."""

    def __init__(self, runtime: interface.Runtime, guests: guest_records.Guests) -> None:
        self._processes = runtime.processes
        self._guests = guests

    async def bind(self, name: str, mask: str, *, pid: int, vcpus: int) -> None:
        """Bind a guest that has just been started; InvalidError, HypervisorError."""
        lists = parse(mask)
        if len(lists) == 1:
            if lists != [ALL]:
                await self._set(name, lists[0], "--all-tasks", "--pid", thread=pid)
            return
        if len(lists) != vcpus:
            raise errors.InvalidError(f"cpu_mask has {len(lists)} lists, instance {name} {vcpus} virtual processors")
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_TIMEOUT_SECONDS):
            answer = await control.execute("query-cpus-fast")
        for processor in msgspec.json.decode(answer, type=list[_Processor]):
            if lists[processor.index] != ALL:
                await self._set(name, lists[processor.index], "--pid", thread=processor.thread)

    async def _set(self, name: str, processors: str, *options: str, thread: int) -> None:
        process = await self._processes.run(["taskset", *options, "--cpu-list", processors, str(thread)])
        if process.code:
            reason = process.stderr.decode(errors="replace").strip()
            raise errors.HypervisorError(f"instance {name} cannot run on processors {processors}: {reason}")
