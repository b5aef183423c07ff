"""A cluster in one process: simulated machines that run the real node agents and the real master daemons.

    with cluster.SimulatedCluster(seed=7) as lab:
        lab.run(lab.build())                            # init, join, all by the daemons' own code
        lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 1}))
        lab.crash("node1")                              # or kill; lab.world.network has the faults of the wires
        lab.run(lab.failover("node2"))
        lab.run(lab.restart("node1"))                   # refused: WrongStateError says that there is a newer master

Each daemon is a process of its machine, as init and the commands start it: a signal reaches it, and it holds locks,
ports and sockets until it ends. There can be as many master daemons as machines; ``masters`` are those that hold the
role, or believe so. Guests are those of the hypervisor ``fake``. What the network, disks and clocks do to them is
switched on at ``world``. TLS is not spoken (``runtime.simulated.network``), so ``secure=False`` is handed to the
daemons; everything else, certificates among it, is as on real machines. A seed gives the same run, but for the random
bytes of the certificates.
"""

import asyncio
import functools
import signal
import ssl
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import msgspec

from gantry import errors, security
from gantry.daemons import bootstrap, master, role
from gantry.node.daemon import wiring
from gantry.runtime import paths, simulated
from gantry.runtime.simulated import clock, processes
from gantry.state import recovery

T = TypeVar("T")

FOLDERS = paths.Paths.below("/gantry")
SEGMENTS = b"[ml2_type_gre]\ntunnel_id_ranges = 1:3\n"
"""The default segment ranges that each machine's file has: few ids, so that they run out."""
PORT = 1811
NODE, MASTER = "gantry-noded", "gantry-masterd"
MEMORY = b"MemTotal: 16777216 kB\nMemAvailable: 16777216 kB\n"
ANSWER_LIMIT = 64 << 20

NO_LOG = 1 << 60
"""A log serial that no job reaches: who waits with it is not woken by log messages."""

Opcode = Mapping[str, object]


class _Answer(msgspec.Struct):
    success: bool
    result: object


