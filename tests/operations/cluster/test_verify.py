"""What verify finds."""

import msgspec
import pytest
from tests.operations import build
from tests.operations.disk import test_disks

from gantry import errors
from gantry.model import cluster, instance, network, opcodes
from gantry.operations import fill
from gantry.rpc import calls
from gantry.state.journal import history

UP = instance.AdminState.UP
VERIFY = opcodes.ClusterVerify()


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=1))
    return lab


def runs(lab: build.MemoryCluster, name: str, node: str) -> None:
    whole = msgspec.structs.replace(fill.fill(lab.state, build.VM), name=name)
    lab.machine(node).running[name] = whole


async def complaints(lab: build.MemoryCluster, *, codes: bool = False) -> list[str]:
    """Return the complaints of a verification; its result says whether there were any."""
    lab.log.lines.clear()
    result = await lab.run(msgspec.structs.replace(VERIFY, error_codes=codes))
    lines = [line.strip() for line in lab.log.lines if "ERROR" in line]
    assert result is (not lines)
    return [line.removeprefix("- ") for line in lines]


async def test_a_healthy_cluster_has_no_complaints_and_every_section(lab: build.MemoryCluster) -> None:
    assert await complaints(lab) == []
    headings = [line for line in lab.log.lines if line.startswith("* ")]
    assert headings[:3] == ["* Verifying cluster config", "* Verifying node status", "* Verifying instance status"]


async def test_a_policy_of_replication_weaker_than_the_candidates_suggest_is_a_warning(
    lab: build.MemoryCluster,
) -> None:
    owner = msgspec.structs.replace(build.OWNER, candidate_pool_size=3)
    flagged = (msgspec.structs.replace(node, master_candidate=True) for node in build.NODES[:2])
    lost = msgspec.structs.replace(build.NODES[2], offline=True, lost_candidate=True)
    lab.put(owner, *flagged, lost)
    for policy, is_weaker in (("", False), ("seed", True), ("all", False)):
        lab.put(msgspec.structs.replace(owner, replication=policy))
        await complaints(lab)
        warnings = [line for line in lab.log.lines if "replication policy is" in line]
        assert [("policy is seed, weaker than the default" in line) for line in warnings] == [True] * is_weaker


async def test_damage_of_the_journal_is_an_error_with_its_place(lab: build.MemoryCluster) -> None:
    lab.environment.journal = history.Check(1, 1, "damaged: journal/1.log, byte offset 77")
    assert await complaints(lab, codes=True) == [
        "ERROR:ECLUSTERJOURNAL:cluster:: damaged: journal/1.log, byte offset 77"
    ]


async def test_each_node_is_asked_for_what_the_cluster_expects_of_it(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[2], vm_capable=False))
    await complaints(lab)
    (call,) = lab.nodes.calls_of(calls.NodeVerify, "node1")
    assert isinstance(call, calls.NodeVerify)
    assert [(nic.link, nic.vlan) for nic in call.nics] == [("br7", "12")]
    assert call.hypervisors == ("fake", "kvm")
    assert call.ssconf["master_node"] == calls.digest_of("node1\n")
    (call,) = lab.nodes.calls_of(calls.NodeVerify, "node3")
    assert isinstance(call, calls.NodeVerify)
    assert (call.nics, call.hypervisors) == ((), ())


async def test_a_node_is_asked_about_one_network_for_each_bridge(lab: build.MemoryCluster) -> None:
    net = msgspec.structs.replace(build.NET, segment=None)
    other = msgspec.structs.replace(net, uuid="net2", name="net2", subnets=())
    plug = cluster.Connection(mode="bridged", link="br7")
    group = msgspec.structs.replace(lab.state.group("default"), networks={net.uuid: plug, other.uuid: plug})
    lab.put(net, other, group)
    await complaints(lab)
    (call,) = lab.nodes.calls_of(calls.NodeVerify, "node1")
    assert isinstance(call, calls.NodeVerify)
    assert [(nic.link, nic.network and nic.network.name) for nic in call.nics] == [("br7", "net1")]


async def test_complaints_of_nodes_have_the_codes_of_the_contract(lab: build.MemoryCluster) -> None:
    lab.machine("node2").complaints = {"bridges": ["no bridge br7"], "time": ["600 s off"], "hypervisor": []}
    lab.machine("node3").down = True
    assert await complaints(lab, codes=True) == [
        "ERROR:ENODENET:node:node2: no bridge br7",
        "ERROR:ENODETIME:node:node2: 600 s off",
        "ERROR:ENODERPC:node:node3: the node does not answer: node node3 cannot be reached",
    ]
    assert (await complaints(lab))[0] == "ERROR: node node2: no bridge br7"


