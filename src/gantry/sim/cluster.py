"""A cluster in one process: simulated machines that run the real node agents and the real master daemons.

    with cluster.SimulatedCluster(seed=7) as lab:
        lab.run(lab.build())                            # init and join, with the daemons' own code
        lab.run(lab.submit({"OP_ID": "OP_TEST_DELAY", "duration": 1}))
        lab.crash("node1")                              # or kill; lab.world.network has the network's faults
        lab.run(lab.failover("node2"))
        lab.run(lab.restart("node1"))                   # refused: WrongStateError reports a newer master

Each daemon is a process of its machine: it receives signals, and has its locks, ports and sockets until it ends. Each
machine can run a master daemon; ``masters`` are those that have the role or assume that they do. Guests belong to the
hypervisor ``fake``. Faults of network, disks and clocks are switched on in ``world``. The simulated network has no TLS
(``runtime.simulated.network``), so the daemons run with ``secure=False``; everything else, including certificates, is
as on real machines. A seed gives the same run, except for the random bytes of the certificates.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import msgspec

from gantry import errors
from gantry.daemons import invitations, master
from gantry.mastership import bootstrap, role
from gantry.node.daemon import wiring
from gantry.runtime import paths, simulated
from gantry.runtime.simulated import processes
from gantry.sim import doors, hooks
from gantry.sim.hardware import copying, databases, mirrors, volumes
from gantry.state.start import recovery

T = TypeVar("T")

FOLDERS = paths.Paths.below("/gantry")
SEGMENTS = b"[ml2_type_gre]\ntunnel_id_ranges = 1:3\n"
"""The file of default segment ranges on each machine: few ids, so that they run out."""
OS_FOLDER = f"{FOLDERS.srv}/os/{copying.OS_NAME}"
PORT = 1811
NODE, MASTER = "gantry-noded", "gantry-masterd"
MEMORY_FILE = "/proc/meminfo"
MEMORY = b"MemTotal: 16777216 kB\nMemAvailable: 16777216 kB\n"
ANSWER_LIMIT = 64 << 20

NO_LOG = 1 << 60
"""A log serial that no job reaches, so that log messages do not end a wait for a job's change."""

Opcode = Mapping[str, object]


class _Answer(msgspec.Struct):
    success: bool
    result: object