class SimulatedCluster:
    """Machines ``node1`` to ``nodeN``; ``build`` makes the first the master. All coroutines are for ``run``.

    ``daemons`` are the master daemons that have started, by machine, and ``leader`` is where the last one did.
    """

    def __init__(self, seed: int, *, nodes: int = 3) -> None:
        self.world = simulated.World(seed)
        self.names = [f"node{number + 1}" for number in range(nodes)]
        self.leader = self.names[0]
        self.daemons: dict[str, master.Master] = {}
        self._dark: set[str] = set()
        self._processes: dict[tuple[str, str], processes.Daemon] = {}
        for number, name in enumerate(self.names):
            self.world.machine(name).network.certificate = _masters_certificate()
            self.world.network.register(_address(number), name)

    def __enter__(self) -> "SimulatedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in virtual time."""
        return self.world.run(work)

    @property
    def master(self) -> simulated.SimulatedRuntime:
        """Return the machine of the leader."""
        return self.world.machine(self.leader)

    def address(self, name: str) -> str:
        """Return the address of a machine."""
        return _address(self.names.index(name))

    def has_power(self, name: str) -> bool:
        """Tell whether anything runs on a machine; nothing does between a crash and the next start."""
        return name not in self._dark

    def masters(self) -> list[str]:
        """Return the machines whose master daemon runs and has not heard of a newer one, in the order of starting."""
        return [name for name, daemon in self.daemons.items() if daemon.candidates.refusal is None]

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
        await self.start_master(self.names[0])
        for number, name in list(enumerate(self.names))[1:]:
            token = self.world.machine(name).disk.read(f"{FOLDERS.lib}/join-token").decode()
            op = {"OP_ID": "OP_NODE_ADD", "node_name": name, "primary_ip": _address(number), "join_token": token}
            await self.done(op)

    def kill(self, name: str) -> None:
        """End the daemons of a machine as by SIGKILL; its guests run on."""
        self.daemons.pop(name, None)
        self.world.kill(name)

    def kill_master(self, name: str) -> None:
        """End the master daemon of a machine as by SIGKILL, and no other."""
        self.daemons.pop(name, None)
        self._processes[name, MASTER].boot.end()

    def crash(self, name: str) -> None:
        """Take the power from a machine; its guests end, and what was not synced may be lost."""
        self.daemons.pop(name, None)
        self.world.crash(name)
        self._dark.add(name)

    def end_at(self, name: str, visits: int, *, power: bool = True) -> None:
        """Let a machine crash (or, without ``power``, be killed) in the middle of its ``visits``-th write or sync."""
        disk = self.world.machine(name).disk
        left = visits

        def visit() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                disk.on_visit = None
                (self.crash if power else self.kill)(name)

        disk.on_visit = visit

    async def start_node(self, name: str) -> None:
        """Start a machine's node daemon, unless it runs, and return when it listens; raises as ``start_master``."""
        machine = self.world.machine(name)
        before = self._processes.get((name, NODE))
        if before is not None and not before.boot.ended:
            return
        if name in self._dark:
            # It is in memory on a real machine.
            await machine.disk.remove_tree(FOLDERS.run)
            self._dark.discard(name)
        kept = (FOLDERS.lib, FOLDERS.run, FOLDERS.log, FOLDERS.etc, FOLDERS.instances, FOLDERS.file_storage, "/proc")
        for folder in kept:
            await machine.disk.make_directory(folder)
        await machine.disk.write("/proc/meminfo", MEMORY)
        await machine.disk.write(FOLDERS.segments, SEGMENTS)
        agent = wiring.node(machine, FOLDERS, software="simulation", secure=False)
        await self._launch(name, NODE, lambda ready: agent.run("0.0.0.0", PORT, ready=ready))

    async def start_master(self, name: str = "", wish: role.Wish = role.Wish()) -> None:  # noqa: B008 - it is immutable
        """Start the master daemon of a machine (the leader) and return when it answers.

        Raises the daemon's own error when it ends instead, ConnectionResetError when its machine does. It is killed
        when the caller is cancelled.
        """
        name = name or self.leader
        stop = asyncio.Event()
        lives: list[master.Master] = []

        async def live(ready: Callable[[], None]) -> None:
            def up(daemon: master.Master) -> None:
                lives.append(daemon)
                self.daemons[name] = daemon
                self.leader = name
                ready()

            try:
                await master.serve(self.world.machine(name), FOLDERS, wish=wish, stop=stop, up=up, secure=False)
            finally:
                if lives and self.daemons.get(name) is lives[-1]:
                    del self.daemons[name]

        await self._launch(name, MASTER, live, terminate=stop.set)

    async def _launch(
        self,
        name: str,
        program: str,
        main: Callable[[Callable[[], None]], Coroutine[object, object, None]],
        *,
        terminate: Callable[[], None] | None = None,
    ) -> None:
        """Start a daemon and return when it calls what ``main`` is given; raises what it ends with before."""
        up: asyncio.Future[None] = self.world.loop.create_future()

        def ready() -> None:
            if not up.done():
                up.set_result(None)

        def ended(task: asyncio.Task[object]) -> None:
            error = ConnectionResetError(f"{program} on {name} was killed") if task.cancelled() else task.exception()
            if not up.done():
                up.set_exception(error or errors.InternalError(f"{program} on {name} ended at once"))
            elif error is not None and not isinstance(error, errors.GantryError | OSError):
                self.world.loop.call_exception_handler({"message": f"{program} on {name} failed", "exception": error})

        process = self.world.machine(name).launch([program], main(ready), terminate=terminate)
        self._processes[name, program] = process
        process.task.add_done_callback(ended)
        try:
            await up
        except asyncio.CancelledError:
            process.boot.end()
            raise

    async def stop_master(self, name: str) -> None:
        """End a machine's master daemon as by SIGTERM; return when it has ended."""
        process = self._processes[name, MASTER]
        self.world.machine(name).processes.signal(process.boot.pid, signal.SIGTERM)
        await asyncio.wait([process.task])

    async def failover(self, name: str, *, voting: bool = True, breaking_off: bool = True) -> None:
        """Do what ``gnt-cluster master-failover`` does on a machine; raises as ``start_master``.

        ``breaking_off`` is ``--yes-do-it``: without it a living master that runs jobs is not replaced.
        """
        await self.start_master(name, role.Wish(taking_over=True, voting=voting, breaking_off=breaking_off))

    async def restart(self, name: str) -> None:
        """Start what runs on a machine that was killed or crashed; raises as ``start_master``.

        That is its node daemon, and the master daemon where the state on the machine's own disk says that it is the
        master; who is in truth the vote finds out.
        """
        was_master = await self._is_master_by_its_state(name)
        await self.start_node(name)
        if was_master:
            await self.start_master(name)

    async def _is_master_by_its_state(self, name: str) -> bool:
        machine = self.world.machine(name)
        if not machine.disk.exists(FOLDERS.config):
            return False
        try:
            state = (await recovery.recover(machine, FOLDERS)).state
        except errors.ConfigurationError:
            # Nobody can tell; the master daemon says why, beside a node daemon that needs none of it.
            return True
        holder = state.nodes.get(state.the_cluster.master_node)
        return holder is not None and holder.name == name

    async def luxi(self, method: str, *arguments: object, on: str = "") -> object:
        """Call a method of the master daemon on a machine (the leader); raises its error, OSError where none runs."""
        network = self.world.machine(on or self.leader).network
        reader, writer = await network.connect_unix(FOLDERS.luxi_socket, limit=ANSWER_LIMIT)
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

    async def submit(self, *ops: Opcode, on: str = "") -> int:
        """Submit a job and return its number; ``on`` as in ``luxi``."""
        return msgspec.convert(await self.luxi("SubmitJob", ops, on=on), int)

    async def wait(self, number: int, *, on: str = "") -> tuple[str, list[object]]:
        """Wait for the end of a job; return its status and the results of its opcodes; ``on`` as in ``luxi``."""
        status = "queued"
        while status not in ("canceled", "success", "error"):
            answer = await self.luxi("WaitForJobChange", number, ["status"], [status], NO_LOG, 60.0, on=on)
            if answer != "nochange":
                ((status,), _) = msgspec.convert(answer, tuple[tuple[str], object])
        ((status, results),) = msgspec.convert(
            await self.luxi("QueryJobs", [number], ["status", "opresult"], on=on), list[tuple[str, list[object]]]
        )
        return status, results

    async def done(self, *ops: Opcode, on: str = "") -> list[object]:
        """Do what must succeed, and return the results; ``on`` as in ``luxi``."""
        status, results = await self.wait(await self.submit(*ops, on=on), on=on)
        if status != "success":
            raise errors.ExecutionError(f"job ended with {status}: {results}")
        return results


def _address(number: int) -> str:
    return f"203.0.113.{number + 1}"


@functools.cache
def _masters_certificate() -> bytes:
    """Return what a master shows to nodes; the simulated network hands it over unchecked, the node looks at it."""
    authority = security.make_authority("simulation", clock.EPOCH)
    return ssl.PEM_cert_to_DER_cert(security.issue_master(authority, clock.EPOCH).certificate.decode())
