"""Changes of the cluster's settings: what instances use, which nodes are asked, and the pool of candidates."""

from typing import cast

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import base as entities
from gantry.model import cluster, lock, opcodes, parameters
from gantry.operations.node import candidate_pool
from gantry.rpc import calls
from gantry.state.objects import snapshot as states

PAPERS = {"authority.pem", "authority.key"}


def op(**fields: object) -> opcodes.ClusterSetParams:
    return cast("opcodes.ClusterSetParams", opcodes.decode({"OP_ID": "OP_CLUSTER_SET_PARAMS"} | fields))


def candidate(number: int, *, flag: bool = True, **fields: object) -> cluster.Node:
    node = build.NODES[2]
    return msgspec.structs.replace(
        node, uuid=f"n{number}", name=f"node{number}", primary_ip=f"203.0.113.{number}", master_candidate=flag, **fields
    )


SYSTEM = calls.OsScript(name="plain", path="/os/plain", api_versions=(20,), parameters=(("mirror", "Where from"),))


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.machine("node1").systems = (SYSTEM,)
    return lab


def roles(lab: build.MemoryCluster) -> str:
    nodes = sorted(lab.state.nodes.values(), key=lambda node: node.name)
    return "".join(node.role(lab.state.the_cluster).value for node in nodes)


def papers(lab: build.MemoryCluster) -> list[str]:
    return [node.name for node in lab.state.nodes.values() if set(lab.machine(node.name).files) >= PAPERS]


@pytest.mark.parametrize(
    ("system", "name", "message"),
    [
        ("plain+small", "miror", "unknown parameter of operating system plain+small: miror; did you mean mirror?"),
        ("plan", "mirror", "no node has operating system plan"),
    ],
)
async def test_parameters_of_an_operating_system_have_to_be_in_its_list(
    lab: build.MemoryCluster, system: str, name: str, message: str
) -> None:
    assert message in str(await lab.refused(op(osparams={system: {name: "x"}})))
    await lab.run(op(osparams={system: {name: "default"}}))


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({"enabled_hypervisors": ["kvm"]}, "hypervisor fake is in use by instance vm1"),
        ({"enabled_disk_templates": ["diskless"]}, "disk template file is in use by instance vm1"),
    ],
)
async def test_what_an_instance_uses_cannot_be_left_out(
    lab: build.MemoryCluster, requested: dict[str, object], message: str
) -> None:
    assert message in str(await lab.refused(op(**requested)))
    locks = lab.unit(op(**requested)).locks(lab.state)
    assert locks[lock.Level.INSTANCE, lock.ALL_NAMES] is lock.Mode.SHARED


async def test_the_users_of_a_hypervisor_are_not_all_listed(lab: build.MemoryCluster) -> None:
    more = [msgspec.structs.replace(build.VM, uuid=f"i{i}", name=f"vm{i}", nics=(), disks=()) for i in range(2, 9)]
    lab.put(*more)
    assert "instance vm1, vm2, vm3, vm4, vm5 and 3 more" in str(await lab.refused(op(enabled_hypervisors=["kvm"])))


class Doubtful(build.Machine):
    """A machine that does not accept the parameters of a validation."""

    def answer(self, call: calls.Call[object]) -> object:
        match call:
            case calls.HypervisorValidate():
                raise errors.InvalidError(f"kernel_path: there is no file {call.hvparams['kernel_path']}")
            case calls.NicValidate():
                raise errors.EnvironmentFaultError("NIC 0: there is no bridge", hint="make it")
        return super().answer(call)


def doubt(lab: build.MemoryCluster, name: str) -> None:
    target = lab.state.target(lab.state.node(name))
    lab.nodes.machines[target.address] = Doubtful()


async def test_nodes_check_the_values_that_an_instance_would_get(lab: build.MemoryCluster) -> None:
    await lab.run(op(hvparams={"kvm": {"kernel_path": "/boot/k"}}))
    validate_calls = [call for _, call in lab.nodes.made if isinstance(call, calls.HypervisorValidate)]
    assert [name for name, _ in lab.nodes.made] == ["node1", "node2", "node3"]
    expected = parameters.fill(parameters.KVM, {"kernel_path": "/boot/k"})
    assert {call.hypervisor for call in validate_calls} == {"kvm"}
    assert all(call.hvparams == expected for call in validate_calls)


async def test_a_value_that_a_node_refuses_changes_nothing_not_even_by_force(lab: build.MemoryCluster) -> None:
    doubt(lab, "node2")
    for force in (False, True):
        error = await lab.refused(op(hvparams={"kvm": {"kernel_path": "/boot/nowhere"}}, force=force))
        assert "hypervisor kvm: kernel_path: there is no file /boot/nowhere" in str(error)


