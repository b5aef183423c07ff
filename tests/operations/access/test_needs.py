"""What each opcode needs: every opcode has a row, and no change of an object gives its user more than that object."""

import dataclasses
from typing import cast, get_args

import msgspec
import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.daemons import units
from gantry.model import access, allowed, cluster, instance, network, opcodes, parameters
from gantry.operations.access import check, explain, needs, rights, scopes
from gantry.state.objects import access_rules
from gantry.state.objects import snapshot as states

Role, Scope, Right = access.Role, access.Scope, access.Right

OTHER_GROUP = cluster.NodeGroup(uuid="g2", name="other")
FAR = cluster.Node(uuid="n9", name="node9", primary_ip="203.0.113.9", group="g2")
SECRET_NET = network.Network(uuid="secret", name="secret", tags=("red",))
PORT = network.Port(uuid="p1", name="vip", network="secret", mac="aa:00:00:00:00:77")
OWN_PORT = network.Port(uuid="p2", name="own", network="net", mac="aa:00:00:00:00:78")
OTHER_VM = structs.replace(
    build.VM,
    uuid="i2",
    name="vm2",
    nics=(instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", network="secret"),),
    disks=(),
)
FAR_VM = structs.replace(OTHER_VM, uuid="i9", name="vm9", primary_node="n9", nics=())
BARE_VM = structs.replace(OTHER_VM, uuid="i3", name="vm3", nics=(instance.Nic(uuid="x3", mac="aa:00:00:00:00:03"),))
CHROOT_VM = structs.replace(OTHER_VM, uuid="i4", name="vm4", nics=(), hypervisor="chroot")
SUBJECT = access.Subject(user="bob", door="rapi")
TOKEN = opcodes.TokenAdd(user="bob", name="ci", id="0" * 10, secret_hash="0" * 64)


def state(*rules_of_bob: tuple[str, str, str]) -> states.Snapshot:
    """Return a state with rules of bob: role, scope, object."""
    rules = [
        access.Rule(uuid=f"r{index}", name="user:bob", role=Role(role), scope=Scope(scope), object=name)
        for index, (role, scope, name) in enumerate(rules_of_bob)
    ]
    red = access.Rule(uuid="red", name="user:carol", role=Role.ADMIN, scope=Scope.TAG, object="red")
    values: list[states.Stored] = [*build.FIRST, OTHER_GROUP, FAR, SECRET_NET, PORT, OWN_PORT]
    values += [OTHER_VM, FAR_VM, BARE_VM, CHROOT_VM, red, *rules]
    return states.Snapshot().apply(map(states.Put, values), serial=1)


def is_allowed(snapshot: states.Snapshot, op: opcodes.Opcode, subject: access.Subject = SUBJECT) -> bool:
    try:
        check.check(snapshot, subject, op)
    except errors.ForbiddenError:
        return False
    return True


def test_every_opcode_has_a_row_and_every_row_an_opcode() -> None:
    assert {*needs.NEEDS} == {*opcodes.ALL}


def test_exactly_the_opcodes_that_only_read_need_nothing() -> None:
    reading = {kind for kind, unit in units.REGISTRY.items() if unit.READS}
    assert {kind for kind, find in needs.NEEDS.items() if find is needs._nothing} == reading - {opcodes.InstanceConsole}


def test_the_parameters_that_are_free_exist_and_none_is_in_an_allow_list() -> None:
    known = {name for table in parameters.HYPERVISORS.values() for name in table}
    assert known >= rights.FREE_PARAMETERS
    assert rights.FREE_PARAMETERS.isdisjoint(allowed.OF_PARAMETER)


OPERATIONS = (
    opcodes.InstanceStartup(instance_name="vm1"),
    opcodes.InstanceShutdown(instance_name="vm1", timeout=5),
    opcodes.InstanceReboot(instance_name="vm1", reboot_type="soft"),
    opcodes.InstanceConsole(instance_name="vm1"),
)
CHANGES = (
    opcodes.InstanceStartup(instance_name="vm1", force=True),
    opcodes.InstanceStartup(instance_name="vm1", hvparams={"boot_order": "cdrom"}),
    opcodes.InstanceShutdown(instance_name="vm1", force=True),
    opcodes.InstanceReboot(instance_name="vm1", ignore_secondaries=True),
    opcodes.InstanceRemove(instance_name="vm1"),
    opcodes.InstanceRename(instance_name="vm1", new_name="vm7"),
    opcodes.InstanceReinstall(instance_name="vm1", os_type="other"),
    opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 2}),
    opcodes.InstanceSetParams(instance_name="vm1", hvparams={"vga": "std", "kernel_path": "default"}),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange("remove", 0),)),
    opcodes.InstanceSetParams(
        instance_name="vm1", disks=(opcodes.DiskChange("add", -1, opcodes.DiskMod(size=1024, name="d")),)
    ),
    opcodes.InstanceGrowDisk(instance_name="vm1", disk=0, amount="1g"),
    opcodes.InstanceMigrate(instance_name="vm1", target_node="node2"),
    opcodes.InstanceFailover(instance_name="vm1", target_node="node2"),
    opcodes.InstanceMove(instance_name="vm1", target_node="node2"),
    opcodes.InstanceReplaceDisks(instance_name="vm1", mode="replace_new_secondary", remote_node="node3"),
    opcodes.InstanceRecreateDisks(instance_name="vm1", nodes=("node2",)),
    opcodes.InstanceActivateDisks(instance_name="vm1"),
    opcodes.InstanceDeactivateDisks(instance_name="vm1"),
    opcodes.TagsSet(kind="instance", name="vm1", tags=("green",)),
)


