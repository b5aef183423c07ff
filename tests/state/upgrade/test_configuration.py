"""What becomes of an old configuration, object by object, and what is refused."""

import msgspec
import pytest
from tests.state.upgrade import samples

from gantry import errors
from gantry.model import cluster, instance, network
from gantry.state.objects import snapshot
from gantry.state.upgrade import configuration

STORAGE = "/g/srv/file-storage"
PUBLIC = "99f0128a-1c84-44da-90b9-9581ea00c000"
WEB = "6c078d22-3eb6-4780-857d-81772e09ee00"
DISK = "77ced3a5-6756-49ae-8d1f-274e27664c00"
NODE, GROUP = "9a12d554-75c0-4cb1-8064-103365145d00", "5244a46d-7506-4e14-922d-02b58153dd00"


def upgraded(data: bytes) -> configuration.Upgraded:
    return configuration.upgrade(data, path="/g/lib/config.data", storage=STORAGE)


def state(data: bytes) -> snapshot.Snapshot:
    return snapshot.Snapshot().apply([snapshot.Put(value) for value in upgraded(data).objects], serial=1)


def notes(data: bytes) -> str:
    return "\n".join(upgraded(data).notes)


@pytest.fixture(scope="module")
def new() -> snapshot.Snapshot:
    return state(samples.V3)


@pytest.fixture(scope="module")
def old() -> snapshot.Snapshot:
    return state(samples.V2)


@pytest.mark.promise("networks-77")
def test_a_network_becomes_one_subnet_with_one_pool_over_the_whole_of_it(new: snapshot.Snapshot) -> None:
    (subnet,) = new.network("storage").subnets
    assert (subnet.cidr, subnet.gateway, subnet.dhcp) == ("10.9.0.0/28", "", False)
    assert subnet.pools == (network.Pool(range="10.9.0.0-10.9.0.15"),)
    assert subnet.external == ()
    public = new.network("public")
    assert (public.mac_prefix, public.tags, public.serial_no) == ("aa:00:55", ("zone:dmz",), 12)
    assert public.subnets[0].pools == (network.Pool(range="192.0.2.0-192.0.2.15"),)


def test_an_ipv6_network_becomes_a_second_subnet_without_a_pool(new: snapshot.Snapshot) -> None:
    second = new.network("public").subnets[1]
    assert (second.cidr, second.gateway, second.pools) == ("2001:db8:1::/64", "2001:db8:1::1", ())


def test_external_reservations_become_ranges_without_those_that_no_pool_hands_out(new: snapshot.Snapshot) -> None:
    external = new.network("public").subnets[0].external
    # .0, .1 (the gateway) and .15 were reserved as well; .6 was reserved without a NIC.
    assert external == ("192.0.2.2-192.0.2.3", "192.0.2.5-192.0.2.6", "192.0.2.9-192.0.2.11")


def test_reservations_that_differ_from_what_the_nics_use_are_reported() -> None:
    notices = notes(samples.V3)
    assert "network public: reserved, but no NIC has it, so now external: 192.0.2.6" in notices
    assert "network public: in use by a NIC, but not reserved, now it is: 192.0.2.7" in notices
    assert "network storage" not in notices


def test_a_nic_has_its_one_address_in_a_list_and_keeps_its_network(new: snapshot.Snapshot) -> None:
    first, second, third = new.instance("db.example.com").nics
    assert (first.ip, first.network, first.mac) == (("192.0.2.5",), new.network("public").uuid, "aa:00:55:b2:6e:0c")
    assert (second.ip, second.network) == (("10.9.0.14",), new.network("storage").uuid)
    assert (third.ip, third.network, third.nicparams) == ((), "", {"link": "br1"})
    # What a NIC with a network is plugged in with is the connection, where the file does not say.
    assert first.nicparams == {"mode": "bridged", "link": "br-public", "vlan": "100"}