async def test_a_bridge_has_to_be_there_unless_it_is_forced(lab: build.MemoryCluster) -> None:
    doubt(lab, "node3")
    assert "defaults of NICs: NIC 0: there is no bridge" in str(await lab.refused(op(nicparams={"link": "br9"})))
    await lab.run(op(nicparams={"link": "br9"}, force=True))
    assert lab.state.the_cluster.nicparams == {"default": {"link": "br9"}}
    assert any("WARNING defaults of NICs" in line for line in lab.log.lines)


async def test_a_silent_node_stops_a_change_that_it_has_to_check_unless_it_is_forced(lab: build.MemoryCluster) -> None:
    lab.machine("node2").down = True
    change: dict[str, object] = {"hvparams": {"kvm": {"acpi": False}}}
    assert "node2 cannot be reached; mark the node offline, or add -f" in str(await lab.refused(op(**change)))
    await lab.run(op(**change, force=True))
    assert lab.state.the_cluster.hvparams == {"kvm": {"acpi": False}}
    lab.put(msgspec.structs.replace(build.NODES[1], offline=True))
    await lab.run(op(hvparams={"kvm": {"acpi": "default"}}))
    assert lab.state.the_cluster.hvparams == {}


async def test_with_kvm_come_the_accelerators_of_the_nodes(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, enabled_hypervisors=("fake",), candidate_pool_size=2))
    lab.put(*(candidate(number) for number in (2, 3)), msgspec.structs.replace(candidate(4), offline=True))
    lab.machine("node2").status = msgspec.structs.replace(build.STATUS, accelerator="kvm", accelerator_reason="it ran")
    both: dict[str, object] = {"enabled_hypervisors": ["fake", "kvm"]}
    assert lab.unit(op(**both)).locks(lab.state)[lock.Level.NODE, lock.ALL_NAMES] is lock.Mode.SHARED
    await lab.run(op(**both, candidate_pool_size=1))
    accelerators = {node.name: node.accelerator for node in lab.state.nodes.values()}
    assert accelerators == {"node1": "tcg", "node2": "kvm", "node3": "tcg", "node4": ""}
    assert lab.state.node("node2").accelerator_reason == "it ran"
    assert roles(lab) == "MRRO"


@pytest.mark.parametrize("enabled", [["kvm"], ["fake"]])
async def test_accelerators_are_not_asked_for_when_kvm_was_there_or_goes(
    lab: build.MemoryCluster, enabled: list[str]
) -> None:
    lab.change([states.Delete("instances", build.VM.uuid)])
    await lab.run(op(enabled_hypervisors=enabled))
    assert lab.state.the_cluster.enabled_hypervisors == tuple(enabled)
    assert lab.nodes.calls_of(calls.NodeInfo) == []


async def test_a_silent_node_has_no_accelerator_when_kvm_is_forced(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, enabled_hypervisors=("fake",)))
    lab.machine("node3").down = True
    before = lab.state.node("node3")
    await lab.run(op(enabled_hypervisors=["fake", "kvm"], force=True))
    assert lab.state.node("node3") == before
    assert lab.state.node("node2").accelerator == "tcg"


@pytest.mark.parametrize(
    ("before", "change", "warning"),
    [
        ("", {"replication": "seed"}, "policy becomes seed: the master acknowledges changes alone"),
        ("all", {"replication": "majority"}, "policy becomes majority: a change is acknowledged without"),
        ("all", {"replication": "default"}, "keeps 3 master candidates, so its replication policy becomes majority"),
        ("", {"candidate_pool_size": 2}, "keeps 2 master candidates, so its replication policy becomes seed"),
        ("", {"replication": "all"}, ""),
        ("majority", {"candidate_pool_size": 2}, ""),
    ],
)
async def test_a_weaker_policy_of_replication_is_a_warning(
    lab: build.MemoryCluster, before: str, change: dict[str, object], warning: str
) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=3, replication=before), candidate(2), candidate(3))
    warnings = [step.text for step in (await lab.plan(op(**change))).steps if "WARNING" in step.text]
    assert [warning in text for text in warnings] == ([True] if warning else [])


async def test_a_change_that_concerns_no_node_asks_none(lab: build.MemoryCluster) -> None:
    lab.machine("node2").down = True
    await lab.run(op(mac_prefix="aa:00:05", beparams={"vcpus": 2}, network_thresholds=[1, 2]))
    assert lab.nodes.made == []