@pytest.mark.parametrize("op", [*OPERATIONS, *CHANGES], ids=repr)
@pytest.mark.parametrize(("scope", "name"), [("cluster", ""), ("group", "g"), ("instance", "i1")])
def test_an_operator_operates_and_an_admin_changes(op: opcodes.Opcode, scope: str, name: str) -> None:
    assert is_allowed(state(("operator", scope, name)), op) is (op in OPERATIONS)
    assert is_allowed(state(("admin", scope, name)), op)


@pytest.mark.parametrize("op", [*OPERATIONS, *CHANGES], ids=repr)
@pytest.mark.parametrize(
    "rule",
    [
        ("admin", "instance", "i2"),
        ("admin", "group", "g2"),
        ("admin", "tag", "blue"),
        ("network-admin", "cluster", ""),
        ("operator", "network", "net"),
    ],
)
def test_a_rule_on_something_else_allows_nothing(op: opcodes.Opcode, rule: tuple[str, str, str]) -> None:
    assert not is_allowed(state(rule), op)


def modify(nic: opcodes.NicMod, name: str = "vm1") -> opcodes.InstanceSetParams:
    return opcodes.InstanceSetParams(instance_name=name, nics=(opcodes.NicChange("modify", 0, nic),))


def create(**fields: object) -> opcodes.InstanceCreate:
    return opcodes.InstanceCreate(instance_name="new", **{"pnode": "node1"} | fields)  # type: ignore[arg-type]


def of_disk(action: str, **fields: object) -> opcodes.InstanceSetParams:
    change = opcodes.DiskChange(action, 0, opcodes.DiskMod(**fields))  # type: ignore[arg-type]
    return opcodes.InstanceSetParams(instance_name="vm1", disks=(change,))


