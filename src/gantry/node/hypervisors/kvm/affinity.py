"""Which of the node's processors a guest runs on (``cpu_mask``): all of it, or each virtual processor on its own."""

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
    """Return the lists of a mask, one for all virtual processors or one for each; InvalidError."""
    lists = mask.split(":")
    for one in lists:
        parts = [number for part in one.split(",") for number in part.split("-", 1)]
        if one != ALL and not all(number.isdecimal() for number in parts):
            raise errors.InvalidError(f"cpu_mask: {one!r} is no list of processors", hint="write all, or 0-1,3")
    return lists


class Affinity:
    """Binds guests to processors."""

    def __init__(self, runtime: interface.Runtime, known: guest_records.Guests) -> None:
        self._processes = runtime.processes
        self._guests = known

    async def bind(self, name: str, mask: str, *, pid: int, vcpus: int) -> None:
        """Bind a guest that was just started; InvalidError, HypervisorError."""
        lists = parse(mask)
        if len(lists) == 1:
            if lists != [ALL]:
                await self._set(name, lists[0], "--all-tasks", "--pid", thread=pid)
            return
        if len(lists) != vcpus:
            raise errors.InvalidError(f"cpu_mask has {len(lists)} lists, instance {name} {vcpus} virtual processors")
        async with self._guests.control(name) as control, timeout(qmp.ANSWER_LIMIT):
            told = await control.execute("query-cpus-fast")
        for processor in msgspec.json.decode(told, type=list[_Processor]):
            if lists[processor.index] != ALL:
                await self._set(name, lists[processor.index], "--pid", thread=processor.thread)

    async def _set(self, name: str, processors: str, *options: str, thread: int) -> None:
        done = await self._processes.run(["taskset", *options, "--cpu-list", processors, str(thread)])
        if done.code:
            said = done.stderr.decode(errors="replace").strip()
            raise errors.HypervisorError(f"instance {name} cannot run on processors {processors}: {said}")
