"""The creation of instances: parameters, refusals, plans and steps."""

from typing import cast

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import base, cluster, instance, opcodes, parameters
from gantry.operations.placement import builtin_allocator
from gantry.rpc import calls, targets

Disk, Nic = opcodes.DiskSpec, opcodes.NicSpec


def op(**fields: object) -> opcodes.InstanceCreate:
    plain = opcodes.InstanceCreate(
        instance_name="new", os_type="plain", disk_template="file", disks=(Disk(size=64),), pnode="node2"
    )
    return msgspec.structs.replace(plain, **fields)


def diskless(**fields: object) -> opcodes.InstanceCreate:
    return op(disks=(), disk_template="diskless", os_type=None, **fields)


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def test_an_instance_is_recorded_made_installed_and_started(lab: build.MemoryCluster) -> None:
    disks = (Disk(size="1g", mode="r", name="root"), Disk(size=10))
    nics = (Nic(ip=("lan", "pool6", "192.0.2.77"), network="net1", name="eth0"), Nic(mode="routed", link="9"))
    assert await lab.run(op(disks=disks, nics=nics, tags=("blue",), beparams={"vcpus": "2"})) == ["node2"]
    vm = lab.state.instance("new")
    assert (vm.primary_node, vm.hypervisor, vm.os, vm.admin_state) == ("n2", "fake", "plain", instance.AdminState.UP)
    assert (vm.ctime, vm.serial_no, vm.tags, vm.beparams) == (1000.0, 2, ("blue",), {"vcpus": 2})
    assert [(disk.size, disk.mode, disk.name) for disk in vm.disks] == [(1024, "ro", "root"), (10, "rw", "")]
    assert vm.disks[0].logical_id == ("file", f"/file/new/{vm.disks[0].uuid}")
    first, second = vm.nics
    assert first.ip == ("192.0.2.11", "2001:db8::10", "192.0.2.77")
    assert (first.network, first.name) == ("net", "eth0")
    assert first.nicparams == {"mode": "bridged", "link": "br7", "vlan": "12"}
    assert (second.network, second.ip, second.nicparams) == ("", (), {"mode": "routed", "link": "9"})
    assert len({first.mac, second.mac}) == 2
    assert first.mac.startswith("aa:00:00:")
    machine = lab.machine("node2")
    assert machine.disks == {disk.uuid: disk.size for disk in vm.disks}
    assert set(machine.running) == {"new"}
    assert [type(call).__name__ for _, call in lab.nodes.made[-4:]] == [
        "BlockdevCreate",
        "BlockdevCreate",
        "OsAdd",
        "InstanceStart",
    ]


@pytest.mark.promise("cluster-76", "cluster-77")
async def test_nodes_get_every_parameter_filled_in_and_the_instance_keeps_what_was_given(
    lab: build.MemoryCluster,
) -> None:
    cluster_wide = {"fake": {"migration_mode": "non-live"}}
    owner = msgspec.structs.replace(
        build.OWNER, hvparams=cluster_wide, beparams={"default": {"vcpus": 3}}, osparams={"plain": {"mirror": "a"}}
    )
    lab.put(owner)
    await lab.run(op(beparams={"maxmem": 256}, osparams={"dns": "b"}))
    vm = lab.state.instance("new")
    assert (vm.hvparams, vm.beparams, vm.osparams) == ({}, {"maxmem": 256}, {"dns": "b"})
    (start,) = lab.nodes.calls_of(calls.InstanceStart)
    assert isinstance(start, calls.InstanceStart)
    assert start.instance.hvparams == {"migration_mode": "non-live"}
    backend = {name: known.default for name, known in parameters.BACKEND.items()}
    assert start.instance.beparams == backend | {"maxmem": 256, "vcpus": 3}
    assert start.instance.osparams == {"mirror": "a", "dns": "b"}


@pytest.mark.promise("cluster-118")
@pytest.mark.parametrize(("requested", "passed"), [(None, 0), (0, 0), (1, 1)])
async def test_the_create_script_runs_with_the_debug_level_of_the_opcode(
    lab: build.MemoryCluster, requested: int | None, passed: int
) -> None:
    await lab.run(op(debug_level=requested))
    (add,) = lab.nodes.calls_of(calls.OsAdd)
    assert isinstance(add, calls.OsAdd)
    assert add.debug == passed


