"""Guests of a real Xen, through the node daemon's calls: paravirtual ones, and one that boots from its firmware."""

import asyncio
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node import samples
from tests.real.nodes import lab
from tests.real.nodes.lab import Lab
from tests.real.xen import host

from gantry import errors, security
from gantry.model import parameters
from gantry.rpc import calls
from gantry.runtime import commands, real

pytestmark = host.NEEDS

NAME, MAC, MIB = "vm1", "aa:00:00:00:00:00", 1 << 20
PARAVIRTUAL, FULL = "192.0.2.41", "192.0.2.43"
HERE = "192.0.2.254"
DISK = calls.Disk(
    index=0,
    uuid="d15c0000-0000-4000-8000-000000000001",
    dev_type="file",
    size=16,
    logical_id=("file", f"{lab.ROOT}/srv/file-storage/{NAME}/d15c0000-0000-4000-8000-000000000001"),
)
SECOND = calls.Disk(
    index=1,
    uuid="d15c0000-0000-4000-8000-000000000002",
    dev_type="file",
    size=8,
    logical_id=("file", f"{lab.ROOT}/srv/file-storage/{NAME}/d15c0000-0000-4000-8000-000000000002"),
)


def guest(kind: str, *, memory: int = 128, **hvparams: calls.Value) -> calls.Instance:
    filled = {**parameters.fill(parameters.HYPERVISORS[kind]), **hvparams}
    return calls.Instance(
        name=NAME,
        uuid=samples.UUID,
        hypervisor=kind,
        hvparams=filled,
        beparams={"maxmem": memory, "minmem": 96, "vcpus": 1},
        disks=(DISK,),
        nics=(samples.nic(),),
    )


def paravirtual() -> calls.Instance:
    arguments = f"console=hvc0 quiet sysrq_always_enabled guest.address={PARAVIRTUAL}/24"
    return guest("xen-pvm", kernel_path="/guest/vmlinuz", initrd_path="/guest/initrd", kernel_args=arguments)


def answers(address: str) -> bool:
    ping = ["ping", "-c", "1", "-W", "1", address]
    return subprocess.run(ping, stdout=subprocess.DEVNULL, check=False).returncode == 0


def wait_for(address: str, *, timeout: float = 240) -> None:
    lab.until(lambda: answers(address), f"{address} does not answer", timeout=timeout)


def state(xen: Lab, vm: calls.Instance) -> str:
    info = xen.call(xen.nodes[0], calls.InstanceInfo(hypervisor=vm.hypervisor, name=NAME))
    return info.state if info else ""


def count(xen: Lab) -> int:
    """Return the counter that the guest writes to its disk."""
    return int(xen.nodes[0].sh(f"head -c 20 {DISK.logical_id[1]} | head -n 1 | tr -dc 0-9"))


@pytest.fixture
def disk(xen: Lab) -> Iterator[None]:
    node = xen.nodes[0]
    xen.call(node, calls.BlockdevCreate(disk=DISK, owner=NAME))
    yield
    for kind in ("xen-pvm", "xen-hvm"):
        xen.call(node, calls.InstanceShutdown(instance=guest(kind), timeout=0))
    xen.call(node, calls.BlockdevRemove(disk=DISK, owner=NAME))