Add = opcodes.NicMod
ESCALATIONS = (
    # another network, or none, or a bridge
    modify(opcodes.NicMod(network="secret")),
    modify(opcodes.NicMod(network="none")),
    modify(opcodes.NicMod(network="")),
    modify(opcodes.NicMod(link="br-secret")),
    modify(opcodes.NicMod(vlan="12")),
    modify(opcodes.NicMod(bridge="br-secret")),
    modify(opcodes.NicMod(mode="bridged")),
    modify(opcodes.NicMod(ip="192.0.2.66"), "vm3"),
    modify(opcodes.NicMod(mac="aa:00:00:00:00:99"), "vm3"),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange("add", -1, opcodes.NicMod()),)),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange("add", opcodes.NicMod(network="secret")),)),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange(0, opcodes.NicMod(network="secret")),)),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange("add", -1, opcodes.NicMod(port="p1")),)),
    opcodes.InstanceSetParams(instance_name="vm1", nics=(opcodes.NicChange("add", -1, opcodes.NicMod(port="own")),)),
    # what is on nodes
    opcodes.InstanceSetParams(instance_name="vm1", hvparams={"cdrom_image_path": "/var/lib/libvirt/images/other"}),
    opcodes.InstanceSetParams(instance_name="vm1", hvparams={"kvm_extra": "-drive file=/etc/shadow"}),
    opcodes.InstanceSetParams(instance_name="vm1", hvparams={"security_domain": "root"}),
    opcodes.InstanceStartup(instance_name="vm1", hvparams={"kernel_path": "/boot/vmlinuz"}),
    opcodes.InstanceStartup(instance_name="vm1", beparams={"maxmem": 1 << 20}),
    of_disk("add", size=1, adopt="/dev/other/disk"),
    of_disk("add", size=1, path="/etc/shadow"),
    of_disk("add", size=1, vg="other"),
    of_disk("add", size=1, provider="rbd"),
    of_disk("modify", format="qcow2"),
    of_disk("attach", uuid="d9"),
    of_disk("detach"),
    opcodes.InstanceSetParams(instance_name="vm1", disk_template="sharedfile"),
    opcodes.InstanceRecreateDisks(
        instance_name="vm1", disks=(opcodes.DiskRecreation(0, opcodes.DiskMod(path="/etc/shadow")),)
    ),
    # checks that are switched off
    opcodes.InstanceSetParams(instance_name="vm1", force=True),
    opcodes.InstanceSetParams(instance_name="vm1", ignore_ipolicy=True),
    opcodes.InstanceSetParams(instance_name="vm1", conflicts_check=False),
    opcodes.InstanceGrowDisk(instance_name="vm1", disk=0, amount=1, ignore_ipolicy=True),
    opcodes.InstanceFailover(instance_name="vm1", target_node="node2", ignore_consistency=True),
    opcodes.InstanceMigrate(instance_name="vm1", iallocator="mine"),
    # other node groups
    opcodes.InstanceMigrate(instance_name="vm1", target_node="node9"),
    opcodes.InstanceMigrate(instance_name="vm1"),
    opcodes.InstanceFailover(instance_name="vm1", target_node="node9"),
    opcodes.InstanceMove(instance_name="vm1", target_node="node9"),
    opcodes.InstanceReplaceDisks(instance_name="vm1", mode="replace_new_secondary", remote_node="node9"),
    opcodes.InstanceRecreateDisks(instance_name="vm1", nodes=("node9",)),
    opcodes.InstanceChangeGroup(instance_name="vm1", target_groups=("other",)),
    opcodes.InstanceChangeGroup(instance_name="vm1"),
    opcodes.NodeEvacuate(node_name="node1", mode="all", remote_node="node9"),
    opcodes.NodeMigrate(node_name="node1", target_node="node9"),
    opcodes.NodeEvacuate(node_name="node9", mode="all"),
    opcodes.GroupEvacuate(group_name="default", target_groups=("other",)),
    opcodes.GroupEvacuate(group_name="default"),
    # tags with rules, by each way in which an object gets or loses tags
    opcodes.TagsSet(kind="instance", name="vm1", tags=("green", "red")),
    opcodes.TagsDel(kind="instance", name="vm1", tags=("red",)),
    opcodes.TagsSet(kind="cluster", tags=("green",)),
    opcodes.TagsSet(kind="nodegroup", name="default", tags=("green",)),
    opcodes.TagsSet(kind="node", name="node1", tags=("green",)),
    create(tags=("red",)),
    # new instances
    create(pnode="node9"),
    create(snode="node9"),
    create(pnode=None),
    create(group_name="other", pnode=None),
    create(hypervisor="chroot"),
    create(nics=(opcodes.NicSpec(),)),
    create(nics=(opcodes.NicSpec(network="secret"),)),
    create(nics=(opcodes.NicSpec(network="net1", link="br-secret"),)),
    create(nics=(opcodes.NicSpec(port="vip"),)),
    create(disks=(opcodes.DiskSpec(adopt="/dev/other/disk"),)),
    create(disks=(opcodes.DiskSpec(path="/etc/shadow"),)),
    create(mode="import", src_path="vm2"),
    create(src_node="node1"),
    create(iallocator="mine"),
    create(force=True),
    create(ignore_ipolicy=True),
    create(hvparams={"initrd_path": "/boot/other"}),
    # guests that can leave their hypervisor, and exports, which belong to a name
    opcodes.InstanceReinstall(instance_name="vm4"),
    opcodes.BackupExport(instance_name="vm1", target_node="node1"),
    opcodes.BackupRemove(instance_name="vm1"),
    # more rights
    opcodes.AccessAdd(who="user:bob", role="admin", on="cluster"),
    opcodes.AccessRemove(who="user:carol"),
    structs.replace(TOKEN, user="carol"),
    opcodes.TokenRevoke(user="carol"),
    # networks, nodes and the cluster
    opcodes.NetworkSetParams(network_name="net1", description="mine"),
    opcodes.NetworkAdd(network_name="mine"),
    opcodes.NetworkConnect(network_name="net1", group_name="default", network_mode="bridged", network_link="br0"),
    opcodes.PortAdd(ports=(opcodes.PortSpec(network="net1"),)),
    opcodes.GroupSetParams(group_name="default", ndparams={}),
    opcodes.GroupAssignNodes(group_name="default", nodes=("node9",)),
    opcodes.NodeSetParams(node_name="node1", offline=True),
    opcodes.NodeModifyStorage(node_name="node1", name="/dev/sda", changes={"allocatable": False}),  # type: ignore[arg-type]
    opcodes.ClusterSetParams(max_running_jobs=1),
    opcodes.TestDelay(duration=1),
)