@pytest.mark.promise("cluster-75")
async def test_the_master_checks_names_and_the_node_values_before_anything_is_made(lab: build.MemoryCluster) -> None:
    assert "unknown fake hypervisor parameter colour" in str(await lab.refused(op(hvparams={"colour": "red"})))
    assert lab.nodes.made == []
    await lab.plan(op(hypervisor="kvm", hvparams={"kernel_path": "/boot/vmlinuz"}))
    (validate_call,) = lab.nodes.calls_of(calls.HypervisorValidate)
    assert isinstance(validate_call, calls.HypervisorValidate)
    assert (validate_call.hypervisor, validate_call.hvparams["kernel_path"]) == ("kvm", "/boot/vmlinuz")
    assert set(validate_call.hvparams) == set(parameters.KVM)


# The parameters of release 1.2 that belong to one hypervisor, by the names that they have since.
OF_HYPERVISORS: dict[str, dict[str, base.Value]] = {
    "xen-pvm": {"kernel_path": "/boot/k", "initrd_path": "/boot/i"},
    "xen-hvm": {
        "boot_order": "dc",
        "acpi": False,
        "pae": False,
        "cdrom_image_path": "/srv/iso/cd",
        "nic_type": "e1000",
        "disk_type": "ioemu",
        "vnc_bind_address": "127.0.0.1",
    },
}


@pytest.mark.promise("cluster-74")
@pytest.mark.parametrize("hypervisor", OF_HYPERVISORS)
async def test_every_parameter_of_release_1_2_is_found_in_its_class(lab: build.MemoryCluster, hypervisor: str) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, enabled_hypervisors=tuple(OF_HYPERVISORS)))
    own = OF_HYPERVISORS[hypervisor]
    backend: dict[str, base.Value] = {"memory": 256, "vcpus": 2}
    await lab.run(op(hypervisor=hypervisor, hvparams=own, beparams=backend))
    vm = lab.state.instance("new")
    assert (vm.name, vm.primary_node, vm.os, vm.hypervisor, vm.disk_template) == (
        *("new", "n2", "plain", hypervisor),
        "file",
    )
    assert (vm.admin_state, vm.serial_no, vm.network_port) == (instance.AdminState.UP, 2, 0)
    assert (len(vm.disks), vm.nics) == (1, ())
    assert vm.beparams == {"minmem": 256, "maxmem": 256, "vcpus": 2}
    assert vm.hvparams == own
    (start,) = lab.nodes.calls_of(calls.InstanceStart)
    assert isinstance(start, calls.InstanceStart)
    assert start.instance.hvparams == parameters.fill(parameters.HYPERVISORS[hypervisor], own)
    for name, other_names in OF_HYPERVISORS.items():
        for parameter in set(other_names) - set(parameters.HYPERVISORS[hypervisor]):
            refused = await lab.refused(op(instance_name="x", hypervisor=hypervisor, hvparams={parameter: "x"}))
            assert f"unknown {hypervisor} hypervisor parameter {parameter}" in str(refused), name
    for parameter in (*own, "kernel_path"):
        refused = await lab.refused(op(instance_name="x", hypervisor=hypervisor, beparams={parameter: 1}))
        assert f"unknown backend parameter {parameter}" in str(refused)
    for each in parameters.HYPERVISORS:
        assert not {"memory", "maxmem", "minmem", "vcpus", "os", "disk_template", "nics"} & {
            *parameters.HYPERVISORS[each]
        }
    wrong = await lab.refused(op(instance_name="x", hypervisor="xen-hvm", hvparams={"boot_order": "cz"}))
    assert "boot_order: 'cz' may only have the letters acdn" in str(wrong)


async def test_an_instance_is_down_until_it_is_installed_and_recorded_up_before_it_starts(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, instance.AdminState] = {}
    inner = lab.nodes.call

    async def call(target: targets.Target, request: calls.Call[object]) -> object:
        if "new" in {vm.name for vm in lab.state.instances.values()}:
            seen[request.procedure()] = lab.state.instance("new").admin_state
        return await inner(target, request)

    monkeypatch.setattr(lab.nodes, "call", call)
    await lab.run(op())
    assert seen.pop("instance_start") is instance.AdminState.UP
    assert {*seen.values()} == {instance.AdminState.DOWN}
    assert {"blockdev_create", "os_add"} <= seen.keys()
    assert lab.state.instance("new").admin_state is instance.AdminState.UP