@pytest.mark.usefixtures("disk")
def test_a_paravirtual_guest_lives_from_its_start_to_its_stop(xen: Lab) -> None:
    node, vm = xen.nodes[0], paravirtual()
    for _ in range(2):
        xen.call(node, calls.InstanceStart(instance=vm))
    wait_for(PARAVIRTUAL)
    (guest_info,) = xen.call(node, calls.InstanceList(hypervisors=("xen-pvm", "xen-hvm")))
    assert (guest_info.name, guest_info.uuid, guest_info.memory, guest_info.state) == (
        NAME,
        samples.UUID,
        128,
        "running",
    )
    lab.until(lambda: count(xen) > 3, "the guest does not write to its disk")

    assert xen.call(node, calls.InstanceBalloonMemory(instance=vm, memory=100)) == 100
    second = samples.nic(index=1)
    for _ in range(2):
        xen.call(node, calls.NicPlug(instance=vm, nic=second))
    assert xen.call(node, calls.NicUpdate(instance=vm, nic=second))
    assert len(node.sh("ip -oneline link show master br0 | grep vif").splitlines()) == 2
    for _ in range(2):
        xen.call(node, calls.NicUnplug(instance=vm, nic=second))
    assert not xen.call(node, calls.NicUpdate(instance=vm, nic=second))
    xen.call(node, calls.BlockdevCreate(disk=SECOND, owner=NAME))
    xen.call(node, calls.DiskPlug(instance=vm, disk=SECOND))
    xen.call(node, calls.DiskUnplug(instance=vm, disk=SECOND))
    xen.call(node, calls.BlockdevRemove(disk=SECOND, owner=NAME))

    number = node.sh(f"xl domid {NAME}")
    xen.call(node, calls.InstanceReboot(instance=vm, kind="soft", timeout=60))
    wait_for(PARAVIRTUAL)
    assert node.sh(f"xl domid {NAME}") != number
    console = xen.call(node, calls.InstanceConsole(instance=vm))
    assert console.command == ("xl", "console", "-t", "pv", NAME)

    began = time.monotonic()
    xen.call(node, calls.InstanceShutdown(instance=vm, timeout=120))
    assert time.monotonic() - began < 120
    assert state(xen, vm) == ""
    assert NAME not in node.sh("xl list")
    assert "vif" not in node.sh("ip -oneline link show master br0")


@pytest.mark.usefixtures("disk")
def test_the_way_a_guest_ended_is_reported(xen: Lab) -> None:
    node, vm = xen.nodes[0], paravirtual()
    xen.call(node, calls.InstanceStart(instance=vm))
    wait_for(PARAVIRTUAL)
    node.sh(f"xl shutdown -w {NAME}")
    (ending,) = xen.call(node, calls.InstanceEndings(hypervisors=("xen-pvm",)))
    assert (ending.name, ending.how) == (NAME, "shutdown")
    assert NAME not in node.sh("xl list")
    xen.call(node, calls.InstanceStart(instance=vm))
    wait_for(PARAVIRTUAL)
    node.sh(f"xl sysrq {NAME} c")
    lab.until(lambda: not state(xen, vm), "the crash is not noticed")
    (ending,) = xen.call(node, calls.InstanceEndings(hypervisors=("xen-pvm",)))
    assert (ending.name, ending.how) == (NAME, "crashed")


@pytest.mark.usefixtures("disk")
def test_a_guest_is_saved_to_another_node_and_comes_back_with_all_of_it(xen: Lab, tmp_path: Path) -> None:
    node, vm, saved = xen.nodes[0], paravirtual(), tmp_path / "saved"
    xen.call(node, calls.InstanceStart(instance=vm))
    wait_for(PARAVIRTUAL)
    asyncio.run(leave(xen, vm, saved))
    assert not answers(PARAVIRTUAL)
    assert saved.stat().st_size > 128 * MIB
    xen.call(node, calls.InstanceFinalizeMigrationSrc(instance=vm, success=False))
    wait_for(PARAVIRTUAL, timeout=30)

    before = count(xen)
    there_and_back(xen, vm, saved)
    wait_for(PARAVIRTUAL)
    assert count(xen) >= before
    assert state(xen, vm) == "running"


def there_and_back(xen: Lab, vm: calls.Instance, saved: Path) -> None:
    """Migrate a guest to this test, and back."""
    node = xen.nodes[0]
    info = xen.call(node, calls.InstanceMigrationInfo(instance=vm))
    asyncio.run(leave(xen, vm, saved))
    xen.call(node, calls.InstanceFinalizeMigrationSrc(instance=vm, success=True))
    assert NAME not in node.sh("xl list")
    reception = xen.call(node, calls.InstanceAccept(instance=vm, info=info, address=node.address))
    asyncio.run(come(xen, saved, reception))
    lab.until(lambda: state(xen, vm) == "arrived", "it did not arrive")
    with pytest.raises(errors.WrongStateError, match="a migration of instance vm1 to node node1 is not finished"):
        xen.call(node, calls.InstanceStart(instance=vm))
    for _ in range(2):
        xen.call(node, calls.InstanceFinalizeMigrationDst(instance=vm, success=True))


