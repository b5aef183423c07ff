"""The variables that scripts receive, for each kind of NIC and operation with hooks, against ``tests/golden/hooks``.

``GOLDEN=1 pytest tests/golden`` (``make golden``) rewrites the files. Hypervisor parameters are left out.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import structs
from tests.operations import build

from gantry.daemons import units
from gantry.model import cluster, instance, network, opcodes
from gantry.node.os import script_environment
from gantry.operations import base, fill, hook_environment
from gantry.state.objects import snapshot as states

FOLDER = Path(__file__).parent / "hooks"

OWNER = cluster.Cluster(uuid="c", name="lab.example", master_node="n1", enabled_hypervisors=("kvm",), tags=("lab",))
PLUG = cluster.Connection(mode="bridged", link="br7")
CONNECTED = ("plain", "wide", "six", "cable", "vlan", "tunnel")
GROUP = cluster.NodeGroup(uuid="g", name="default", networks=dict.fromkeys(CONNECTED, PLUG))
EMPTY = cluster.NodeGroup(uuid="e", name="empty")
NODES = tuple(
    cluster.Node(
        uuid=f"n{i}", name=f"node{i}.example", primary_ip=f"203.0.113.{i}", group="g", tags=("rack1",) * (i % 2)
    )
    for i in (1, 2, 3)
)
V4 = network.Subnet(uuid="s4", cidr="192.0.2.0/24", gateway="192.0.2.1")
V6 = network.Subnet(uuid="s6", cidr="2001:db8::/64", gateway="2001:db8::1")
SPECIMENS = (
    network.Network(uuid="plain", name="plain", mac_prefix="aa:00:07", subnets=(V4, V6), tags=("blue", "green")),
    network.Network(
        uuid="wide",
        name="wide",
        subnets=(
            V4,
            network.Subnet(uuid="s9", cidr="198.51.100.0/24", dhcp=True),
            network.Subnet(
                uuid="s6", cidr="2001:db8::/64", gateway="2001:db8::1", pools=(network.Pool("2001:db8::/64"),)
            ),
        ),
    ),
    network.Network(uuid="six", name="six", subnets=(V6,)),
    network.Network(uuid="cable", name="cable"),
    network.Network(uuid="spare", name="spare", subnets=(V4,)),
    network.Network(uuid="vlan", name="vlan", segment=network.Segment("vlan", 101, "physnet1")),
    network.Network(uuid="tunnel", name="tunnel", segment=network.Segment("vxlan", 70_000)),
)
NETWORKS = tuple(
    structs.replace(
        net, subnets=tuple(structs.replace(subnet, uuid=f"{net.uuid}-{subnet.uuid}") for subnet in net.subnets)
    )
    for net in SPECIMENS
)


def nic(net: str, *ips: str) -> instance.Nic:
    return instance.Nic(
        uuid="x1",
        mac="aa:00:00:00:00:01",
        ip=ips,
        network=net,
        nicparams={"mode": "bridged", "link": "br7"},
    )


NICS = {
    "one-address": nic("plain", "192.0.2.10"),
    "several-addresses": nic("wide", "192.0.2.10", "198.51.100.9", "2001:db8::5"),
    "no-network": nic(""),
    "layer-2-only": nic("cable"),
    "ipv6-only": nic("six", "2001:db8::5"),
    "vlan-segment": nic("vlan"),
    "vxlan-segment": nic("tunnel"),
}


def vm(card: instance.Nic) -> instance.Instance:
    return instance.Instance(
        uuid="i1",
        name="vm1.example",
        primary_node="n2",
        hypervisor="kvm",
        os="plain+small",
        admin_state=instance.AdminState.UP,
        disks=(instance.Disk(uuid="d1", dev_type="file", size=64, name="root", logical_id=("file", "/file/d1")),),
        nics=(card,),
        osparams={"mirror": "near"},
        tags=("web", "db"),
    )


def build_lab(card: instance.Nic) -> build.MemoryCluster:
    return build.MemoryCluster(OWNER, GROUP, EMPTY, *NODES, *NETWORKS, vm(card))


def text(title: str, values: Mapping[str, str]) -> list[str]:
    return [f"# {title}", *(f"{name}={value}" for name, value in sorted(values.items()) if "_HV_" not in name), ""]


def compare(name: str, lines: list[str]) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines))
    assert path.read_text() == "\n".join(lines), f"{path} is not up to date: make golden"


@pytest.mark.parametrize("kind", NICS)
def test_scripts_receive_each_kind_of_nic_as_in_the_golden_file(kind: str) -> None:
    state = build_lab(NICS[kind]).state
    whole = fill.fill(state, state.instances["i1"])
    script = script_environment.os_script(whole, {"d1": "/file/d1"}, api_version=20, debug=0, reinstall=False)
    interface = script_environment.nic(whole, whole.nics[0], interface="gnt0", action="up")
    hook = hook_environment.instance_variables(state, state.instances["i1"])
    lines = [
        *text("OS script", script), *text("interface script", interface), *text("hook, each with GANETI_", hook)
    ]  # fmt: skip
    compare(f"nic-{kind}", lines)


VM = "vm1.example"
OPERATIONS: dict[str, opcodes.Opcode] = {
    "instance-add": opcodes.InstanceCreate(
        instance_name="new.example",
        disk_template="diskless",
        pnode="node2.example",
        nics=(opcodes.NicSpec(ip=("pool", "192.0.2.77"), network="wide"),),
    ),
    "instance-start": opcodes.InstanceStartup(instance_name=VM, force=True),
    "instance-stop": opcodes.InstanceShutdown(instance_name=VM, timeout=7),
    "instance-reboot": opcodes.InstanceReboot(instance_name=VM, reboot_type="soft"),
    "instance-remove": opcodes.InstanceRemove(instance_name=VM),
    "instance-reinstall": opcodes.InstanceReinstall(instance_name=VM, os_type="other"),
    "instance-rename": opcodes.InstanceRename(instance_name=VM, new_name="vm2.example"),
    "instance-export": opcodes.BackupExport(instance_name=VM, target_node="node3.example"),
    "instance-modify": opcodes.InstanceSetParams(instance_name=VM, beparams={"vcpus": 2}),
    "instance-failover": opcodes.InstanceFailover(instance_name=VM, target_node="node3.example"),
    "instance-migrate": opcodes.InstanceMigrate(instance_name=VM, target_node="node3.example"),
    "instance-move": opcodes.InstanceMove(instance_name=VM, target_node="node3.example"),
    "instance-change-group": opcodes.InstanceChangeGroup(instance_name=VM, target_groups=("far",)),
    "group-evacuate": opcodes.GroupEvacuate(group_name="default", target_groups=("far",)),
    "node-migrate": opcodes.NodeMigrate(node_name="node2.example"),
    "node-add": opcodes.NodeAdd(node_name="new.example", primary_ip="203.0.113.9", join_token=build.TOKEN),
    "node-modify": opcodes.NodeSetParams(node_name="node3.example", drained=True),
    "node-remove": opcodes.NodeRemove(node_name="node3.example"),
    "network-add": opcodes.NetworkAdd(network_name="new", network="10.0.0.0/24", gateway="10.0.0.1", tags=("red",)),
    "network-modify": opcodes.NetworkSetParams(network_name="wide", gateway="192.0.2.9"),
    "network-rename": opcodes.NetworkRename(network_name="wide", new_name="broad"),
    "network-remove": opcodes.NetworkRemove(network_name="spare"),
    "network-connect": opcodes.NetworkConnect(
        network_name="spare", group_name="default", network_mode="bridged", network_link="br9", network_vlan="12"
    ),
    "network-disconnect": opcodes.NetworkDisconnect(network_name="six", group_name="default"),
    "group-add": opcodes.GroupAdd(group_name="new"),
    "group-modify": opcodes.GroupSetParams(group_name="default", alloc_policy=cluster.AllocPolicy.LAST_RESORT),
    "disk-grow": opcodes.InstanceGrowDisk(instance_name=VM, disk=0, amount=64),
    "instance-recreate-disks": opcodes.InstanceRecreateDisks(instance_name=VM),
    "mirrors-replace": opcodes.InstanceReplaceDisks(
        instance_name=VM, mode="replace_new_secondary", remote_node="node3.example"
    ),
    "group-rename": opcodes.GroupRename(group_name="default", new_name="rack1"),
    "group-remove": opcodes.GroupRemove(group_name="empty"),
    "cluster-init": opcodes.ClusterPostInit(),
    "cluster-modify": opcodes.ClusterSetParams(mac_prefix="aa:00:07"),
    "cluster-verify": opcodes.ClusterVerify(),
}


ANYWHERE = ("instance-failover", "instance-migrate", "instance-change-group", "group-evacuate", "node-migrate")
"""Operations on an instance whose disks are reachable from every node."""

FAR = cluster.NodeGroup(uuid="f", name="far", networks=GROUP.networks)
DISTANT = cluster.Node(uuid="n9", name="node9.example", primary_ip="203.0.113.9", group="f")
WITHOUT = {
    opcodes.AccessAdd,
    opcodes.AccessRemove,
    opcodes.TokenAdd,
    opcodes.TokenRevoke,
    opcodes.WebhookAdd,
    opcodes.WebhookRemove,
    opcodes.WebhookSetParams,
    opcodes.WebhookTest,
    opcodes.BackupRemove,
    opcodes.ClusterRedistConf,
    opcodes.ClusterRenewCrypto,
    opcodes.ClusterRepairStorage,
    opcodes.ClusterRepairStrayGuests,
    opcodes.ClusterVerifyDisks,
    opcodes.GroupAssignNodes,
    opcodes.GroupVerifyDisks,
    opcodes.InstanceActivateDisks,
    opcodes.InstanceConsole,
    opcodes.InstanceDeactivateDisks,
    opcodes.InstanceQueryData,
    opcodes.NodeEvacuate,
    opcodes.NodeInvite,
    opcodes.NodeModifyStorage,
    opcodes.NodeQueryInvitations,
    opcodes.NodeQueryStorage,
    opcodes.NodeQueryvols,
    opcodes.NodeRevokeInvitation,
    opcodes.OsDiagnose,
    opcodes.PortAdd,
    opcodes.PortRemove,
    opcodes.PortSetParams,
    opcodes.RepairNodeStorage,
    opcodes.SegmentDefaultsSet,
    opcodes.SegmentRangeAdd,
    opcodes.SegmentRangeRemove,
    opcodes.SegmentRangeSetParams,
    opcodes.StrayGuestRepair,
    opcodes.SubnetPoolAdd,
    opcodes.SubnetPoolRemove,
    opcodes.SubnetPoolSetParams,
    opcodes.TagsDel,
    opcodes.TagsSearch,
    opcodes.TagsSet,
    opcodes.TestDelay,
}
"""Operations that have no hooks (contracts/hooks.md#operations)."""


def test_every_operation_that_has_hooks_is_written_down() -> None:
    assert set(units.REGISTRY) - {type(op) for op in OPERATIONS.values()} == WITHOUT | {opcodes.ClusterDestroy}


@pytest.mark.parametrize("path", [*OPERATIONS, "cluster-destroy"])
async def test_hooks_of_each_operation_receive_what_the_golden_file_says(path: str) -> None:
    lab = build_lab(NICS["one-address"])
    op = OPERATIONS.get(path) or opcodes.ClusterDestroy()
    if path == "cluster-destroy":
        lab = build.MemoryCluster(OWNER, cluster.NodeGroup(uuid="g", name="default"), *NODES)
    if path in ANYWHERE:
        lab.put(structs.replace(vm(NICS["one-address"]), disk_template="diskless", disks=()), FAR, DISTANT)
        lab.machine("node2.example").running[VM] = fill.fill(lab.state, lab.state.instance(VM))
    if path == "node-add":
        lab.nodes.machines["203.0.113.9"] = build.Machine(joined=False)
    if path == "mirrors-replace":
        mirror = instance.Mirror(minors={NODES[0].uuid: 0, NODES[1].uuid: 0}, port=11000, secret="s")
        disk = instance.Disk(uuid="d1", dev_type="drbd", size=64, mirror=mirror)
        lab.put(structs.replace(vm(NICS["one-address"]), disk_template="drbd", disks=(disk,)))
        for name in ("node1.example", "node2.example"):
            lab.machine(name).disks["d1"] = 64
    before = lab.state
    plan = await lab.plan(op)
    assert plan.hooks
    assert plan.hooks.path == path
    lab.change(plan.changes)
    for step in plan.steps:
        lab.change(step.changes)
    if plan.finish and not isinstance(op, opcodes.NodeAdd):
        lab.change(plan.finish(lab.state))
    compare(path, _describe(plan.hooks, op.op_id, before=before, after=lab.state))


def _describe(planned: base.Hooks, op_code: str, *, before: states.Snapshot, after: states.Snapshot) -> list[str]:
    """Return where the hooks run, their variables before the operation, and those that differ after it."""
    where = {"pre": planned.nodes_pre, "post": planned.nodes_post, "post, before they leave": planned.nodes_leaving}
    lines = [f"{phase}: {' '.join(node.name for node in nodes) or '-'}" for phase, nodes in where.items()]
    first = hook_environment.environment(before, planned, op_code=op_code, phase="pre")
    later = hook_environment.environment(after, planned, op_code=op_code, phase="post", after=planned.after(after))
    assert {name for name in later if name not in first} == {f"GANETI_POST_{name}" for name in planned.environment}
    moved = {name: value for name, value in later.items() if later[name.replace("_POST", "")] != value}
    old = {name: value for name, value in later.items() if first.get(name, value) != value}
    return [*lines, "", *text("pre", first), *text("post, what is different", old | moved)]