async def test_a_dry_run_names_addresses_disks_and_steps(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(op(nics=(Nic(ip="pool", network="net1"),), dry_run=True))
    lines = "\n".join(plan.lines)
    for part in (
        "instance new on node2",
        "memory 128 MiB, virtual processors 1",
        "disk 0 of 64 MiB (file)",
        "addresses 192.0.2.11 (pool lan), network net1",
        "install plain",
        "start the instance",
    ):
        assert part in lines


async def test_a_dry_run_names_the_pool_of_each_address_of_a_network(lab: build.MemoryCluster) -> None:
    nics = (Nic(ip=("lan", "pool6", "192.0.2.77"), network="net1"), Nic(mode="routed", link="9"))
    plan = await lab.plan(op(nics=nics, beparams={"minmem": 64, "maxmem": 96, "vcpus": 3}, dry_run=True))
    lines = "\n".join(plan.lines)
    assert (
        "addresses 192.0.2.11 (pool lan), 2001:db8::10 (pool 2001:db8::10-2001:db8::1f), 192.0.2.77, network net1"
        in lines
    )
    assert any(line.startswith("NIC 1: ") and line.endswith(", addresses none") for line in plan.lines)
    assert "memory 64 to 96 MiB, virtual processors 3" in lines


async def test_without_start_and_installation_the_node_only_makes_disks(lab: build.MemoryCluster) -> None:
    await lab.run(op(start=False, no_install=True, os_type=None, beparams={"memory": 99999}))
    vm = lab.state.instance("new")
    assert vm.admin_state is instance.AdminState.DOWN
    assert not lab.nodes.calls_of(calls.OsAdd) + lab.nodes.calls_of(calls.InstanceStart)
    assert len(lab.machine("node2").disks) == 1


async def test_defaults_are_the_first_of_what_is_enabled(lab: build.MemoryCluster) -> None:
    await lab.run(op(disk_template=None, hypervisor=None))
    vm = lab.state.instance("new")
    assert (vm.disk_template, vm.hypervisor) == ("file", "fake")


async def test_a_setting_may_be_said_to_be_the_default(lab: build.MemoryCluster) -> None:
    await lab.run(diskless(beparams={"vcpus": "default"}, hvparams={"migration_mode": "default"}))
    vm = lab.state.instance("new")
    assert (vm.beparams, vm.hvparams) == ({}, {})


@pytest.mark.parametrize(
    ("size", "parsed"),
    [(1, 1), (10, 10), ("10", 12), ("12m", 12), ("1G", 1024), ("0.5t", 524288), ("1.5", 4), ("4.5", 8), ("0.1g", 104)],
)
def test_text_of_a_size_is_rounded_up_to_4_mib(size: int | str, parsed: int) -> None:
    assert parameters.size(size) == parsed


@pytest.mark.parametrize("size", ["", "g", "1x", "many", "nan", "infg", "1e400g", "1 g g", "0x10"])
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not valid"):
        parameters.size(size)


OLD = calls.OsScript(name="old", path="/os/old", problem="the script create is missing")
VARIED = calls.OsScript(name="varied", path="/os/varied", variants=("small", "large"))
KVM_ONLY = calls.OsScript(name="kvm-only", path="/os/k", hypervisors=("kvm",))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_name": "vm1"}, "instance vm1 exists already"),
        ({"pnode": "node9"}, "no such node: node9"),
        ({"hypervisor": "xen-pvm"}, "hypervisor xen-pvm is not enabled; enabled hypervisors: fake, kvm"),
        ({"disk_template": "plain"}, "disk template plain is not enabled; enabled templates: file, diskless"),
        ({"disk_template": "plain"}, "; to enable it: gnt-cluster modify --enabled-disk-templates file,diskless,plain"),
        ({"hypervisor": "xen-pvm"}, "; to enable it: gnt-cluster modify --enabled-hypervisors fake,kvm,xen-pvm"),
        ({"disk_template": "diskless"}, "a diskless instance cannot have disks"),
        ({"disks": ()}, "disk template file needs at least one disk"),
        ({"disks": (Disk(size=0),)}, "disk 0: size 0 is not above 0 MiB"),
        ({"disks": (Disk(size=4), Disk(size="-1g"))}, "disk 1: size -1g is not above 0 MiB"),
        ({"disks": (Disk(size="x"),)}, "disk size 'x' is not valid"),
        (
            {"disks": (Disk(size="1t"),)},
            "node node2 cannot take instance new: needs 1048576 MiB of disk space, 5000 MiB are free",
        ),
        (
            {"beparams": {"memory": 2049}},
            "node node2 cannot take instance new: needs 2049 MiB of memory, 2048 MiB are free",
        ),
        ({"beparams": {"colour": 1}}, "unknown backend parameter colour"),
        ({"os_type": None}, "no operating system was specified"),
        ({"os_type": "minix"}, "no OS definition minix"),
        ({"os_type": "old"}, "OS old cannot be installed: the script create is missing"),
        ({"os_type": "varied"}, "OS varied needs a variant; use varied+VARIANT; variants: small, large"),
        ({"os_type": "varied+huge"}, "OS varied has no variant huge; variants: small, large"),
        ({"os_type": "plain+huge"}, "OS plain has no variant huge; variants: none"),
        ({"os_type": "kvm-only"}, "OS kvm-only does not support hypervisor fake; supported hypervisors: kvm"),
        ({"os_type": "kvm-only", "hypervisor": "fake"}, "does not support hypervisor fake"),
        ({"nics": (Nic(network="nowhere"),)}, "no such network: nowhere"),
        (
            {"nics": (Nic(network="spare"),)},
            "node node2 cannot take instance new: network spare is not connected to node group default",
        ),
        ({"nics": (Nic(ip="pool"),)}, "NIC 0: ip=pool needs a network"),
        ({"nics": (Nic(ip="pool6"),)}, "NIC 0: ip=pool6 needs a network"),
        ({"nics": (Nic(ip="lan"),)}, "'lan' is not an IP address"),
        ({"nics": (Nic(), Nic(ip="192.0.2.9"))}, "NIC 1: address 192.0.2.9 belongs to network net1; add network=net1"),
        (
            {"nics": (Nic(mode="routed", vlan="3", network="net1"),)},
            "NIC 0: mode, vlan cannot be set with network net1",
        ),
        ({"nics": (Nic(mode="ovs"),)}, "'ovs' is not one of bridged, routed"),
        ({"nics": (Nic(mac="aa:00:00:00:00"),)}, "MAC address aa:00:00:00:00 is not valid"),
        ({"nics": (Nic(mac="01:00:00:00:00:01"),)}, "multicast"),
        ({"nics": (Nic(mac="aa:00:00:00:00:01"),)}, "MAC address aa:00:00:00:00:01 is in use by instance vm1"),
        ({"nics": (Nic(mac="aa:00:00:00:00:09"), Nic(mac="AA:00:00:00:00:09"))}, "is in use by instance new"),
        ({"nics": (Nic(ip="192.0.2.10", network="net1"),)}, "in use by instance vm1"),
        ({"nics": (Nic(ip="192.0.2.50", network="net1"),)}, "is reserved externally; allocate it with --force"),
        ({"nics": (Nic(ip=("lan",) * 10, network="net1"),)}, "pool lan of network net1 is full"),
    ],
)
async def test_what_is_refused(lab: build.MemoryCluster, fields: dict[str, object], message: str) -> None:
    machine = lab.machine("node2")
    machine.systems = (*machine.systems, OLD, VARIED, KVM_ONLY)
    for dry_run in (False, True):
        error = await lab.refused(op(**fields, dry_run=dry_run))
        assert message in str(error)
        assert isinstance(error, errors.PrerequisiteError)


