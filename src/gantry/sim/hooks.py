"""Hook scripts of administrators on all simulated machines; a share of them refuses what is to be done.

etc/hooks/<path>-pre.d/veto         may refuse; ``Hooks.refusals`` records it
etc/hooks/<path>-post.d/note        may fail, which only makes a warning
"""

import random
from dataclasses import dataclass

from gantry.runtime import commands, simulated
from gantry.runtime.simulated import processes

PATHS = (
    "instance-add", "instance-start", "instance-stop", "instance-remove", "instance-modify", "instance-failover",
    "instance-migrate", "network-add", "network-remove", "network-modify", "group-add", "group-modify", "node-modify",
    "cluster-modify", "disk-grow", "mirrors-replace",
)  # fmt: skip
SCRIPTS = (("pre", "veto"), ("post", "note"))
SECONDS = 0.2


@dataclass(frozen=True)
class Refusal:
    """A script of the phase ``pre`` has refused an opcode about objects with these names."""

    machine: str
    time: float
    op: str
    names: frozenset[str]


class Hooks:
    """The hook scripts of all machines; ``failing`` is the share of their runs that fail."""

    def __init__(self, world: simulated.World) -> None:
        self.failing = 0.0
        self.refusals: list[Refusal] = []
        self._world = world
        self._random: random.Random = world.source("hooks")

    async def install(self, name: str, folder: str) -> None:
        """Write the scripts of a machine below its folder of hooks."""
        machine = self._world.machine(name)
        for path in PATHS:
            for phase, script in SCRIPTS:
                file = f"{folder}/{path}-{phase}.d/{script}"
                await machine.disk.make_directory(file.rpartition("/")[0])
                await machine.disk.write(file, b"#!", mode=0o755)
                machine.processes.programs[file] = self._program(name)

    def _program(self, name: str) -> processes.Program:
        async def run(call: processes.Invocation) -> commands.Completed:
            await self._world.machine(name).clock.sleep(SECONDS)
            if not self.failing or self._random.random() >= self.failing:
                return commands.Completed(0, b"", b"")
            values = call.environment
            if values["GANETI_HOOKS_PHASE"] == "pre":
                names = frozenset(value for key, value in values.items() if key.endswith("_NAME"))
                now = self._world.clock.monotonic()
                self.refusals.append(Refusal(name, now, values["GANETI_OP_CODE"], names))
            return commands.Completed(1, b"the script is against it\n", b"")

        return run

    def refused(self, machine: str, op: str, name: str, *, since: float) -> bool:
        """Return whether a script of a machine has refused an opcode about an object since a time."""
        return any(
            each.machine == machine and each.op == op and name in each.names and each.time >= since
            for each in self.refusals
        )
