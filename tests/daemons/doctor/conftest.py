"""A simulated machine for the checks of the doctor."""

from collections.abc import Iterator, Sequence

import pytest

from gantry.daemons.doctor.result import Check, Machine, Result
from gantry.runtime import commands, paths
from gantry.runtime.simulated import SimulatedRuntime, World
from gantry.runtime.simulated.processes import Invocation


class Examined:
    """A machine with files and programs, and the checks that look at it."""

    def __init__(self, world: World, runtime: SimulatedRuntime) -> None:
        self.world = world
        self.runtime = runtime
        self.folders = paths.Paths.below("")

    def write(self, path: str, content: str | bytes = "", *, mode: int = 0o640) -> None:
        """Write a file, with its folders."""
        data = content.encode() if isinstance(content, str) else content

        async def write() -> None:
            await self.runtime.disk.make_directory(path.rpartition("/")[0], mode=0o750)
            await self.runtime.disk.write(path, data, mode=mode)

        self.world.run(write())

    def ssconf(self, **values: str) -> None:
        """Write ssconf files."""
        for key, value in values.items():
            self.write(f"{self.folders.ssconf}/ssconf_{key}", value)

    def join(self) -> None:
        """Make the machine node n1 of a cluster of two nodes."""
        self.write(f"{self.folders.certificates}/node.pem")
        self.write(
            f"{self.folders.certificates}/member.json",
            '{"cluster": "cl", "node": "n1", "uuid": "u1", "address": "192.0.2.1", "masters": []}',
        )
        self.ssconf(
            node_list="n1\nn2\n",
            node_primary_ips="n1 192.0.2.1\nn2 192.0.2.2\n",
            node_ports="n1 1811\nn2 1811\n",
            node_groups="n1 g1\nn2 g2\n",
            hypervisor_list="kvm\n",
            disk_templates="file\n",
        )

    def install(self, program: str, output: str = "", *, code: int = 0) -> None:
        """Install a program that prints this."""

        async def run(call: Invocation) -> commands.Completed:
            return commands.Completed(code, output.encode(), b"")

        self.runtime.processes.programs[program] = run
        self.write(f"/usr/bin/{program}")

    def addresses(self, *addresses: str) -> None:
        """Let the machine have these addresses, besides those of loopback."""
        every = [
            '{"local": "127.0.0.1", "scope": "host"}',
            *(f'{{"local": "{a}", "scope": "global"}}' for a in addresses),
        ]
        self.install("ip", f'[{{"ifname": "lo", "addr_info": [{", ".join(every)}]}}]')

    def examine(self, check: Check) -> Sequence[Result]:
        """Return the results of a check; each fault has a remedy."""

        async def run() -> Sequence[Result]:
            return await check(Machine(self.runtime, self.folders))

        results = self.world.run(run())
        assert all(bool(result.remedy) == (result.level != "ok") for result in results)
        return results

    def seen(self, check: Check) -> list[tuple[str, str]]:
        """Return level and message of each result of a check."""
        return [(str(result.level), result.message) for result in self.examine(check)]


@pytest.fixture
def machine() -> Iterator[Examined]:
    with World(seed=1) as world:
        yield Examined(world, world.machine("n1"))