class SimulatedCluster:
    """Machines ``node1`` to ``nodeN``; ``build`` makes the first the master. ``run`` runs all coroutines.

    ``daemons`` has the running master daemons by machine; ``leader`` is the machine that last started one. ``groups``
    has the volume groups by machine, ``kernels`` the mirrored disks of all machines, ``hooks`` the hook scripts,
    ``doors`` the HTTP front ends, ``database`` the database server that masters may share.
    """

    def __init__(self, seed: int, *, nodes: int = 3) -> None:
        self.world = simulated.World(seed)
        self.names = [f"node{number + 1}" for number in range(nodes)]
        self.leader = self.names[0]
        self.daemons: dict[str, master.Master] = {}
        self._dark: set[str] = set()
        self._processes: dict[tuple[str, str], processes.Daemon] = {}
        # A daemon that is stopped may not be the last that was started: another one, which finds its lock, ends again.
        self._stopped: dict[tuple[str, str], processes.Daemon] = {}
        self.kernels = mirrors.Mirrors(self.world, reachable=self._reaches)
        self.groups: dict[str, volumes.Volumes] = {}
        self.hooks = hooks.Hooks(self.world)
        self.database = databases.Server(self.world.source("database"), self.world.source("outcomes of commits"))
        self.doors = doors.Doors(self.world, FOLDERS, launch=self._launch)
        self.copying: dict[str, copying.Copying] = {}
        for number, name in enumerate(self.names):
            self.world.network.register(_address(number), name)
            self._install(name)

    def _install(self, name: str) -> None:
        """Add the hardware and the programs of a machine."""
        machine = self.world.machine(name)
        group = self.groups[name] = volumes.Volumes(machine.clock, self.world.source(f"{name}/volumes"))
        group.install(machine.processes.programs)
        self.kernels.install(name, group)
        self.copying[name] = copying.Copying(machine, group=group, kernels=self.kernels)
        self.copying[name].install(OS_FOLDER)
        machine.disk.generated[MEMORY_FILE] = lambda: MEMORY

    def _reaches(self, first: str, second: str) -> bool:
        """Return whether two machines with power reach each other."""
        cut = self.world.network.is_cut(first, second) or self.world.network.is_cut(second, first)
        return not cut and self.has_power(first) and self.has_power(second)

    def __enter__(self) -> "SimulatedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()
        self.database.close()

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
        """Return whether a machine has power; it has none between a crash and the next start."""
        return name not in self._dark

    def masters(self) -> list[str]:
        """Return the machines whose master daemon runs and knows of no newer master, in the order of their starts."""
        return [name for name, daemon in self.daemons.items() if daemon.candidates.refusal is None]

    async def build(self, **description: object) -> None:
        """Start all node daemons, init the cluster on the first machine, start its master, add the other nodes."""
        for name in self.names:
            await self.start_node(name)
        defaults = {
            "cluster_name": "lab.example",
            "node_name": self.names[0],
            "primary_ip": _address(0),
            "enabled_hypervisors": ["fake"],
        }
        decoded = bootstrap.decode(msgspec.json.encode(defaults | description))
        await self.master.spawn(bootstrap.init(self.master, FOLDERS, decoded, secure=False))
        await self.start_master(self.names[0])
        for number, name in list(enumerate(self.names))[1:]:
            token = self.world.machine(name).disk.read(f"{FOLDERS.lib}/join-token").decode()
            op = {"OP_ID": "OP_NODE_ADD", "node_name": name, "primary_ip": _address(number), "join_token": token}
            await self.done(op)

    def kill(self, name: str) -> None:
        """End the daemons of a machine as SIGKILL does; its guests keep running."""
        self.daemons.pop(name, None)
        self.world.kill(name)

    def kill_master(self, name: str) -> None:
        """End only the master daemon of a machine, as SIGKILL does."""
        self.daemons.pop(name, None)
        self._processes[name, MASTER].boot.end()

    def stop(self, name: str, program: str) -> bool:
        """Stop a daemon of a machine as SIGSTOP does, and return True; False if it does not run or is stopped."""
        process = self._processes.get((name, program))
        if process is None or process.boot.ended or process.boot.resume is not None:
            return False
        self.world.machine(name).processes.signal(process.boot.pid, signal.SIGSTOP)
        self._stopped[name, program] = process
        return True

    def resume(self, name: str, program: str) -> None:
        """Let a daemon continue if it is stopped."""
        process = self._stopped.pop((name, program), None)
        if process is None or process.boot.resume is None:
            return
        self.world.machine(name).processes.signal(process.boot.pid, signal.SIGCONT)

    def is_stopped(self, name: str, program: str) -> bool:
        """Return whether a daemon is stopped."""
        process = self._stopped.get((name, program))
        return process is not None and process.boot.resume is not None

    def crash(self, name: str) -> None:
        """Cut the power of a machine; its guests end, and unsynced data may be lost."""
        self.daemons.pop(name, None)
        self.world.crash(name)
        self._dark.add(name)
        self.kernels.lose_power(name)

    def end_at(self, name: str, visits: int, *, power: bool = True) -> None:
        """Crash a machine (or, without ``power``, kill it) during its ``visits``-th write or sync from now."""
        disk = self.world.machine(name).disk
        remaining = visits

        def visit() -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                disk.on_visit = None
                (self.crash if power else self.kill)(name)

        disk.on_visit = visit

    async def start_node(self, name: str) -> None:
        """Start a machine's node daemon unless it runs, and wait until it listens; errors as in ``start_master``."""
        machine = self.world.machine(name)
        before = self._processes.get((name, NODE))
        if before is not None and not before.boot.ended:
            return
        if name in self._dark:
            # On a real machine this folder is in memory.
            await machine.disk.remove_tree(FOLDERS.run)
            self._dark.discard(name)
        folders = (FOLDERS.lib, FOLDERS.run, FOLDERS.log, FOLDERS.etc, FOLDERS.instances, FOLDERS.file_storage)
        for folder in folders:
            await machine.disk.make_directory(folder)
        await machine.disk.write(FOLDERS.segments, SEGMENTS)
        await self._install_files(name)
        visitors = invitations.Relay(machine, FOLDERS)
        agent = wiring.node(machine, FOLDERS, software="simulation", secure=False, visitors=visitors)
        await self._launch(name, NODE, lambda ready: agent.run("0.0.0.0", PORT, ready=ready))
        if self.doors.enabled:
            await self.doors.start(name)

    async def _install_files(self, name: str) -> None:
        """Write the files of installed programs and of the operating system, unless they exist."""
        disk = self.world.machine(name).disk
        files = {f"{copying.FOLDER}/{program}": b"" for program in copying.PROGRAMS}
        files |= {f"{OS_FOLDER}/{script}": b"#!" for script in copying.SCRIPTS}
        files[f"{OS_FOLDER}/ganeti_api_version"] = b"20\n"
        for path, content in files.items():
            if not disk.exists(path):
                await disk.make_directory(path.rpartition("/")[0])
                await disk.write(path, content, mode=0o755)

    async def start_master(self, name: str = "", request: role.Request = role.Request()) -> None:  # noqa: B008 - it is immutable
        """Start the master daemon of a machine (default: the leader), and wait until it answers.

        Raises the daemon's own error if the daemon ends instead, ConnectionResetError if its machine ends. Cancelling
        the caller kills the daemon.
        """
        name = name or self.leader
        stop = asyncio.Event()
        started: list[master.Master] = []

        async def serve(ready: Callable[[], None]) -> None:
            def up(daemon: master.Master) -> None:
                started.append(daemon)
                self.daemons[name] = daemon
                self.leader = name
                ready()

            try:
                await master.serve(
                    self.world.machine(name),
                    FOLDERS,
                    request=request,
                    stop=stop,
                    up=up,
                    secure=False,
                    open_database=self.database.open,
                )
            finally:
                if started and self.daemons.get(name) is started[-1]:
                    del self.daemons[name]

        await self._launch(name, MASTER, serve, terminate=stop.set)

    async def _launch(
        self,
        name: str,
        program: str,
        main: Callable[[Callable[[], None]], Coroutine[object, object, None]],
        *,
        terminate: Callable[[], None] | None = None,
    ) -> None:
        """Start a daemon and wait until it calls the argument of ``main``; if it ends before that, raise its error."""
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
        """Send SIGTERM to a machine's master daemon, and wait until it has ended."""
        process = self._processes[name, MASTER]
        self.world.machine(name).processes.signal(process.boot.pid, signal.SIGTERM)
        await asyncio.wait([process.task])

    async def failover(
        self, name: str, *, voting: bool = True, interrupts_jobs: bool = True, ignoring_offline: bool = False
    ) -> None:
        """Do what ``gnt-cluster master-failover`` does on a machine; errors as in ``start_master``.

        ``interrupts_jobs`` is ``--yes-do-it``: without it, a running master that runs jobs is not replaced.
        ``ignoring_offline`` is ``--ignore-offline-nodes``.
        """
        request = role.Request(
            taking_over=True, voting=voting, interrupts_jobs=interrupts_jobs, ignore_offline=ignoring_offline
        )
        await self.start_master(name, request)

    async def restart(self, name: str) -> None:
        """Start the daemons of a machine after a kill or a crash; errors as in ``start_master``.

        These are the node daemon, and the master daemon if the machine is the master by the state on its own disk. The
        vote decides whether that is still true.
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
            # The state is unreadable; the master daemon will report why. The node daemon does not need the state.
            ssconf = f"{FOLDERS.ssconf}/ssconf_master_node"
            return not machine.disk.exists(ssconf) or machine.disk.read(ssconf).decode().strip() == name
        master_node = state.nodes.get(state.the_cluster.master_node)
        return master_node is not None and master_node.name == name

    async def luxi(
        self, method: str, *arguments: object, on: str = "", user: Mapping[str, object] | None = None
    ) -> object:
        """Call a method of the master daemon on a machine (default: the leader); raise its error, OSError if down.

        ``user`` is the user for whom root makes the request, as gantry-rapi does, with the rights of that user.
        """
        network = self.world.machine(on or self.leader).network
        reader, writer = await network.connect_unix(FOLDERS.luxi_socket, limit=ANSWER_LIMIT)
        try:
            named = {"user": user} if user else {}
            writer.write(msgspec.json.encode({"method": method, "args": arguments, **named}) + b"\x03")
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
        """Run a job that must succeed, and return its results; ``on`` as in ``luxi``."""
        status, results = await self.wait(await self.submit(*ops, on=on), on=on)
        if status != "success":
            raise errors.ExecutionError(f"job ended with {status}: {results}")
        return results


def _address(number: int) -> str:
    return f"203.0.113.{number + 1}"
