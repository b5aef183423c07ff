"""Ports that become NICs of instances: what comes with them, what is refused, and what remains of them."""

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, lock, network, opcodes
from gantry.operations.network import views
from gantry.operations.query import lookup

Nic = opcodes.NicSpec
PORT = network.Port(
    uuid="11111111-2222-4333-8444-555555555555",
    name="p1",
    network="net",
    mac="fa:16:3e:00:00:01",
    ip=("192.0.2.15", "2001:db8::15"),
    project="green",
    description="a port",
    tags=("blue",),
    admin_state_up=False,
    serial_no=3,
    ctime=5.0,
)
SECOND = structs.replace(PORT, uuid="22222222-2222-4333-8444-555555555555", name="p2", mac="fa:16:3e:00:00:02", ip=())


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(PORT, SECOND)
    return lab


def create(*nics: opcodes.NicSpec, **fields: object) -> opcodes.InstanceCreate:
    plain = opcodes.InstanceCreate(instance_name="new", disk_template="diskless", pnode="node2", nics=nics)
    return structs.replace(plain, **fields)


def modify(*nics: list[object], name: str = "new", **fields: object) -> opcodes.InstanceSetParams:
    op = opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": name, "nics": [*nics], **fields})
    assert isinstance(op, opcodes.InstanceSetParams)
    return op


def in_port_list(lab: build.MemoryCluster, uuid: str = PORT.uuid) -> dict[str, object]:
    """Return a port as clients see it, whether it is a NIC or not."""
    (port,) = [port for port in lookup.every_port(lab.state) if port.uuid == uuid]
    return views.row(views.PORT, lab.state, port)


async def added(lab: build.MemoryCluster, *nics: opcodes.NicSpec) -> instance.Instance:
    await lab.run(create(*nics))
    return lab.state.instance("new")


@pytest.mark.parametrize("name", ["p1", PORT.uuid])
async def test_a_nic_has_network_mac_and_addresses_of_its_port(lab: build.MemoryCluster, name: str) -> None:
    vm = await added(lab, Nic(port=name, name="eth0"))
    (nic,) = vm.nics
    assert (nic.uuid, nic.mac, nic.ip, nic.network) == (PORT.uuid, PORT.mac, PORT.ip, "net")
    assert (nic.name, nic.nicparams) == ("eth0", {"mode": "bridged", "link": "br7", "vlan": "12"})
    assert lab.machine("node2").running["new"].nics[0].mac == PORT.mac
    row = in_port_list(lab)
    assert (row["device_id"], row["device_owner"], row["instance"]) == (vm.uuid, "compute:gantry", "new")
    kept = ("name", "project", "description", "tags", "admin_state_up", "ctime", "serial_no", "mac")
    assert [row[field] for field in kept] == ["p1", "green", "a port", ["blue"], False, 5.0, 3, PORT.mac]
    assert PORT.uuid not in lab.state.ports


async def test_a_port_remains_when_its_instance_is_removed(lab: build.MemoryCluster) -> None:
    await added(lab, Nic(port="p1"))
    await lab.run(opcodes.InstanceRemove(instance_name="new"))
    assert lab.state.ports[PORT.uuid] == structs.replace(PORT, serial_no=4, mtime=build.NOW)
    await added(lab, Nic(port="p1"))


async def test_a_port_remains_when_an_export_removes_its_instance(lab: build.MemoryCluster) -> None:
    disks = {"disk_template": "file", "disks": (opcodes.DiskSpec(size=64),)}
    await lab.run(create(Nic(port="p1"), start=False, os_type="plain", **disks))
    await lab.run(opcodes.BackupExport(instance_name="new", target_node="node3", remove_instance=True))
    assert lab.state.ports[PORT.uuid].ip == PORT.ip


async def test_a_port_is_added_and_removed_with_its_nic(lab: build.MemoryCluster) -> None:
    await added(lab, Nic(port="p1"))
    await lab.run(modify(["add", -1, {"port": "p2"}]))
    assert [nic.uuid for nic in lab.state.instance("new").nics] == [PORT.uuid, SECOND.uuid]
    assert {*lab.state.ports} == set()
    await lab.run(modify(["remove", 0, {}]))
    assert [nic.uuid for nic in lab.state.instance("new").nics] == [SECOND.uuid]
    assert in_port_list(lab)["device_id"] == ""
    assert lab.state.addresses["net", PORT.ip[0]].port == PORT.uuid


