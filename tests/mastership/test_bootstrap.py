"""The description of a new cluster, and the first objects."""

import msgspec
import pytest
from tests import floats

from gantry import errors
from gantry.mastership import bootstrap
from gantry.model import cluster
from gantry.runtime import simulated
from gantry.sim import cluster as simulation

PLAIN: dict[str, object] = {"cluster_name": "lab.example", "node_name": "node1", "primary_ip": "203.0.113.1"}


def decode(**fields: object) -> bootstrap.Description:
    return bootstrap.decode(msgspec.json.encode(PLAIN | fields))


def test_settings_are_said_in_the_words_of_a_later_change() -> None:
    owner = first_cluster(segment_ranges="yes", prealloc_wipe_disks="no", candidate_pool_size="3")
    assert (owner.segment_ranges, owner.prealloc_wipe_disks, owner.candidate_pool_size) == (True, False, 3)


def test_no_number_of_a_description_can_be_infinite() -> None:
    assert floats.unbounded(bootstrap.Description) == []


def test_a_description_needs_names_and_an_address() -> None:
    assert decode().port == 1811
    assert (first_cluster().enabled_hypervisors, first_cluster().candidate_pool_size) == (("kvm",), 10)
    for name in PLAIN:
        with pytest.raises(errors.InvalidError, match=name):
            bootstrap.decode(msgspec.json.encode({key: value for key, value in PLAIN.items() if key != name}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"colour": "red"}, "colour"),
        ({"OP_ID": "OP_NODE_ADD"}, "OP_NODE_ADD"),
        ({"default_hypervisor": "fake"}, "hypervisor fake is not enabled"),
        ({"hvparams": {"kvm": {"acel": "tcg"}}}, "did you mean accel?"),
        ({"cluster_name": ""}, "cluster_name"),
        ({"cluster_name": "a b"}, "cluster_name"),
        ({"node_name": "node1\n"}, "node_name"),
        ({"node_name": "localhost"}, "localhost is what every machine is called"),
        ({"primary_ip": "node1"}, "'node1' is not an IP address"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"mac_prefix": "aa:00"}, "MAC prefix aa:00 is not valid"),
        ({"mac_prefix": "01:00:00"}, "multicast"),
        ({"enabled_hypervisors": ["lxc"]}, "unknown hypervisor lxc; known names: chroot, fake, kvm, xen-"),
        ({"enabled_hypervisors": []}, "the list of hypervisors is empty"),
        ({"enabled_disk_templates": ["tape"]}, "unknown disk template tape"),
        ({"enabled_disk_templates": []}, "the list of disk templates is empty"),
        ({"candidate_pool_size": 0}, "candidate_pool_size: 0 is below the minimum 1"),
    ],
)
def test_descriptions_that_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(errors.InvalidError) as refused:
        decode(**fields)
    assert message in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"\xff"', b"[" * 100_000])
def test_what_is_no_description_is_refused(data: bytes) -> None:
    with pytest.raises(errors.InvalidError, match="description of the cluster is not valid"):
        bootstrap.decode(data)


def first_cluster(**fields: object) -> cluster.Cluster:
    with simulated.World(seed=1) as world:
        objects = [put.value for put in bootstrap.objects(decode(**fields), world.machine("m").random, 5.0)]
    owner = next(value for value in objects if isinstance(value, cluster.Cluster))
    node = next(value for value in objects if isinstance(value, cluster.Node))
    group = next(value for value in objects if isinstance(value, cluster.NodeGroup))
    assert (node.group, owner.master_node, node.role(owner)) == (group.uuid, node.uuid, cluster.Role.MASTER)
    assert (group.name, node.primary_ip, node.master_candidate, owner.ctime) == ("default", "203.0.113.1", True, 5.0)
    return owner


def test_only_what_differs_from_the_defaults_is_kept() -> None:
    plain = first_cluster()
    assert (plain.hvparams, plain.beparams, plain.nicparams) == ({}, {}, {})
    changed = first_cluster(
        hvparams={"kvm": {"acpi": "no", "kernel_args": "1"}},
        beparams={"memory": "256", "vcpus": "default"},
        nicparams={"link": "100", "mode": "routed"},
        mac_prefix="AA:00:0F",
        default_disk_size="1g",
        default_hypervisor="fake",
        enabled_hypervisors=["kvm", "fake"],
    )
    assert (changed.default_disk_size, changed.enabled_hypervisors) == (1024, ("fake", "kvm"))
    assert changed.hvparams == {"kvm": {"acpi": False, "kernel_args": "1"}}
    assert changed.beparams == {"default": {"minmem": 256, "maxmem": 256}}
    assert changed.nicparams == {"default": {"link": "100", "mode": "routed"}}
    assert changed.mac_prefix == "aa:00:0f"


@pytest.mark.parametrize(
    "fields",
    [
        {"hvparams": {"xen": {}}},
        {"hvparams": {"kvm": {"colour": 1}}},
        {"beparams": {"x": 1}},
        {"nicparams": {"mode": "x"}},
    ],
)
def test_parameters_are_checked_before_anything_is_made(fields: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidError):
        first_cluster(**fields)


@pytest.mark.parametrize(("enabled", "known"), [("kvm", "qemu-system-x86_64 is not installed"), ("fake", None)])
def test_the_accelerator_of_the_first_node_is_known_where_the_cluster_has_kvm(enabled: str, known: str | None) -> None:
    with simulation.SimulatedCluster(seed=1, nodes=1) as lab:
        lab.run(lab.build(enabled_hypervisors=[enabled]))
        assert lab.run(lab.luxi("QueryNodes", [], ["accelerator_reason"], False)) == [[known]]


def test_a_second_cluster_is_refused_and_a_failure_can_be_repeated() -> None:
    with simulation.SimulatedCluster(seed=1, nodes=1) as lab:
        machine = lab.master
        description = decode(enabled_hypervisors=["fake"])

        async def init() -> None:
            await machine.spawn(bootstrap.init(machine, simulation.FOLDERS, description, secure=False))

        with pytest.raises(errors.EnvironmentFaultError, match="no node daemon on this machine is ready"):
            lab.run(init())
        lab.run(lab.start_node("node1"))
        lab.run(machine.disk.make_directory(simulation.FOLDERS.queue))
        lock = machine.disk.lock(f"{simulation.FOLDERS.queue}/lock")
        with pytest.raises(errors.WrongStateError, match="the state is in use"):
            lab.run(init())
        lock.release()
        lab.run(lab.world.clock.sleep(10))
        lab.run(init())
        with pytest.raises(errors.ExistsError, match="this machine already has a cluster"):
            lab.run(init())
        lab.run(lab.start_master())
        assert lab.run(lab.luxi("QueryNodes", [], ["name", "role"], False)) == [["node1", "M"]]