def test_instances_keep_what_they_are(new: snapshot.Snapshot) -> None:
    web = new.instance("web.example.com")
    assert web.primary_node == new.node("node1.example.com").uuid
    assert (web.admin_state, web.os, web.hypervisor) == (instance.AdminState.UP, "debian", "kvm")
    assert (web.hvparams, web.beparams, web.osparams) == (
        {"boot_order": "cdrom", "usb_mouse": "tablet"},
        {"maxmem": 2048},
        {"suite": "trixie"},
    )
    assert (web.tags, web.serial_no, web.network_port) == (("env:prod",), 4, 11000)
    assert new.instance("probe.example.com").disk_template == "diskless"


def test_files_of_disks_are_expected_in_the_new_storage(new: snapshot.Snapshot) -> None:
    (disk,) = new.instance("db.example.com").disks
    assert disk.logical_id == ("file", f"{STORAGE}/db.example.com/disk0")
    assert (disk.size, disk.mode, disk.name) == (20480, "ro", "data")


def test_nodes_and_groups_keep_their_roles_and_connections(new: snapshot.Snapshot) -> None:
    third = new.node("node3.example.com")
    assert (third.offline, third.master_candidate, third.secondary_ip) == (True, False, "198.51.100.4")
    assert new.nodegroups[third.group].name == "spare"
    default = new.group("default")
    assert default.networks[new.network("storage").uuid] == cluster.Connection(mode="routed", link="200")
    assert new.group("spare").alloc_policy == "last_resort"


def test_the_cluster_stores_only_what_differs_from_the_defaults(new: snapshot.Snapshot) -> None:
    owner = new.the_cluster
    assert owner.master_node == new.node("node1.example.com").uuid
    assert owner.enabled_hypervisors == ("kvm", "xen-pvm", "fake")
    assert owner.hvparams == {"kvm": {"kernel_path": "/boot/vmlinuz-3-kvmU", "use_localtime": True}}
    assert owner.beparams == {"default": {"maxmem": 512, "minmem": 512}}
    assert (owner.candidate_pool_size, owner.tags, owner.mac_prefix) == (10, ("owner:ops",), "aa:bb:cc")


def test_settings_without_a_counterpart_are_reported() -> None:
    notices = notes(samples.V3)
    for name in ("lxc", "kvm_flag"):
        assert name in notices
    assert "kvm_path" not in notices


def test_disks_that_no_instance_has_are_reported() -> None:
    loose = {"dev_type": "file", "size": 8, "logical_id": ["loop", "/x/y/z"]}
    notices = notes(samples.put(samples.V3, ("disks", "loose"), loose))
    assert "left out, disks that no instance has: loose" in notices
    assert "disks that no instance has" not in notes(samples.V3)


def test_a_2_0_configuration_that_names_everything_by_name_is_read(old: snapshot.Snapshot) -> None:
    vm = old.instance("vm1.example.com")
    assert vm.primary_node == old.node("node1.example.com").uuid == old.the_cluster.master_node
    assert vm.beparams == {"maxmem": 1024, "minmem": 1024, "vcpus": 2}
    assert vm.nics[0].ip == ("203.0.113.7",)
    assert vm.nics[0].nicparams == {"mode": "bridged", "link": "xen-br1"}
    assert vm.disks[0].logical_id == ("file", f"{STORAGE}/vm1.example.com/disk0")
    assert (vm.admin_state, old.instance("vm2.example.com").admin_state) == ("up", "down")
    assert old.the_cluster.nicparams == {"default": {"link": "xen-br0"}}
    assert {node.group for node in old.nodes.values()} == {old.group("default").uuid}
    assert old.node("node2.example.com").drained


def _volume(name: str, *, kind: str, size: int = 1024) -> dict[str, object]:
    return {"dev_type": kind, "size": size, "logical_id": ["xenvg", name], "params": {}}