async def test_a_changed_nic_changes_its_port(lab: build.MemoryCluster) -> None:
    await added(lab, Nic(port="p1"))
    await lab.run(modify(["modify", 0, {"ip": ["192.0.2.16"], "mac": "fa:16:3e:00:00:09"}]))
    await lab.run(opcodes.InstanceRemove(instance_name="new"))
    port = lab.state.ports[PORT.uuid]
    assert (port.ip, port.mac) == (("192.0.2.16",), "fa:16:3e:00:00:09")


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        (Nic(port="nosuch"), errors.NotFoundError, "no such port: nosuch"),
        (Nic(port="twin"), errors.InvalidError, "port name twin is ambiguous"),
        (Nic(port="dhcp"), errors.WrongStateError, "is in use by device network:dhcp agent-1; use another port"),
        (Nic(port="lost"), errors.WrongStateError, "network spare is not connected to node group default"),
        (Nic(port="p1", mac="aa:00:00:00:00:09"), errors.InvalidError, "NIC 0: mac cannot be set with port p1"),
        (Nic(port="p1", ip="pool", network="net1"), errors.InvalidError, "ip, network cannot be set with port p1"),
        (Nic(port="p1", link="br9"), errors.InvalidError, "link cannot be set with network net1"),
    ],
)  # fmt: skip
async def test_a_port_that_cannot_become_a_nic_is_refused(
    lab: build.MemoryCluster, spec: opcodes.NicSpec, kind: type[errors.GantryError], message: str
) -> None:
    plain = structs.replace(PORT, ip=())
    for index, fields in enumerate(
        (
            {"name": "twin"},
            {"name": "twin"},
            {"name": "dhcp", "device_owner": "network:dhcp", "device_id": "agent-1"},
            {"name": "lost", "network": "spare"},
        )
    ):
        lab.put(structs.replace(plain, uuid=f"u{index}", mac=f"fa:16:3e:00:01:0{index}", **fields))
    error = await lab.refused(create(spec))
    assert isinstance(error, kind)
    assert message in str(error)
    assert "new" not in {vm.name for vm in lab.state.instances.values()}


@pytest.mark.parametrize("name", ["p1", PORT.uuid])
async def test_a_port_in_use_is_refused_with_the_instance_that_has_it(lab: build.MemoryCluster, name: str) -> None:
    await added(lab, Nic(port="p1"))
    error = await lab.refused(create(Nic(port=name), instance_name="second"))
    assert isinstance(error, errors.WrongStateError)
    assert f"port {name} is in use: it is a NIC of instance new" in str(error)
    error = await lab.refused(opcodes.PortRemove(port=PORT.uuid))
    assert isinstance(error, errors.WrongStateError)


async def test_an_instance_has_ports_of_one_project_and_each_once(lab: build.MemoryCluster) -> None:
    lab.put(structs.replace(SECOND, project="blue"))
    error = await lab.refused(create(Nic(port="p1"), Nic(port="p2")))
    assert "NIC 1 of new: port p2 belongs to project blue, but the port of NIC 0 to project green" in str(error)
    error = await lab.refused(create(Nic(port="p1"), Nic(port="p1")))
    assert "are the same port" in str(error)
    await added(lab, Nic(port="p1"))
    error = await lab.refused(modify(["add", -1, {"port": "p2"}]))
    assert "belongs to project blue" in str(error)


async def test_the_nic_of_a_port_stays_in_its_network_and_others_become_no_port(lab: build.MemoryCluster) -> None:
    lab.put(
        structs.replace(build.GROUP, networks={**build.GROUP.networks, "spare": cluster.Connection("bridged", "b")})
    )
    await added(lab, Nic(port="p1"))
    error = await lab.refused(modify(["modify", 0, {"network": "spare"}]))
    assert "NIC 0 is port p1, which stays in its network" in str(error)
    error = await lab.refused(modify(["modify", 0, {"port": "p2"}], name="vm1"))
    assert "NIC 0: a NIC cannot become a port later" in str(error)


async def test_the_addresses_of_a_running_guest_are_not_given_back_with_its_port(lab: build.MemoryCluster) -> None:
    await added(lab, Nic(port="p1"))
    error = await lab.refused(modify(["remove", 0, {}], hotplug=False))
    assert isinstance(error, errors.WrongStateError)
    assert "NIC 0 of new is port p1; the running guest keeps its addresses; stop the instance first" in str(error)
    await lab.run(modify(["remove", 0, {}]))
    assert lab.state.ports[PORT.uuid].ip == PORT.ip


async def test_no_port_is_lost_if_the_removal_of_its_nic_ends_half_way(lab: build.MemoryCluster) -> None:
    await added(lab, Nic(port="p1"), Nic(network="net", ip="192.0.2.17"), Nic(port="p2"))
    plan = await lab.plan(modify(["remove", 0, {}], ["remove", 0, {}]))
    assert plan.steps
    # This remains if a step fails and cannot be undone, or if the master ends.
    lab.change(plan.changes)
    vm = lab.state.instance("new")
    assert [nic.uuid for nic in vm.nics] == [PORT.uuid, SECOND.uuid]
    assert [address.ip for address in vm.lingering] == ["192.0.2.17"]
    assert in_port_list(lab)["instance"] == "new"
    await lab.run(modify(["remove", 0, {}]))
    assert lab.state.ports[PORT.uuid].ip == PORT.ip
    assert [nic.uuid for nic in lab.state.instance("new").nics] == [SECOND.uuid]


async def test_the_locks_are_those_of_port_and_network(lab: build.MemoryCluster) -> None:
    unit = lab.unit(create(Nic(port="p1")))
    locks = unit.locks(lab.state)
    assert locks[lock.Level.NETWORK, PORT.uuid] is lock.Mode.EXCLUSIVE
    assert locks[lock.Level.NETWORK, "net"] is lock.Mode.SHARED