async def test_a_variant_can_be_forced_and_an_address_too(lab: build.MemoryCluster) -> None:
    lab.machine("node2").systems = (VARIED,)
    await lab.plan(op(os_type="varied+small"))
    await lab.plan(op(os_type="varied+huge", force_variant=True))
    plan = await lab.plan(diskless(force=True, nics=(Nic(ip="192.0.2.50", network="net1"),)))
    assert "192.0.2.50" in "\n".join(plan.lines)


async def test_a_network_has_its_own_mac_prefix(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NET, mac_prefix="ee:00:0e"))
    await lab.run(diskless(nics=(Nic(network="net1"),)))
    assert lab.state.instance("new").nics[0].mac.startswith("ee:00:0e:")


def marked(number: int, **flags: bool) -> cluster.Node:
    return msgspec.structs.replace(build.NODES[number - 1], **flags)


@pytest.mark.parametrize(
    ("flags", "kind", "message"),
    [
        ({"offline": True}, errors.WrongStateError, "node node2 cannot take instance new: the node is offline"),
        ({"drained": True}, errors.WrongStateError, "node node2 cannot take instance new: the node is drained"),
        (
            {"vm_capable": False},
            errors.WrongStateError,
            "node node2 cannot take instance new: the node is not vm_capable",
        ),
    ],
)
async def test_a_node_that_is_named_must_take_instances(
    lab: build.MemoryCluster, flags: dict[str, bool], kind: type[errors.GantryError], message: str
) -> None:
    lab.put(marked(2, **flags))
    error = await lab.refused(op())
    assert type(error) is kind
    assert message in str(error)
    assert lab.nodes.made == []