@pytest.mark.parametrize("op", ESCALATIONS, ids=repr)
def test_the_admin_of_a_group_with_a_network_gets_no_more_than_these(op: opcodes.Opcode) -> None:
    rules = ("admin", "group", "g"), ("operator", "network", "net"), ("admin", "instance", "i1")
    assert not is_allowed(state(*rules), op)
    assert is_allowed(state(("admin", "cluster", "")), op)


@pytest.mark.parametrize(
    "op",
    [
        create(nics=(opcodes.NicSpec(network="net1", ip="pool"),), disks=(opcodes.DiskSpec(size=1024),)),
        create(pnode=None, group_name="default", tags=("green",)),
        modify(opcodes.NicMod(ip="192.0.2.12")),
        modify(opcodes.NicMod(network="net1", mac="aa:00:00:00:00:99")),
        opcodes.NodeMigrate(node_name="node2"),
        opcodes.GroupVerifyDisks(group_name="default"),
    ],
    ids=repr,
)
def test_the_admin_of_a_group_with_a_network_uses_both(op: opcodes.Opcode) -> None:
    assert is_allowed(state(("admin", "group", "g"), ("operator", "network", "net")), op)
    assert not is_allowed(state(("operator", "network", "net")), op)
    is_in_network = bool(getattr(op, "nics", ()))
    assert is_allowed(state(("admin", "group", "g")), op) is not is_in_network


def test_an_instance_can_leave_for_a_group_whose_admin_the_user_is() -> None:
    rules = ("admin", "instance", "i1"), ("admin", "group", "g2")
    assert is_allowed(state(*rules), opcodes.InstanceMove(instance_name="vm1", target_node="node9"))
    assert is_allowed(state(*rules), opcodes.InstanceChangeGroup(instance_name="vm1", target_groups=("other",)))


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        (opcodes.NetworkSetParams(network_name="net1", description="d"), "net"),
        (opcodes.NetworkSetParams(network_name="net1", add_reserved_ips=("192.0.2.60",)), "net"),
        (opcodes.NetworkSetParams(network_name="net1", tags=("green",)), "net"),
        (opcodes.NetworkRename(network_name="net1", new_name="lan"), "net"),
        (opcodes.NetworkRemove(network_name="net1"), "net"),
        (opcodes.TagsSet(kind="network", name="net1", tags=("green",)), "net"),
        (opcodes.PortAdd(ports=(opcodes.PortSpec(network="net1"),)), "net"),
        (opcodes.PortSetParams(port="own", mac="aa:00:00:00:00:79"), "net"),
        (opcodes.PortRemove(port="vip"), "secret"),
    ],
    ids=repr,
)
def test_a_network_admin_changes_the_network_and_its_operator_does_not(op: opcodes.Opcode, rule: str) -> None:
    assert is_allowed(state(("network-admin", "network", rule)), op)
    assert is_allowed(state(("network-admin", "cluster", "")), op)
    assert not is_allowed(state(("operator", "network", rule)), op)
    assert not is_allowed(state(("network-admin", "network", "spare")), op)