async def test_the_pool_is_10_by_default_and_grows_and_shrinks_at_once(lab: build.MemoryCluster) -> None:
    assert cluster.Cluster(uuid="c", name="c", master_node="n").candidate_pool_size == 10
    lab.put(candidate(4, flag=False), msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    await lab.run(op(candidate_pool_size=3))
    assert (roles(lab), sorted(papers(lab))) == ("MCCR", ["node2", "node3"])
    await lab.run(op(candidate_pool_size=2))
    assert (roles(lab), papers(lab)) == ("MCRR", ["node2"])
    await lab.run(op(candidate_pool_size="default"))
    assert (roles(lab), sorted(papers(lab))) == ("MCCC", ["node2", "node3", "node4"])


async def test_a_dry_run_says_who_comes_and_who_goes(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    grown = await lab.plan(op(candidate_pool_size=5))
    assert grown.lines == [
        "candidate_pool_size: 1 becomes 5",
        "the pool of master candidates lacks 2: no other node is eligible",
        "node2 becomes a master candidate",
        "node3 becomes a master candidate",
    ]
    await lab.run(op(candidate_pool_size=3))
    shrunk = await lab.plan(op(candidate_pool_size=2))
    assert shrunk.lines == ["candidate_pool_size: 3 becomes 2", "node3 is no longer a master candidate"]


async def test_candidates_that_are_behind_or_silent_go_first(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=4))
    lab.put(*(candidate(number) for number in (2, 3, 4)))
    up = calls.CandidateState(serial=lab.state.serial + 9, digest="d", epoch=1, job=0, master="node1")
    for name in ("node2", "node3", "node4"):
        lab.machine(name).copy = up
    lab.machine("node2").down = True
    lab.machine("node3").copy = msgspec.structs.replace(up, serial=0)
    await lab.run(op(candidate_pool_size=3))
    assert roles(lab) == "MCRC"
    await lab.run(op(candidate_pool_size=2))
    assert roles(lab) == "MRRC"
    assert any("node2 may still have the cluster's key" in line for line in lab.log.lines)


async def test_naming_the_size_again_brings_the_pool_to_it(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    await lab.run(op(candidate_pool_size=2))
    assert roles(lab) == "MCR"
    lab.put(candidate(3))
    await lab.run(op(candidate_pool_size=2))
    assert roles(lab) == "MCR"


async def test_other_changes_leave_the_candidates_alone(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=2))
    await lab.run(op(mac_prefix="aa:00:05"))
    assert roles(lab) == "MRR"


async def test_a_node_that_cannot_take_the_papers_is_passed_over(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    lab.machine("node2").down = True
    await lab.run(op(candidate_pool_size=2))
    assert roles(lab) == "MRC"


async def test_new_defaults_are_filled_into_what_nodes_are_sent(lab: build.MemoryCluster) -> None:
    await lab.run(op(hvparams={"fake": {"migration_mode": "non-live"}}, beparams={"memory": 256, "vcpus": 3}))
    await lab.run(opcodes.InstanceStartup(instance_name="vm1"))
    (started,) = lab.nodes.calls_of(calls.InstanceStart)
    whole = started.instance
    assert whole.hvparams == {"migration_mode": "non-live"}
    expected: entities.Parameters = {"maxmem": 256, "minmem": 256, "vcpus": 3}
    assert expected.items() <= whole.beparams.items()


@pytest.mark.parametrize(
    "change",
    [op(candidate_pool_size=1), opcodes.NodeSetParams(node_name="node2"), opcodes.NodeRemove(node_name="node2")],
)
def test_only_one_at_a_time_changes_the_pool(lab: build.MemoryCluster, change: opcodes.Opcode) -> None:
    assert lab.unit(change).locks(lab.state)[candidate_pool.POOL] is lock.Mode.EXCLUSIVE


async def test_verify_tells_of_candidates_beyond_the_size_of_the_pool(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1), candidate(2))
    up = calls.CandidateState(serial=lab.state.serial, digest="d", epoch=1, job=0, master="node1")
    lab.machine("node2").copy = up
    await lab.run(opcodes.ClusterVerify())
    assert "  - NOTICE: 1 master candidate(s) more than the candidate pool size." in lab.log.lines


async def test_hypervisor_parameters_of_an_operating_system_need_one_and_are_checked_by_nodes(
    lab: build.MemoryCluster,
) -> None:
    tuned = {"os_hvp": {"plain": {"kvm": {"kernel_path": "/boot/k"}}}}
    await lab.run(op(**tuned))
    assert lab.state.the_cluster.os_hvp == tuned["os_hvp"]
    validate_calls = [call for _, call in lab.nodes.made if isinstance(call, calls.HypervisorValidate)]
    assert {call.hvparams["kernel_path"] for call in validate_calls} == {"/boot/k"}
    missing: dict[str, object] = {"os_hvp": {"plan": {"kvm": {"acpi": False}}}}
    assert "no node has operating system plan" in str(await lab.refused(op(**missing)))
    await lab.run(op(os_hvp={"plain": {"kvm": {"kernel_path": "default"}}}))
    assert lab.state.the_cluster.os_hvp == {}
    wide: dict[str, object] = {"os_hvp": {"plain": {"kvm": {"migration_port": 9000}}}}
    assert "migration_port cannot be set for an operating system" in str(await lab.refused(op(**wide)))


async def test_defaults_of_memory_have_to_suit_what_instances_set(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, beparams={"minmem": 100}))
    message = "instance vm1: backend parameter minmem would be 100, which is above maxmem, 64"
    assert message in str(await lab.refused(op(beparams={"memory": 64})))
    await lab.run(op(beparams={"memory": 256}))
