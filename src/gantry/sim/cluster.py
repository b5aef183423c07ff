"""A cluster in one process: simulated machines that run the real node agents, and a real master daemon on the first.

    with cluster.SimulatedCluster(seed=7) as lab:
        lab.run(lab.build())                            # init, join, all by the daemons' own code
        lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 1}))
        lab.crash("node1")                              # or kill; lab.world.network has the faults of the wires
        lab.run(lab.restart("node1"))

Guests are those of the hypervisor ``fake``. What the network and the disks do to them is switched on at ``world``.
TLS is not spoken (``runtime.simulated.network``), so ``secure=False`` is handed to the daemons; everything else,
certificates among it, is as on real machines. A seed gives the same run, but for the random bytes of the certificates.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Mapping
from typing import TypeVar

import msgspec

from gantry import errors, security
from gantry.daemons import bootstrap, master
from gantry.node import assembly
from gantry.runtime import paths, simulated

T = TypeVar("T")

FOLDERS = paths.Paths.below("/gantry")
PORT = 1811
MEMORY = b"MemTotal: 16777216 kB\nMemAvailable: 16777216 kB\n"
ANSWER_LIMIT = 64 << 20

NO_LOG = 1 << 60
"""A log serial that no job reaches: who waits with it is not woken by log messages."""

Opcode = Mapping[str, object]


class _Answer(msgspec.Struct):
    success: bool
    result: object


class SimulatedCluster:
    """Machines ``node1`` to ``nodeN``; the first is the master. All coroutines are for ``run``."""

    def __init__(self, seed: int, *, nodes: int = 3) -> None:
        self.world = simulated.World(seed)
        self.names = [f"node{number + 1}" for number in range(nodes)]
        self.master = self.world.machine(self.names[0])
        self.master.network.certificate = _masters_certificate(self.world.clock.now())
        self._dark: set[str] = set()
        for number, name in enumerate(self.names):
            self.world.machine(name)
            self.world.network.register(_address(number), name)

    def __enter__(self) -> "SimulatedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in virtual time."""
        return self.world.run(work)

    async def build(self, **description: object) -> None:
        """Start all node daemons, initialise the cluster on the first machine, start its master, add the others."""
        for name in self.names:
            await self.start_node(name)
        wanted = {
            "cluster_name": "lab.example",
            "node_name": self.names[0],
            "primary_ip": _address(0),
            "enabled_hypervisors": ["fake"],
        }
        decoded = bootstrap.decode(msgspec.json.encode(wanted | description))
        await self.master.spawn(bootstrap.init(self.master, FOLDERS, decoded, secure=False))
        await self.start_master()
        for number, name in list(enumerate(self.names))[1:]:
            token = self.world.machine(name).disk.read(f"{FOLDERS.lib}/join-token").decode()
            op = {"OP_ID": "OP_NODE_ADD", "node_name": name, "primary_ip": _address(number), "join_token": token}
            await self.done(op)

    def kill(self, name: str) -> None:
        """End the daemons of a machine as by SIGKILL; its guests run on."""
        self.world.kill(name)

    def crash(self, name: str) -> None:
        """Take the power from a machine; its guests end, and what was not synced may be lost."""
        self.world.crash(name)
        self._dark.add(name)

    async def start_node(self, name: str) -> None:
        """Start a machine's node daemon and return when it listens."""
        machine = self.world.machine(name)
        if name in self._dark:
            # It is in memory on a real machine.
            await machine.disk.remove_tree(FOLDERS.run)
            self._dark.discard(name)
        for folder in (FOLDERS.lib, FOLDERS.run, FOLDERS.log, FOLDERS.instances, FOLDERS.file_storage, "/proc"):
            await machine.disk.make_directory(folder)
        await machine.disk.write("/proc/meminfo", MEMORY)
        listening = asyncio.Event()
        agent = assembly.node(machine, FOLDERS, software="simulation", secure=False)
        machine.spawn(agent.run("0.0.0.0", PORT, ready=listening.set))
        await listening.wait()

    async def start_master(self) -> None:
        """Start the master daemon and return when it answers."""
        daemon = master.Master(self.master, FOLDERS, secure=False)
        await self.master.spawn(daemon.start())

    async def restart(self, name: str) -> None:
        """Start what runs on a machine that was killed or crashed: its node daemon, and the master on the first."""
        await self.start_node(name)
        if name == self.names[0]:
            await self.start_master()

    async def luxi(self, method: str, *arguments: object) -> object:
        """Call a method of the master; raises its error, or OSError when it is not there or ends meanwhile."""
        reader, writer = await self.master.network.connect_unix(FOLDERS.luxi_socket, limit=ANSWER_LIMIT)
        try:
            writer.write(msgspec.json.encode({"method": method, "args": arguments}) + b"\x03")
            await writer.drain()
            line = await reader.readuntil(b"\x03")
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the master has ended") from error
        finally:
            writer.close()
        answer = msgspec.json.decode(line[:-1], type=_Answer)
        if not answer.success:
            name, details = msgspec.convert(answer.result, tuple[str, list[object]])
            raise errors.from_luxi(name, details)
        return answer.result

    async def submit(self, *ops: Opcode) -> int:
        """Submit a job and return its number."""
        return msgspec.convert(await self.luxi("SubmitJob", ops), int)

    async def wait(self, number: int) -> tuple[str, list[object]]:
        """Wait for the end of a job; return its status and the results of its opcodes."""
        status = "queued"
        while status not in ("canceled", "success", "error"):
            answer = await self.luxi("WaitForJobChange", number, ["status"], [status], NO_LOG, 60.0)
            if answer != "nochange":
                ((status,), _) = msgspec.convert(answer, tuple[tuple[str], object])
        ((status, results),) = msgspec.convert(
            await self.luxi("QueryJobs", [number], ["status", "opresult"]), list[tuple[str, list[object]]]
        )
        return status, results

    async def done(self, *ops: Opcode) -> list[object]:
        """Do what must succeed, and return the results."""
        status, results = await self.wait(await self.submit(*ops))
        if status != "success":
            raise errors.ExecutionError(f"job ended with {status}: {results}")
        return results


def _address(number: int) -> str:
    return f"203.0.113.{number + 1}"


def _masters_certificate(now: float) -> bytes:
    """Return what the master shows to nodes; the simulated network hands it over unchecked, the node looks at it."""
    authority = security.make_authority("simulation", now)
    return ssl.PEM_cert_to_DER_cert(security.issue_master(authority, now).certificate.decode())