def _mirrored(*nodes: str, kind: str, volumes: str) -> dict[str, object]:
    children = [_volume("a.disk0_data", kind=volumes), _volume("a.disk0_meta", kind=volumes, size=128)]
    return {"dev_type": kind, "size": 1024, "logical_id": [*nodes, 11007, 3, 0, "s3cret"], "children": children}


def _inside_instances(version: int) -> bytes:
    """Return a configuration whose disks are in their instances, and whose nodes are named."""
    nodes = ("node2.example.com", "node1.example.com")
    data = samples.put(samples.V2, ("version",), version)
    for name, template, disk in (
        ("vm1.example.com", "drbd", _mirrored(*nodes, kind="drbd8", volumes="lvm")),
        ("vm2.example.com", "plain", _volume("b.disk0", kind="lvm")),
    ):
        data = samples.put(data, ("instances", name, "disk_template"), template)
        data = samples.put(data, ("instances", name, "disks"), [disk])
    return data


def _in_a_collection(version: int) -> bytes:
    """Return a configuration whose disks are a collection, and whose objects refer to each other by UUID."""
    tree = msgspec.json.decode(samples.V3)
    by_name = {vm["name"]: vm for vm in tree["instances"].values()}
    web, probe = by_name["web.example.com"], by_name["probe.example.com"]
    other = next(node for node in tree["nodes"] if node != web["primary_node"])
    disks = {
        **tree["disks"],
        DISK: {**_mirrored(other, web["primary_node"], kind="drbd", volumes="plain"), "uuid": DISK},
        "plain-1": {**_volume("b.disk0", kind="plain"), "uuid": "plain-1"},
    }
    data = samples.put(samples.put(samples.V3, ("disks",), disks), ("version",), version)
    return samples.put(data, ("instances", probe["uuid"], "disks"), ["plain-1"])


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (_inside_instances(2_070_000), ("vm1.example.com", "vm2.example.com")),
        (_inside_instances(2_090_000), ("vm1.example.com", "vm2.example.com")),
        (_in_a_collection(3_010_000), ("web.example.com", "probe.example.com")),
    ],
    ids=["2.7", "2.9", "3.1"],
)
def test_volumes_and_mirrored_disks_keep_their_volumes_minors_and_ports(data: bytes, names: tuple[str, str]) -> None:
    new = state(data)
    mirrored, single = new.instance(names[0]), new.instance(names[1])
    (disk,) = mirrored.disks
    assert (mirrored.disk_template, disk.dev_type, disk.size, disk.logical_id) == ("drbd", "drbd", 1024, ())
    assert disk.mirror
    assert (disk.mirror.port, disk.mirror.secret) == (11007, "s3cret")
    assert list(disk.mirror.minors.values()) == [0, 3]
    assert mirrored.nodes == (mirrored.primary_node, *mirrored.secondary_nodes) == tuple(disk.mirror.minors)
    parts = [(child.dev_type, child.size, child.logical_id) for child in disk.children]
    assert parts == [("plain", 1024, ("xenvg", "a.disk0_data")), ("plain", 128, ("xenvg", "a.disk0_meta"))]
    (volume,) = single.disks
    assert (single.disk_template, volume.dev_type, volume.logical_id) == ("plain", "plain", ("xenvg", "b.disk0"))
    assert new.the_cluster.vg_name == "xenvg"
    assert "drbd" in new.the_cluster.enabled_disk_templates
    assert upgraded(data) == upgraded(data)


