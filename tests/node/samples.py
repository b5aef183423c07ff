"""Filled structures as the master sends them, for the tests of the node, and a real runtime inside a namespace."""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from tests import leftovers

from gantry.model import parameters
from gantry.rpc import calls
from gantry.runtime import commands, paths
from gantry.runtime.real import RealRuntime
from gantry.runtime.real import network as real_network
from gantry.runtime.real import processes as real_processes

NETWORK_NAMESPACE = 0x40000000

UUID = "7a0c5b9e-6a31-4a3c-9d45-3f0c4d2b1e01"

ADDRESSES = (
    calls.Address(ip="192.0.2.7", subnet="192.0.2.0/24", gateway="192.0.2.1"),
    calls.Address(ip="2001:db8::7", subnet="2001:db8::/64", gateway="2001:db8::1", dhcp=True),
    calls.Address(ip="198.51.100.9", subnet="198.51.100.0/24"),
)


def nic(
    *, index: int = 0, mode: str = "bridged", link: str = "br0", addresses: tuple[calls.Address, ...] = ADDRESSES
) -> calls.Nic:
    return calls.Nic(
        index=index,
        uuid=f"c1d2e3f4-0000-4000-8000-00000000000{index}",
        mac=f"aa:00:00:00:00:0{index}",
        mode=mode,
        link=link,
        addresses=addresses,
        network=calls.Network(name="net1", uuid="f00d", mac_prefix="aa:00:01", tags=("blue", "green")),
    )


def disk(folders: paths.Paths, *, size: int = 4, index: int = 0, owner: str = "vm1") -> calls.Disk:
    uuid = f"d15c0000-0000-4000-8000-00000000000{index}"
    return calls.Disk(
        index=index,
        uuid=uuid,
        dev_type="file",
        size=size,
        logical_id=("file", f"{folders.file_storage}/{owner}/{uuid}"),
    )


def kvm(**changes: calls.Value) -> dict[str, calls.Value]:
    return {**parameters.fill(parameters.KVM), "accel": "tcg", **changes}


def instance(
    hypervisor: str = "kvm",
    *,
    name: str = "vm1",
    hvparams: Mapping[str, calls.Value] | None = None,
    disks: tuple[calls.Disk, ...] = (),
    nics: tuple[calls.Nic, ...] = (),
    definition: str = "busybox+small",
    memory: int = 16,
    network_port: int = 0,
) -> calls.Instance:
    return calls.Instance(
        name=name,
        uuid=UUID,
        hypervisor=hypervisor,
        os=definition,
        primary_node="node1",
        secondary_nodes=("node2", "node3"),
        hvparams=dict(kvm() if hvparams is None else hvparams),
        beparams={"maxmem": memory, "minmem": memory, "vcpus": 1, "auto_balance": True},
        network_port=network_port,
        osparams={"mirror": "http://deb"},
        disks=disks,
        nics=nics,
    )


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, content: str, *, mode: int = 0o644) -> None:
    with open(path, "w") as file:
        file.write(content)
    os.chmod(path, mode)


HAS_NAMESPACES = os.geteuid() == 0 and shutil.which("ip") is not None


@contextlib.contextmanager
def namespace() -> Iterator[str]:
    """Make a network namespace with a bridge."""
    name = leftovers.name("gt")
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "add", "br0", "type", "bridge"], check=True)
        for device in ("br0", "lo"):
            subprocess.run(["ip", "-n", name, "link", "set", device, "up"], check=True)
        yield name
    finally:
        leftovers.end_space(name)


class Processes(real_processes.Processes):
    """Real programs, inside a network namespace when one is given."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self._prefix = ["ip", "netns", "exec", namespace] if namespace else []

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        tracked: bool = False,
    ) -> commands.Completed:
        return await super().run(
            [*self._prefix, *arguments],
            environment=environment,
            directory=directory,
            stdin=stdin,
            timeout=timeout,
            tracked=tracked,
        )

    async def start(self, arguments: Sequence[str], *, environment: Mapping[str, str] | None, log: str) -> int:
        return await super().start([*self._prefix, *arguments], environment=environment, log=log)


class Network(real_network.Network):
    """Real sockets; connections that are passed on begin inside a network namespace when one is given."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def connect_tcp(self, host: str, port: int, timeout_seconds: float) -> socket.socket:
        with entered(self._namespace) if self._namespace else contextlib.nullcontext():
            return super().connect_tcp(host, port, timeout_seconds)


@contextlib.contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Be in a network namespace, with this thread and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    inside = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        assert libc.setns(inside, NETWORK_NAMESPACE) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        libc.setns(outside, NETWORK_NAMESPACE)
        os.close(inside)
        os.close(outside)


def runtime(host: str = "node1", *, namespace: str = "") -> RealRuntime:
    runtime = RealRuntime(host)
    runtime.processes = Processes(namespace)
    runtime.network = Network(namespace)
    return runtime