def tls(xen: Lab) -> ssl.SSLContext:
    """Return the certificate of a node that this test is."""
    key, request = security.make_request("node2")
    own = security.issue(xen.authority, request, uuid="uuid-2", name="node2", address=HERE, now=time.time())
    (xen.folder / "node2.key").write_bytes(key)
    (xen.folder / "node2.pem").write_bytes(own)
    return security.stream_server_context(str(xen.folder / "node2.pem"), str(xen.folder / "node2.key"))


async def leave(xen: Lab, vm: calls.Instance, saved: Path) -> None:
    """Take a guest's state in, as the node that it goes to."""
    node, token = xen.nodes[0], "token"
    arrival = await real.RealRuntime().streams.listen(HERE, token=token, tls=tls(xen))
    stage = commands.Stage(["dd", f"of={saved}", "bs=1M", "iflag=fullblock", "status=none"])
    arriving = asyncio.ensure_future(arrival.receive([stage], timeout=300))
    reception = calls.Reception(host=HERE, port=arrival.port, secret=token)
    await asyncio.to_thread(xen.call, node, calls.InstanceMigrate(instance=vm, reception=reception, live=True))
    ask = calls.InstanceMigrationStatus(instance=vm, wait=5)
    async with asyncio.timeout(300):
        while not (status := await asyncio.to_thread(xen.call, node, ask)).final:
            pass
    assert (status.status, status.reason) == ("completed", "")
    assert (await arriving).size == status.transferred


async def come(xen: Lab, saved: Path, reception: calls.Reception) -> None:
    """Send a guest's state, as the node that it comes from."""
    context = security.member_context(xen.authority.certificates)
    streamed = await real.RealRuntime().streams.send(
        [commands.Stage(["cat", str(saved)])], host=reception.host, port=reception.port,
        token=reception.secret, tls=context, timeout=300,
    )  # fmt: skip
    assert [exit_status.code for exit_status in streamed.exits] == [0]


@pytest.mark.usefixtures("disk")
def test_a_guest_boots_from_a_cd_by_its_own_firmware_and_moves(xen: Lab, tmp_path: Path) -> None:
    node = xen.nodes[0]
    vm = guest("xen-hvm", memory=160, cdrom_image_path="/guest/cd.iso", boot_order="d", vnc_bind_address="")
    xen.call(node, calls.HypervisorValidate(hypervisor="xen-hvm", hvparams=vm.hvparams))
    xen.call(node, calls.InstanceStart(instance=vm))
    wait_for(FULL, timeout=900)
    (guest_info,) = xen.call(node, calls.InstanceList(hypervisors=("xen-pvm", "xen-hvm")))
    assert (guest_info.hypervisor, guest_info.memory, guest_info.state) == ("xen-hvm", 160, "running")
    assert xen.call(node, calls.NicUpdate(instance=vm, nic=samples.nic()))
    assert answers(FULL)
    assert xen.call(node, calls.InstanceBalloonMemory(instance=vm, memory=140)) == 140
    there_and_back(xen, vm, tmp_path / "saved")
    wait_for(FULL)
    xen.call(node, calls.InstanceShutdown(instance=vm, timeout=120))
    assert NAME not in node.sh("xl list")


def test_what_a_node_cannot_give_is_refused(xen: Lab) -> None:
    node = xen.nodes[0]
    assert xen.call(node, calls.NodeVerify(hypervisors=("xen-pvm", "xen-hvm")))["hypervisor"] == []
    with pytest.raises(errors.InvalidError, match="kernel_path: there is no file /boot/vmlinuz-3-xenU on node node1"):
        xen.call(node, calls.InstanceStart(instance=guest("xen-pvm")))
    status = xen.call(node, calls.NodeInfo())
    assert status.memory_total > 1300
    assert status.memory_free < 700