async def test_instances_in_the_wrong_state_or_place_are_found(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, admin_state=UP))
    lab.machine("node1").disks["d1"] = 64
    assert await complaints(lab) == ["ERROR: instance vm1: it should run on node1, but does not"]
    runs(lab, "vm1", "node2")
    assert await complaints(lab) == ["ERROR: instance vm1: it runs on node2, but its primary node is node1"]
    runs(lab, "vm1", "node1")
    assert await complaints(lab) == ["ERROR: instance vm1: it runs on node2, but its primary node is node1"]
    lab.machine("node2").running.clear()
    assert await complaints(lab) == []


async def test_devices_that_a_running_guest_lacks_or_still_has_are_found(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, admin_state=UP))
    lab.machine("node1").disks["d1"] = 64
    machine = fill.fill(lab.state, lab.state.instance("vm1"))
    lab.machine("node1").running["vm1"] = machine
    assert await complaints(lab) == []
    nic = msgspec.structs.replace(machine.nics[0], mac="aa:00:00:00:00:09")
    lab.machine("node1").running["vm1"] = msgspec.structs.replace(machine, nics=(nic,), disks=())
    end = "; gnt-instance reboot vm1 changes that"
    assert await complaints(lab) == []
    assert [line.partition("WARNING: ")[2] for line in lab.log.lines if "its running guest" in line] == [
        f"instance vm1: its running guest lacks NIC 0 (aa:00:00:00:00:01), disk 0 (d1){end}",
        f"instance vm1: its running guest still has a NIC or disk of the past (aa:00:00:00:00:09){end}",
    ]


async def test_an_instance_that_should_not_exist_is_found_wherever_it_runs(lab: build.MemoryCluster) -> None:
    runs(lab, "stray", "node2")
    runs(lab, "stray", "node3")
    assert await complaints(lab, codes=True) == [
        f"ERROR:ENODEORPHANINSTANCE:node:{name}: instance stray should not exist" for name in ("node2", "node3")
    ]


async def test_a_silent_node_is_not_said_to_have_lost_its_instances(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, admin_state=UP))
    lab.machine("node1").down = True
    assert await complaints(lab) == ["ERROR: node node1: the node does not answer: node node1 cannot be reached"]


@pytest.mark.promise("cluster-91")
async def test_offline_and_drained_nodes_are_noted_and_not_asked(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.NODES[1], offline=True))
    lab.put(msgspec.structs.replace(build.NODES[2], drained=True))
    lab.put(msgspec.structs.replace(build.VM, primary_node="n2"))
    assert await complaints(lab) == ["ERROR: instance vm1: its primary node node2 is offline"]
    notes = lab.log.lines[lab.log.lines.index("* Other Notes") :]
    assert "  - NOTICE: 1 offline node(s) found." in notes
    assert "  - NOTICE: 1 drained node(s) found." in notes
    assert not [call for name, call in lab.nodes.made if name == "node2"]


@pytest.mark.promise("cluster-85")
async def test_too_few_candidates_are_found(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=10))
    assert await complaints(lab, codes=True) == ["ERROR:ECLUSTERCFG:cluster:: 1 master candidates, 3 are required"]


async def test_of_an_addition_that_was_not_completed_only_that_is_found(lab: build.MemoryCluster) -> None:
    joining = msgspec.structs.replace(build.NODES[1], joining=True)
    candidate = msgspec.structs.replace(build.NODES[2], master_candidate=True)
    lab.put(msgspec.structs.replace(build.OWNER, candidate_pool_size=10), joining, candidate)
    (line,) = await complaints(lab, codes=True)
    assert line.startswith("ERROR:ENODEJOIN:node:node2: its addition was not completed")
    assert line.endswith("gnt-node add --readd node2 completes it")
    assert not [call for name, call in lab.nodes.made if name == "node2"]


async def test_ranges_outside_of_their_subnet_are_found(lab: build.MemoryCluster) -> None:
    broken = network.Subnet(uuid="s", cidr="10.0.0.0/24", external=("10.0.1.1",))
    lab.put(network.Network(uuid="b", name="broken", subnets=(broken,)))
    assert await complaints(lab) == ["ERROR: network broken: range 10.0.1.1 is outside subnet 10.0.0.0/24"]


async def test_disks_that_are_missing_or_not_whole_are_found(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.VM, admin_state=UP))
    runs(lab, "vm1", "node1")
    assert await complaints(lab, codes=True) == ["ERROR:EINSTANCEMISSINGDISK:instance:vm1: disk 0 on node1 is missing"]
    lab.machine("node1").down = True
    assert await complaints(lab) == ["ERROR: node node1: the node does not answer: node node1 cannot be reached"]