async def test_a_node_that_is_silent_is_no_place(lab: build.MemoryCluster) -> None:
    lab.machine("node2").down = True
    error = await lab.refused(op())
    assert type(error) is errors.EnvironmentFaultError
    assert "node node2 cannot take instance new: the node does not answer" in str(error)


@pytest.mark.promise("cluster-95")
async def test_without_a_name_the_node_with_the_most_free_memory_is_taken(lab: build.MemoryCluster) -> None:
    lab.machine("node3").status = msgspec.structs.replace(build.STATUS, memory_free=3000)
    assert await lab.run(op(pnode=None)) == ["node3"]
    lab.put(marked(3, drained=True))
    assert await lab.run(op(pnode=None, instance_name="other")) == ["node1"]


@pytest.mark.promise("cluster-87", "cluster-95")
async def test_when_no_node_fits_every_node_has_its_reason(lab: build.MemoryCluster) -> None:
    lab.put(marked(1, offline=True), marked(2, drained=True))
    lab.machine("node3").down = True
    error = await lab.refused(op(pnode=None))
    assert isinstance(error, errors.NoRoomError)
    assert "node1: the node is offline; node2: the node is drained; node3: the node does not answer" in str(error)
    lab.put(marked(3, offline=True))
    assert "node3: the node is offline" in str(await lab.refused(op(pnode=None)))


async def test_a_group_narrows_the_choice(lab: build.MemoryCluster) -> None:
    lab.put(cluster.NodeGroup(uuid="g2", name="empty"))
    assert "there are no nodes" in str(await lab.refused(op(pnode=None, group_name="empty")))
    assert "no such node group: nobody" in str(await lab.refused(op(pnode=None, group_name="nobody")))
    assert await lab.run(op(pnode=None, group_name="default")) == ["node1"]


def large(lab: build.MemoryCluster, count: int) -> list[cluster.Node]:
    """Make the cluster a large one and return the nodes that are new; they have less memory than those of ``build``."""
    nodes = [
        msgspec.structs.replace(
            build.NODES[1], uuid=f"m{number}", name=f"many{number}", primary_ip=f"198.51.{number}.1"
        )
        for number in range(count)
    ]
    lab.put(*nodes)
    for node in nodes:
        lab.machine(node.name).status = msgspec.structs.replace(build.STATUS, memory_free=1024)
    return nodes


async def test_one_instance_does_not_make_the_master_ask_all_nodes_of_a_large_cluster(lab: build.MemoryCluster) -> None:
    large(lab, 200)
    for number in range(10):
        lab.nodes.made.clear()
        await lab.run(op(pnode=None, instance_name=f"new{number}"))
        assert len(lab.nodes.calls_of(calls.NodeInfo)) == builtin_allocator.SAMPLE_SIZE


async def test_instances_spread_over_a_large_cluster(lab: build.MemoryCluster) -> None:
    large(lab, 60)
    for number in range(60):
        (name,) = cast("list[str]", await lab.run(diskless(pnode=None, instance_name=f"new{number}")))
        machine = lab.machine(name)
        free = machine.status.memory_free - 128
        machine.status = msgspec.structs.replace(machine.status, memory_free=free)
    instance_counts = [len(lab.state.on_node.get(node.uuid) or ()) for node in lab.state.nodes.values()]
    assert max(instance_counts) <= 20


async def test_the_only_node_with_room_is_found_in_a_large_cluster(lab: build.MemoryCluster) -> None:
    nodes = large(lab, 100)
    for node in lab.state.nodes.values():
        machine = lab.machine(node.name)
        machine.status = msgspec.structs.replace(build.STATUS, memory_free=0)
    lab.machine(nodes[57].name).status = build.STATUS
    assert await lab.run(op(pnode=None)) == [nodes[57].name]
    error = await lab.refused(op(pnode=None, instance_name="huge", beparams={"maxmem": 1 << 30}))
    assert str(error).count("MiB of memory, ") == 103
