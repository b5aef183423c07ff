"""Checks of the clock, and of the other nodes' clocks and versions.

Only the master node has a certificate that other nodes accept, so the comparison runs there, also while its daemon is
down. The doctor's call has no epoch: a node may refuse it, but each answer carries the node's version and time
(``calls.SOFTWARE_HEADER``, ``calls.TIME_HEADER``). Other nodes compare their version with that in ssconf.
"""

import asyncio
from collections.abc import Sequence

import gantry
from gantry import security
from gantry.daemons.doctor.result import Level, Machine, Result
from gantry.rpc import calls
from gantry.runtime import http_interface

TIMEOUT_SECONDS = 5.0
CLOCK_SECONDS = 2.0
"""Difference of clocks above which leases and certificates are at risk; answers take part of a second."""

CONCURRENCY = 32
DEFAULT_PORT = 1811
SAME_VERSION = "install the same version on all nodes"
SET_CLOCK = "synchronize the clocks: apt install chrony"


async def synchronization(machine: Machine) -> Sequence[Result]:
    """Report a clock that nothing synchronizes."""
    output = await machine.output("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if output is None:
        return [Result("clock", Level.WARNING, "the state of the clock's synchronization is unknown", SET_CLOCK)]
    if output.strip() == "yes":
        return [Result("clock", Level.OK, "the clock is synchronized")]
    return [Result("clock", Level.WARNING, "the clock is not synchronized", SET_CLOCK)]


async def nodes(machine: Machine) -> Sequence[Result]:
    """Report the other nodes that cannot be reached, whose clock differs, or whose version differs."""
    member = machine.member
    folder = machine.folders.certificates
    if member is None:
        return []
    if machine.ssconf("master_node") != [member.node] or not machine.disk.exists(f"{folder}/master.pem"):
        return _version_of_master(machine)
    offline = set(machine.ssconf("offline_nodes"))
    ports = machine.pairs("node_ports")
    targets = {
        name: (address, int(ports.get(name, DEFAULT_PORT)))
        for name, address in machine.pairs("node_primary_ips").items()
        if name != member.node and name not in offline
    }
    if not targets:
        return []
    context = security.master_client_context(
        f"{folder}/master.pem", f"{folder}/node.key", authority=machine.disk.read(f"{folder}/authority.pem")
    )
    client = machine.runtime.network.http_client(tls=context)
    try:
        return await examine(machine, client, targets)
    finally:
        await client.close()


def _version_of_master(machine: Machine) -> Sequence[Result]:
    """Compare versions with the master's, which is in ssconf."""
    version, master = "".join(machine.ssconf("release_version")), "".join(machine.ssconf("master_node"))
    if version and version != gantry.__version__:
        text = f"the master {master} runs Gantry {version}, this machine {gantry.__version__}"
        return [Result("nodes", Level.WARNING, text, SAME_VERSION)]
    text = (
        f"the same version as the master {master}; run gantry doctor there to compare clocks and versions of all nodes"
    )
    return [Result("nodes", Level.OK, text)]


async def examine(
    machine: Machine, client: http_interface.Client, targets: dict[str, tuple[str, int]]
) -> Sequence[Result]:
    """Return the results for nodes, by name with address and port."""
    turns = asyncio.Semaphore(CONCURRENCY)

    async def one_node(name: str, address: str, port: int) -> list[Result]:
        async with turns:
            return await _node(machine, client, name, address=address, port=port)

    parts = await asyncio.gather(*(one_node(name, *target) for name, target in sorted(targets.items())))
    return [result for part in parts for result in part]


async def _node(machine: Machine, client: http_interface.Client, name: str, *, address: str, port: int) -> list[Result]:
    clock = machine.runtime.clock
    before = clock.now()
    try:
        answer = await client.post(address, port, f"/{calls.Version.procedure()}", b"{}", timeout=TIMEOUT_SECONDS)
    except OSError as error:
        text = f"node {name} at {address} port {port} cannot be reached: {str(error) or type(error).__name__}"
        return [Result("nodes", Level.WARNING, text, f"start gantry-noded on {name}, and check cables and firewalls")]
    middle = (before + clock.now()) / 2
    out: list[Result] = []
    software = answer.headers.get(calls.SOFTWARE_HEADER, "")
    if software != gantry.__version__:
        text = f"node {name} runs Gantry {software or 'of an older version'}, this machine {gantry.__version__}"
        out.append(Result("nodes", Level.WARNING, text, SAME_VERSION))
    try:
        difference = float(answer.headers[calls.TIME_HEADER]) - middle
    except (KeyError, ValueError):
        difference = 0.0
    if abs(difference) > CLOCK_SECONDS:
        text = (
            f"the clock of node {name} is {abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} this one"
        )
        out.append(Result("nodes", Level.ERROR, text, SET_CLOCK))
    return out or [Result("nodes", Level.OK, f"node {name} answers, with the same version and time")]