@pytest.fixture
async def mirrored(lab: build.MemoryCluster) -> build.MemoryCluster:
    """An instance with a mirrored disk runs on node2; node3 keeps the copy."""
    lab.put(msgspec.structs.replace(test_disks.OWNER, candidate_pool_size=1))
    vm = await test_disks.mirrored(lab, beparams={"memory": "512"})
    await lab.run(opcodes.InstanceStartup(instance_name=vm.name))
    return lab


async def test_a_disk_that_fails_is_an_error_and_one_whose_other_copy_lags_a_warning(
    mirrored: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = calls.DiskState(path="/dev/drbd0", size=64, active=True, degraded=True, sync_percent=12.5)

    def find(machine: build.Machine, disk: calls.Disk) -> calls.DiskState:
        return state

    monkeypatch.setattr(build.Machine, "find", find)
    warning = "  - WARNING: instance new: disk 1 on node2 is not complete on both nodes, "
    assert await complaints(mirrored) == []
    assert warning + "12 % are synchronized" in mirrored.log.lines
    state = msgspec.structs.replace(state, sync_percent=None, connection="Connecting")
    assert await complaints(mirrored) == []
    assert warning + "its connection is Connecting" in mirrored.log.lines
    state = msgspec.structs.replace(state, problem="its volume is gone")
    code = "ERROR:EINSTANCEFAULTYDISK:instance:new: disk"
    assert await complaints(mirrored, codes=True) == [
        f"{code} {index} on node2: its volume is gone" for index in (0, 1)
    ]


async def test_a_node_that_cannot_tell_of_disks_says_why(
    mirrored: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(machine: build.Machine, disk: calls.Disk) -> calls.DiskState:
        raise errors.EnvironmentFaultError("volume group xenvg is gone")

    monkeypatch.setattr(build.Machine, "find", find)
    assert await complaints(mirrored, codes=True) == [
        "ERROR:EINSTANCEFAULTYDISK:instance:new: node node2 cannot report its disks: volume group xenvg is gone"
    ]


async def test_volumes_of_instances_that_do_not_exist_are_reported(mirrored: build.MemoryCluster) -> None:
    def volume(name: str, *tags: str) -> calls.Volume:
        return calls.Volume(name=name, size=64, tags=tags)

    known = [part.logical_id for disk in mirrored.state.instance("new").disks for part in disk.children]
    for node in ("node2", "node3"):
        listed = [volume(name, "originstname+new") for _, name in known]
        mirrored.machine(node).volumes = {known[0][0]: [*listed, volume("root"), volume("other", "backup")]}
    assert await complaints(mirrored) == []
    mirrored.machine("node1").volumes = {known[0][0]: [volume(known[0][1], "originstname+new")]}
    mirrored.machine("node3").volumes[known[0][0]].append(volume("left.disk0", "originstname+old"))
    assert await complaints(mirrored, codes=True) == [
        f"ERROR:ENODEORPHANLV:node:{node}: volume xenvg/{name} is unknown; it was created for instance {who}"
        for node, name, who in (("node1", known[0][1], "new"), ("node3", "left.disk0", "old"))
    ]


@pytest.mark.parametrize(
    ("kind", "strange"),
    [("file", ["node1 left", "node2 d1", "node2 left"]), ("sharedfile", ["node1 left"])],
)
async def test_files_that_are_not_disks_are_warned_of_shared_ones_once(
    lab: build.MemoryCluster, kind: str, strange: list[str]
) -> None:
    disk = msgspec.structs.replace(build.DISK, dev_type=kind)
    lab.put(
        msgspec.structs.replace(build.OWNER, candidate_pool_size=1, enabled_disk_templates=(kind,)),
        msgspec.structs.replace(build.VM, disks=(disk,)),
    )
    for node in ("node1", "node2"):
        lab.machine(node).disks |= {"/file/vm1/d1": 64, "/file/vm1/left": 60}
    assert await complaints(lab) == []
    sizes = {"d1": 64, "left": 60}
    assert [line for line in lab.log.lines if "belongs to no disk" in line] == [
        f"  - WARNING: node {node}: file /file/vm1/{name} ({sizes[name]} MiB) belongs to no disk of the cluster; "
        "remove it, or adopt it"
        for node, name in (each.split() for each in strange)
    ]


async def test_memory_that_is_missing_if_another_node_fails_is_found(mirrored: build.MemoryCluster) -> None:
    keeper = mirrored.machine("node3")
    keeper.status = msgspec.structs.replace(keeper.status, memory_free=512)
    assert await complaints(mirrored) == []
    keeper.status = msgspec.structs.replace(keeper.status, memory_free=511)
    assert await complaints(mirrored, codes=True) == [
        "ERROR:ENODEN1:node:node3: 511 MiB of memory are free, 512 MiB are needed for instances that would come here "
        "if another node failed"
    ]