WIRING = (
    opcodes.NetworkAdd(network_name="mine"),
    opcodes.NetworkConnect(network_name="net1", group_name="default", network_mode="bridged", network_link="br0"),
    opcodes.NetworkDisconnect(network_name="net1", group_name="default"),
    opcodes.NetworkSetParams(network_name="net1", segment=10),
    opcodes.NetworkSetParams(network_name="net1", physical_network="wire", network_type="flat"),
    opcodes.NetworkSetParams(network_name="net1", shared=True),
    opcodes.NetworkSetParams(network_name="net1", force=True),
    opcodes.NetworkSetParams(network_name="net1", subnets=(opcodes.SubnetMod(action="add", default_subnetpool=4),)),
    opcodes.NetworkRemove(network_name="net1", force=True),
    opcodes.SubnetPoolRemove(subnet_pool="any"),
    opcodes.SegmentRangeRemove(range="any"),
)


@pytest.mark.parametrize("op", WIRING, ids=repr)
def test_the_wires_of_networks_belong_to_the_network_admins_of_the_cluster(op: opcodes.Opcode) -> None:
    assert not is_allowed(state(("network-admin", "network", "net"), ("admin", "group", "g")), op)
    assert is_allowed(state(("network-admin", "cluster", "")), op)


@pytest.mark.parametrize(
    "op",
    [
        opcodes.NetworkSetParams(network_name="net1", tags=("red",)),
        opcodes.NetworkSetParams(network_name="secret", tags=()),
        opcodes.NetworkAdd(network_name="mine", tags=("red",)),
        opcodes.TagsSet(kind="network", name="net1", tags=("red",)),
        opcodes.TagsDel(kind="network", name="secret", tags=("red",)),
        opcodes.ClusterSetParams(max_running_jobs=1),
        opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 2}),
    ],
    ids=repr,
)
def test_a_network_admin_of_the_cluster_changes_no_tag_with_rules_and_nothing_else(op: opcodes.Opcode) -> None:
    assert not is_allowed(state(("network-admin", "cluster", "")), op)


def test_a_holder_of_a_tag_cannot_put_it_on_another_object() -> None:
    rules = ("admin", "tag", "blue"), ("admin", "instance", "i1")
    assert not is_allowed(state(*rules), opcodes.TagsSet(kind="instance", name="vm1", tags=("blue",)))
    assert not is_allowed(state(*rules), opcodes.TagsSet(kind="instance", name="vm2", tags=("blue",)))
    assert not is_allowed(state(*rules), create(tags=("blue",)))


def test_a_tag_is_a_right_on_all_that_carry_it() -> None:
    snapshot = state(("admin", "tag", "blue"))
    blue: list[states.Stored] = [
        structs.replace(build.VM, tags=("blue",)),
        structs.replace(build.NET, tags=("blue",)),
    ]
    tagged = snapshot.apply(map(states.Put, blue), serial=2)
    for op in (
        opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 2}),
        modify(opcodes.NicMod(ip="192.0.2.12")),
        opcodes.NetworkSetParams(network_name="net1", description="d"),
    ):
        assert not is_allowed(snapshot, op)
        assert is_allowed(tagged, op)


def in_project(project: str, *, port: str = "p2") -> list[states.Stored]:
    """Return the network, the port and the instance of ``build`` in a project; the port is not of the instance."""
    nic = structs.replace(build.VM.nics[0], uuid="x7", mac="aa:00:00:00:00:55", ip=())
    of_port = structs.replace(nic, port=instance.PortDetails(project=project))
    return [
        structs.replace(OWN_PORT, uuid=port, project=project),
        structs.replace(build.NET, project=project),
        structs.replace(build.VM, nics=(*build.VM.nics, of_port)),
    ]


def test_a_project_is_a_right_on_its_networks_and_on_the_instances_with_its_ports() -> None:
    for rules, is_enough in ((("admin", "project", "shop"), True), (("admin", "project", "other"), False)):
        snapshot = state(rules)
        owned = snapshot.apply(map(states.Put, in_project("shop")), serial=2)
        for op in (
            opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 2}),
            modify(opcodes.NicMod(ip="192.0.2.12")),
            opcodes.NetworkSetParams(network_name="net1", description="d"),
        ):
            assert not is_allowed(snapshot, op)
            assert is_allowed(owned, op) is is_enough


def test_an_object_of_no_project_is_in_no_scope_of_a_project() -> None:
    vm, net = build.VM, build.NET
    keys = {*scopes.of_instance(state(), vm), *scopes.of_network(net)}
    assert not [key for key in keys if key.startswith("project")]