@pytest.mark.parametrize("data", [samples.V2, samples.V3])
def test_an_upgrade_that_is_repeated_gives_the_same_objects(data: bytes) -> None:
    assert upgraded(data) == upgraded(data)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (
            ("instances", WEB, "hypervisor"),
            "lxc",
            "hypervisor lxc does not exist here: instance web.example.com",
        ),
        (("disks", DISK, "dev_type"), "rbd", "disks of template rbd cannot be upgraded: instance web.example.com"),
        (
            ("disks", DISK, "dev_type"),
            "plain",
            "a volume of disk 0 is not a group and a name but loop /srv/",
        ),
        (("disks", DISK, "dev_type"), "drbd", "mirrored disk 0 does not have its primary and another node"),
        (("disks", DISK, "logical_id"), ["loop", "/else/disk0"], "not at /srv/ganeti/file-storage/INSTANCE/DISK"),
        (("instances", WEB, "disks"), ["nowhere"], "there is no disk nowhere: instance web.example.com"),
        (("instances", WEB, "primary_node"), "nodeX", "there is no node nodeX: instance web.example.com"),
        (("instances", WEB, "forthcoming"), True, "only planned"),
        (("instances", WEB, "hvparams"), {"nic_type": "ne2k_isa"}, "'ne2k_isa' is not one of"),
        (("instances", WEB, "nics"), [{"mac": "aa:00:00:00:00:01", "ip": "1.2.3"}], "'1.2.3' is not an IP address"),
        (("instances", WEB, "nics"), [{"mac": "aa:00:00:00:00:01", "network": "n"}], "there is no network n"),
        (("cluster", "enabled_hypervisors"), ["lxc"], "no hypervisor that exists here is enabled"),
        (("cluster", "master_node"), "nodeX", "the master is not one of the nodes: nodeX"),
        (("nodes", NODE, "group"), "groupX", "there is no node group groupX: node node1.example.com"),
        (("nodegroups", GROUP, "networks"), {PUBLIC: {"mode": "openvswitch", "link": "x"}}, "mode openvswitch"),
        (
            ("nodegroups", GROUP, "networks"),
            {"netX": {"mode": "bridged", "link": "x"}},
            "there is no network netX: node group default",
        ),
        (("nodegroups", GROUP, "alloc_policy"), "never", "allocation policy never"),
        (("networks", PUBLIC, "network"), "192.0.2.1/28", "its network is|address inside a network: network public"),
        (("networks", PUBLIC, "gateway"), "192.0.3.1", "gateway 192.0.3.1 is outside its subnet 192.0.2.0/28"),
        (("networks", PUBLIC, "network6"), "10.0.0.0/8", "10.0.0.0/8 is not an IPv6 subnet"),
        (("networks", PUBLIC, "reservations"), "0101", "reservations has not one bit, 0 or 1, for each of the 16"),
        (("networks", PUBLIC, "ext_reservations"), "2" * 16, "ext_reservations has not one bit"),
        (("nodes",), 5, r"Expected `object`, got `int` - at `\$.nodes`"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(path: tuple[str, ...], value: object, why: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=why) as refused:
        upgraded(samples.put(samples.V3, path, value))
    assert "/g/lib/config.data has the format version 3000000 and cannot be upgraded" in str(refused.value)


def test_all_obstacles_are_reported_at_once() -> None:
    whole = msgspec.json.decode(samples.V3)["instances"][WEB]
    many = {f"vm{number}": {**whole, "name": f"vm{number}", "hypervisor": "lxc"} for number in range(7)}
    data = samples.put(samples.V3, ("instances",), many)
    data = samples.put(data, ("networks", PUBLIC, "gateway"), "192.0.3.1")
    with pytest.raises(errors.ConfigurationError) as refused:
        upgraded(data)
    notices = str(refused.value)
    assert "lxc does not exist here: instance vm0, instance vm1" in notices
    assert "instance vm4 and 2 more; gateway 192.0.3.1" in notices
    assert "nothing was changed" in notices


@pytest.mark.parametrize("version", [1_000_000, 4_000_000, 10_000_000])
def test_other_lineages_are_not_looked_at(version: int) -> None:
    assert configuration.version(samples.put(samples.V3, ("version",), version)) == 0
    assert configuration.version(b"[") == 0


def test_parameters_of_nodes_and_disks_and_the_policy_are_carried_over_at_every_level() -> None:
    policy = {
        "minmax": [{"min": {"memory-size": 128, "disk-size": 1024}, "max": {"memory-size": 32768}}],
        "std": {
            "cpu-count": 1,
            "disk-count": 1,
            "disk-size": 1024,
            "memory-size": 128,
            "nic-count": 1,
            "spindle-use": 1,
        },
        "disk-templates": ["file", "rbd"],
        "vcpu-ratio": 4.0,
        "spindle-ratio": 16,
    }
    data = samples.V3
    for path, value in (
        (("cluster", "ipolicy"), policy),
        (("cluster", "ndparams"), {"spindle_count": 1, "cpu_speed": 2.0, "ssh_port": 2222}),
        (("cluster", "diskparams"), {"drbd": {"protocol": "A", "data-stripes": 1}, "rbd": {"pool": "rbd"}}),
        (("cluster", "os_hvp"), {"plain": {"kvm": {"acpi": False}, "xen-pvm": {}}}),
        (("nodegroups", GROUP, "ndparams"), {"cpu_speed": 1.5}),
        (("nodegroups", GROUP, "ipolicy"), {"disk-templates": ["file"]}),
        (("nodes", NODE, "ndparams"), {"spindle_count": 1}),
    ):
        data = samples.put(data, path, value)
    new = state(data)
    owner, group = new.the_cluster, new.nodegroups[GROUP]
    bounds = cluster.Bounds(min={"memory-size": 128, "disk-size": 1024}, max={"memory-size": 32768})
    assert owner.ipolicy == cluster.Policy(minmax=(bounds,), disk_templates=("file",), spindle_ratio=16.0)
    assert (owner.ndparams, owner.diskparams) == ({"cpu_speed": 2.0, "ssh_port": 2222}, {"drbd": {"protocol": "A"}})
    assert owner.os_hvp == {"plain": {"kvm": {"acpi": False}}}
    assert (group.ndparams, group.ipolicy) == ({"cpu_speed": 1.5}, cluster.Policy(disk_templates=("file",)))
    assert new.nodes[NODE].ndparams == {"spindle_count": 1}
    assert "disk templates that do not exist here: rbd" in notes(data)
    wrong = samples.put(data, ("cluster", "ipolicy"), {"minmax": [{"max": {"colour": 1}}]})
    with pytest.raises(errors.ConfigurationError, match="policy of instances is not valid, unknown policy parameter"):
        upgraded(wrong)


def test_a_disk_that_is_mirrored_on_something_else_than_volumes_is_refused() -> None:
    disk = _mirrored("node2.example.com", "node1.example.com", kind="drbd", volumes="rbd")
    data = samples.put(_inside_instances(2_090_000), ("instances", "vm1.example.com", "disks"), [disk])
    with pytest.raises(errors.ConfigurationError, match="disk 0 is mirrored on rbd, not on logical volumes: inst"):
        upgraded(data)


def test_parameters_of_an_operating_system_that_are_no_values_are_left_out_and_reported() -> None:
    old_values = {"suite": "trixie", "size": 5, "swap": False, "zone": ["a"], "extra": {"a": 1}, "none": None}
    data = samples.put(samples.V3, ("cluster", "osparams"), {"debian": old_values, "plain": {"suite": "sid"}})
    assert state(data).the_cluster.osparams == {
        "debian": {"suite": "trixie", "size": 5, "swap": False},
        "plain": {"suite": "sid"},
    }
    assert "OS debian: left out, no values: extra, none, zone" in notes(data)
    assert "OS plain" not in notes(data)


@pytest.mark.parametrize("value", [None, ""])
def test_a_network_without_external_reservations_has_no_external_ranges(value: str | None) -> None:
    data = samples.put(samples.V3, ("networks", PUBLIC, "ext_reservations"), value)
    # The address that is reserved without a NIC; .0, .1 and .15 are never allocated.
    assert "192.0.2.6" in state(data).network("public").subnets[0].external[-1]
    data = samples.put(data, ("networks", PUBLIC, "reservations"), value)
    assert state(data).network("public").subnets[0].external == ()