@pytest.mark.parametrize(
    ("rules", "is_enough"),
    [
        ([("admin", "instance", "i2"), ("network-admin", "network", "net")], False),
        ([("admin", "instance", "i2"), ("network-admin", "network", "net"), ("operator", "project", "shop")], False),
        ([("admin", "instance", "i2"), ("admin", "project", "shop")], True),
    ],
)
def test_only_an_admin_of_a_project_with_rules_gives_it_an_instance(
    rules: list[tuple[str, str, str]], is_enough: bool
) -> None:
    carols = access.Rule(uuid="c", name="user:carol", role=Role.ADMIN, scope=Scope.PROJECT, object="shop")
    snapshot = state(*rules).apply(map(states.Put, [*in_project("shop"), carols]), serial=2)
    op = opcodes.InstanceSetParams(
        instance_name="vm2", nics=(opcodes.NicChange("add", -1, opcodes.NicMod(port="own")),)
    )
    assert is_allowed(snapshot, op) is is_enough
    without_rules = state(("admin", "instance", "i2"), ("network-admin", "network", "net"))
    assert is_allowed(without_rules.apply(map(states.Put, in_project("shop")), serial=2), op)


SAMPLES: dict[type[opcodes.Opcode], opcodes.Opcode] = {
    type(op): op
    for op in (
        *OPERATIONS,
        *CHANGES,
        *WIRING,
        TOKEN,
        opcodes.TokenRevoke(user="bob"),
        opcodes.NodeEvacuate(node_name="node2", mode="all"),
        opcodes.NodeMigrate(node_name="node2"),
        opcodes.GroupEvacuate(group_name="other", target_groups=("default",)),
        opcodes.GroupVerifyDisks(group_name="default"),
        opcodes.InstanceChangeGroup(instance_name="vm1", target_groups=("default",)),
        opcodes.NetworkRename(network_name="net1", new_name="lan"),
        opcodes.NetworkSetParams(network_name="net1", description="d"),
        opcodes.NetworkRemove(network_name="net1"),
        opcodes.PortAdd(ports=(opcodes.PortSpec(network="net1"),)),
        opcodes.PortSetParams(port="own", mac="aa:00:00:00:00:79"),
        opcodes.PortRemove(port="own"),
        opcodes.TagsDel(kind="instance", name="vm1", tags=("green",)),
        opcodes.InstanceStartup(instance_name="vm1"),
        opcodes.InstanceReboot(instance_name="vm1"),
        opcodes.InstanceShutdown(instance_name="vm1"),
        create(),
    )
}
WHOLE = (needs._nothing, needs._cluster, needs._wire)
BY_OBJECT = [kind for kind, find in needs.NEEDS.items() if find not in WHOLE]


@pytest.mark.parametrize("kind", BY_OBJECT, ids=lambda kind: kind.__name__)
def test_a_field_that_an_opcode_gets_later_is_for_administrators_until_its_row_has_it(
    kind: type[opcodes.Opcode],
) -> None:
    op = SAMPLES[kind]
    rules = [("admin", "group", "g"), ("admin", "group", "g2"), ("network-admin", "network", "net")]
    snapshot = state(*rules)
    assert is_allowed(snapshot, op)
    newer = msgspec.defstruct(
        "Newer",
        [("new_field", bool, False)],
        bases=(kind,),
        frozen=True,
        kw_only=True,
        tag=str(kind.__struct_config__.tag),
    )
    values = {name: getattr(op, name) for name in kind.__struct_fields__}

    def find(new_field: bool) -> list[access.Need]:
        return list(needs.NEEDS[kind](snapshot, cast("opcodes.Opcode", newer(**values, new_field=new_field))))

    assert len(find(new_field=True)) == len(find(new_field=False)) + 1
    (added,) = [need for need in find(new_field=True) if "new_field" in need.what]
    assert added.keys == (access.CLUSTER_KEY,)
    assert added.right in (Right.ADMINISTER, Right.WIRE)


def test_an_unknown_name_is_reported_as_for_everybody() -> None:
    with pytest.raises(errors.NotFoundError, match="no such instance: vm77"):
        check.check(state(), SUBJECT, opcodes.InstanceStartup(instance_name="vm77"))


def test_a_later_opcode_may_name_what_an_earlier_one_creates() -> None:
    ops = [opcodes.InstanceStartup(instance_name="vm1"), opcodes.InstanceStartup(instance_name="vm77")]
    check.check_job(state(("operator", "instance", "i1")), SUBJECT, ops)
    with pytest.raises(errors.NotFoundError):
        check.check_job(state(("operator", "instance", "i1")), SUBJECT, ops[::-1])
    with pytest.raises(errors.ForbiddenError):
        check.check_job(
            state(("operator", "instance", "i1")), SUBJECT, [ops[0], opcodes.InstanceRemove(instance_name="vm1")]
        )


def test_the_error_names_who_what_and_the_rule_that_would_allow_it() -> None:
    with pytest.raises(errors.ForbiddenError) as caught:
        check.check(state(), access.Subject(user="bob; reboot"), opcodes.InstanceStartup(instance_name="vm1"))
    assert str(caught.value) == (
        "user bob; reboot may not operate instance vm1: no access rule gives the right to operate; an administrator "
        "can allow it: gnt-cluster access add 'user:bob; reboot' operator instance:vm1"
    )


def with_token(extent: str, *roles: tuple[str, str, str], is_admin: bool) -> tuple[states.Stored, access.Subject]:
    """Return a token of bob, and the subject of a request with it."""
    token = access.Token(
        uuid="t",
        name="bob:ci",
        id="0" * 10,
        secret_hash="",
        extent=access.Extent(extent),
        roles=tuple(access.RoleOn(role=Role(role), scope=Scope(scope), object=name) for role, scope, name in roles),
    )
    return token, structs.replace(SUBJECT, token=access.TokenUse("t", "ci", is_admin=is_admin))


@pytest.mark.parametrize(
    "op", [op for op in ESCALATIONS if not isinstance(op, opcodes.TokenAdd | opcodes.TokenRevoke)], ids=repr
)
def test_a_token_with_roles_allows_an_administrator_what_a_rule_would_allow(op: opcodes.Opcode) -> None:
    token, subject = with_token(
        "roles", ("admin", "group", "g"), ("operator", "network", "net"), ("admin", "instance", "i1"), is_admin=True
    )
    limited = state().apply([states.Put(token)], serial=2)
    assert not is_allowed(limited, op, subject)
    assert is_allowed(limited, opcodes.InstanceRename(instance_name="vm1", new_name="x"), subject)
    token, subject = with_token("everything", is_admin=True)
    assert is_allowed(state().apply([states.Put(token)], serial=2), op, subject)


@pytest.mark.parametrize("extent", ["everything", "roles"])
@pytest.mark.parametrize("op", [TOKEN, opcodes.TokenRevoke(user="bob")], ids=repr)
def test_a_user_has_the_right_to_own_tokens_and_no_token_has_it(op: opcodes.Opcode, extent: str) -> None:
    roles = [("admin", "cluster", "")] if extent == "roles" else []
    token, subject = with_token(extent, *roles, is_admin=True)
    snapshot = state(("admin", "cluster", "")).apply([states.Put(token)], serial=2)
    assert is_allowed(state(), op)
    assert not is_allowed(state(), op, access.Subject(user="bob"))
    assert not is_allowed(state(), op, access.Subject(user="", door="rapi"))
    assert not is_allowed(snapshot, op, subject)


def test_a_token_that_is_no_longer_in_the_state_allows_nothing() -> None:
    token, subject = with_token("everything", is_admin=True)
    op = opcodes.InstanceStartup(instance_name="vm1")
    assert is_allowed(state().apply([states.Put(token)], serial=2), op, subject)
    with pytest.raises(errors.ForbiddenError, match="API token ci was revoked"):
        check.check(state(), subject, op)


def test_administrators_and_the_cluster_itself_may_do_everything() -> None:
    for subject in (None, access.Subject(user="x", is_admin=True)):
        for op in ESCALATIONS:
            check.check(state(), subject, op)


OBJECTS = ("instance:vm1", "instance:vm2", "network:net1", "network:secret", "group:default", "cluster")
EVERY_PAIR = [
    (role.value, scope.value, name)
    for role in Role
    for scope, names in {
        Scope.CLUSTER: ("",),
        Scope.GROUP: ("g", "g2"),
        Scope.TAG: ("red",),
        Scope.INSTANCE: ("i1",),
        Scope.NETWORK: ("net",),
    }.items()
    for name in names
    if scope in access.SCOPES[role]
]


@pytest.mark.parametrize("rule", EVERY_PAIR)
def test_an_explanation_is_the_decision(rule: tuple[str, str, str]) -> None:
    snapshot = state(rule)
    samples = {
        ("instance:vm1", Right.OPERATE): opcodes.InstanceStartup(instance_name="vm1"),
        ("instance:vm1", Right.MANAGE): opcodes.InstanceRemove(instance_name="vm1"),
        ("instance:vm2", Right.OPERATE): opcodes.InstanceStartup(instance_name="vm2"),
        ("network:net1", Right.CONFIGURE): opcodes.NetworkRename(network_name="net1", new_name="x"),
        ("network:secret", Right.CONFIGURE): opcodes.PortRemove(port="vip"),
        ("network:secret", Right.CONNECT): None,
        ("group:default", Right.POPULATE): opcodes.GroupVerifyDisks(group_name="default"),
        ("cluster", Right.WIRE): opcodes.NetworkAdd(network_name="x"),
        ("cluster", Right.ADMINISTER): opcodes.TestDelay(duration=1),
    }
    for on in OBJECTS:
        for explained in explain.explain(snapshot, ["user:bob"], on):
            assert (explained.rule is not None) is explained.allowed
            op = samples.get((on, Right(explained.right)))
            if op is not None:
                assert explained.allowed is is_allowed(snapshot, op)
            if explained.rule:
                rule_of_row = snapshot.accessrules[explained.rule.uuid]
                assert Right(explained.right) in access.GRANTS[rule_of_row.role]


def test_a_decision_among_ten_thousand_rules_looks_at_those_of_the_object() -> None:
    many = [
        access.Rule(uuid=f"m{index}", name="user:bob", role=Role.ADMIN, scope=Scope.TAG, object=f"t{index}")
        for index in range(10_000)
    ]
    snapshot = state().apply(map(states.Put, many), serial=2)
    seen: list[access.Rule] = []
    find = access_rules.finder(snapshot)

    def counting(who: str, key: str) -> list[access.Rule]:
        seen.extend(rules := list(find(who, key)))
        return rules

    need = rights.on_instance(snapshot, snapshot.instance("vm1"), Right.OPERATE)
    assert not access.decide(counting, SUBJECT, need).is_allowed
    assert seen == []


def test_rules_end_with_their_object() -> None:
    snapshot = state(("operator", "network", "spare"), ("operator", "tag", "green"))
    changes: list[states.Change] = [states.Delete("networks", "spare")]
    after = snapshot.apply([*changes, *access_rules.ended(snapshot, changes)], serial=2)
    assert {rule.key for rule in after.accessrules.values()} == {"tag:red", "tag:green"}


def test_the_roles_of_tokens_end_with_their_object() -> None:
    token, _ = with_token("roles", ("operator", "network", "spare"), ("operator", "tag", "green"), is_admin=False)
    snapshot = state().apply([states.Put(token)], serial=2)
    changes: list[states.Change] = [states.Delete("networks", "spare")]
    after = snapshot.apply([*changes, *access_rules.ended(snapshot, changes)], serial=3)
    assert [each.key for each in after.apitokens["t"].roles] == ["tag:green"]
    assert after.apitokens["t"].serial_no == 2
    # A token that the same transaction revokes does not come back.
    changes.append(states.Delete("apitokens", "t"))
    assert not snapshot.apply([*changes, *access_rules.ended(snapshot, changes)], serial=3).apitokens


def test_the_roles_of_an_opcode_are_those_of_the_model() -> None:
    role = next(field for field in msgspec.structs.fields(opcodes.AccessAdd) if field.name == "role")
    roles = get_args(get_args(role.type)[0])
    assert {*roles} == {each.value for each in Role}


def test_a_need_names_a_rule_that_meets_it() -> None:
    snapshot = state()
    for need in (
        rights.on_instance(snapshot, snapshot.instance("vm1"), Right.OPERATE),
        rights.on_instance(snapshot, snapshot.instance("vm1"), Right.MANAGE),
        rights.on_network(snapshot.network("net1"), Right.CONNECT),
        rights.on_network(snapshot.network("net1"), Right.CONFIGURE),
        rights.on_group(snapshot.group("default")),
        rights.wire("x"),
        rights.administer("x"),
    ):
        role, _, on = need.example.partition(" ")
        assert need.right in access.GRANTS[Role(role)]
        assert Scope(on.partition(":")[0]) in access.SCOPES[Role(role)]
        assert dataclasses.is_dataclass(need)
