"""What counts as a stray guest, and what a rule makes of it."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import instance, lock, network, opcodes
from gantry.operations import fill, stray_guests
from gantry.operations.instance import reconcile
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states

UP = instance.AdminState.UP
STATE = states.Snapshot().apply([states.Put(value) for value in build.FIRST], serial=1)
STATE_UP = STATE.apply([states.Put(msgspec.structs.replace(build.VM, admin_state=UP))], serial=2)
WHOLE = fill.fill(STATE, build.VM)
NIC = msgspec.structs.replace(
    WHOLE.nics[0], uuid="x9", mac="aa:00:00:00:00:09", addresses=(calls.Address(ip="192.0.2.12"),)
)
UNKNOWN = msgspec.structs.replace(
    WHOLE,
    name="vm9",
    uuid="i9",
    nics=(NIC,),
    disks=(calls.Disk(index=0, uuid="d9", dev_type="file", size=64, logical_id=("file", "/file/vm9/d9")),),
)


def seen(machine: calls.Instance, state: str = "running") -> calls.RunningInstance:
    return calls.RunningInstance(
        name=machine.name, uuid=machine.uuid, hypervisor="fake", memory=1, vcpus=1, state=state
    )


def answer(number: int, *guests: calls.RunningInstance) -> targets.Answer[tuple[calls.RunningInstance, ...]]:
    return targets.Answer(STATE.target(build.NODES[number - 1]), value=guests)


def silent(number: int) -> targets.Answer[tuple[calls.RunningInstance, ...]]:
    return targets.Answer(STATE.target(build.NODES[number - 1]), error=errors.RemoteError("silent"))


def stray(
    machine: calls.Instance = UNKNOWN, *, node: int = 2, state: states.Snapshot = STATE_UP, home_answers: bool = True
) -> stray_guests.Stray:
    answers = [answer(node, seen(machine))]
    if node != 1:
        answers.append(answer(1) if home_answers else silent(1))
    (only,) = stray_guests.find(state, answers)
    return stray_guests.Stray(only.target, only.guest, only.kind, machine, only.at_home)


def decided(
    found_stray: stray_guests.Stray, rule: str = "adopt", *, state: states.Snapshot = STATE_UP
) -> tuple[str, str]:
    decision = stray_guests.decide(state, found_stray, rule)
    return decision.action.value, decision.reason


@pytest.mark.parametrize(
    ("state", "node", "kind"),
    [
        (STATE_UP, 1, None),
        (STATE_UP, 2, stray_guests.Kind.ELSEWHERE),
        (STATE, 1, stray_guests.Kind.UNWANTED),
        (STATE, 3, stray_guests.Kind.ELSEWHERE),
    ],
)
def test_a_guest_is_stray_unless_the_state_has_it_up_on_its_node(
    state: states.Snapshot, node: int, kind: stray_guests.Kind | None
) -> None:
    assert [each.kind for each in stray_guests.find(state, [answer(node, seen(WHOLE))])] == ([kind] if kind else [])


@pytest.mark.parametrize("state", ["migrating", "migrated", "incoming", "arrived"])
def test_a_guest_in_the_middle_of_a_migration_is_not_stray(state: str) -> None:
    assert stray_guests.find(STATE_UP, [answer(2, seen(WHOLE, state))]) == []


def test_an_instance_with_a_known_name_and_another_uuid_is_unknown() -> None:
    namesake = msgspec.structs.replace(UNKNOWN, name="vm1")
    found_stray = stray(namesake, node=1)
    assert found_stray.kind is stray_guests.Kind.UNKNOWN
    action, reason = decided(found_stray)
    assert action == "leave"
    assert "the name vm1 belongs to instance vm1 on node1, another instance" in reason


def test_the_rule_report_leaves_and_the_rule_stop_stops_every_stray_guest() -> None:
    for each in (stray(), stray(WHOLE), stray(WHOLE, home_answers=False), stray(WHOLE, node=1, state=STATE)):
        assert decided(each, "report")[0] == "leave"
        assert decided(each, "stop") == ("stop", "")


def test_the_copy_of_an_instance_that_also_runs_at_home_is_stopped_by_both_rules() -> None:
    (copy,) = stray_guests.find(STATE_UP, [answer(1, seen(WHOLE)), answer(2, seen(WHOLE))])
    assert copy.target.name == "node2"
    assert decided(copy, "stop")[0] == decided(copy, "adopt")[0] == "stop"
    assert "runs on node2 and on its primary node node1 at once" in stray_guests.description(STATE_UP, copy)


def test_a_guest_elsewhere_is_adopted_only_if_its_disks_are_there_and_it_surely_does_not_run_at_home() -> None:
    assert decided(stray(WHOLE)) == ("leave", "its disks are recorded on node1")
    bare = msgspec.structs.replace(build.VM, admin_state=UP, disks=(), disk_template="diskless")
    state = STATE_UP.apply([states.Put(bare)], serial=3)
    machine = fill.fill(state, bare)
    assert decided(stray(machine, state=state), state=state)[0] == "adopt"
    assert stray_guests.adopted(state, stray(machine, state=state), now=5.0).primary_node == "n2"
    action, reason = decided(stray(machine, state=state, home_answers=False), state=state)
    assert (action, reason) == ("leave", "its primary node node1 does not answer and may run it too")


def test_what_should_be_down_is_adopted_only_with_the_nics_of_the_state() -> None:
    assert decided(stray(WHOLE, node=1, state=STATE), state=STATE)[0] == "adopt"
    assert stray_guests.adopted(STATE, stray(WHOLE, node=1, state=STATE), now=5.0).admin_state is UP
    other = msgspec.structs.replace(WHOLE, nics=(msgspec.structs.replace(NIC, uuid="x1"),))
    assert decided(stray(other, node=1, state=STATE), state=STATE) == (
        "leave",
        "its NICs are not those that the state has",
    )


def _with_nic(**fields: object) -> calls.Instance:
    return msgspec.structs.replace(UNKNOWN, nics=(msgspec.structs.replace(NIC, **fields),))


def _with_disk(**fields: object) -> calls.Instance:
    return msgspec.structs.replace(UNKNOWN, disks=(msgspec.structs.replace(UNKNOWN.disks[0], **fields),))


PORT = network.Port(uuid="p1", name="port1", network="net", mac="aa:00:00:00:00:77", ip=("192.0.2.14",))


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (
            _with_nic(addresses=(calls.Address(ip="192.0.2.10"),)),
            "address 192.0.2.10 of network net1 has two owners: guest vm9 on node2 and instance vm1 on node1",
        ),
        (
            _with_nic(mac="aa:00:00:00:00:01"),
            "MAC address aa:00:00:00:00:01 has two owners: guest vm9 on node2 and instance vm1 on node1",
        ),
        (_with_nic(mac=PORT.mac), f"MAC address {PORT.mac} has two owners: guest vm9 on node2 and port port1"),
        (
            _with_nic(addresses=(calls.Address(ip="192.0.2.14"),)),
            "address 192.0.2.14 of network net1 has two owners: guest vm9 on node2 and port port1",
        ),
        (
            _with_nic(network=calls.Network(name="net7", uuid="u7")),
            "the state does not have its network net7 (u7)",
        ),
        (_with_disk(uuid="d1"), "its disk 0 belongs to instance vm1 on node1"),
        (
            _with_disk(mirror=calls.Mirror(minor=1)),
            "its disk 0 is mirrored, and its node does not know the minor on the other node",
        ),
    ],
)
def test_an_unknown_guest_is_adopted_only_without_a_conflict(machine: calls.Instance, reason: str) -> None:
    state = STATE_UP.apply([states.Put(PORT)], serial=3)
    assert decided(stray(machine, state=state), state=state) == ("leave", reason)
    assert decided(stray(), state=state) == ("adopt", "")


def test_the_disks_of_another_instance_on_the_same_node_are_not_adopted() -> None:
    machine = _with_disk(logical_id=build.DISK.logical_id)
    assert decided(stray(machine, node=1)) == ("leave", "its disk 0 belongs to instance vm1 on node1")
    assert decided(stray(machine, node=2))[0] == "adopt"


def test_a_network_that_both_masters_created_counts_as_the_same() -> None:
    machine = _with_nic(
        addresses=(calls.Address(ip="192.0.2.10"),), network=calls.Network(name="net1", uuid="made-elsewhere")
    )
    assert "address 192.0.2.10 of network net1 has two owners" in decided(stray(machine))[1]


def test_a_guest_without_a_record_of_its_devices_is_not_adopted() -> None:
    unknown = stray_guests.Stray(stray().target, seen(UNKNOWN), stray_guests.Kind.UNKNOWN)
    assert decided(unknown) == ("leave", "its node has no record of its devices")
    assert decided(unknown, "stop") == ("stop", "")


def test_two_stray_guests_with_one_address_name_each_other() -> None:
    first, second = stray(), stray(msgspec.structs.replace(UNKNOWN, name="vm8", uuid="i8"), node=3)
    lines = stray_guests.conflicts(STATE_UP, first, [first, second])
    assert lines == [
        f"MAC address {NIC.mac} has two owners: guest vm9 on node2 and guest vm8 on node3",
        "address 192.0.2.12 of network net1 has two owners: guest vm9 on node2 and guest vm8 on node3",
    ]


def test_what_is_adopted_is_filled_to_the_same_machine_again() -> None:
    machine = msgspec.structs.replace(
        UNKNOWN,
        beparams={**UNKNOWN.beparams, "maxmem": 777},
        hvparams={**UNKNOWN.hvparams, "gone": "x"},
    )
    vm = stray_guests.adopted(STATE_UP, stray(machine), now=5.0)
    assert (vm.beparams, vm.hvparams, vm.admin_state) == ({"maxmem": 777}, {}, UP)
    state = STATE_UP.apply([states.Put(vm)], serial=3)
    again = fill.fill(state, vm)
    assert (again.disks, again.beparams, again.os) == (machine.disks, machine.beparams, machine.os)
    (nic,) = again.nics
    assert (nic.mac, nic.mode, nic.link, nic.vlan, nic.network) == (NIC.mac, NIC.mode, NIC.link, NIC.vlan, NIC.network)


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def test_verify_names_a_namesake_and_both_owners_of_an_address(lab: build.MemoryCluster) -> None:
    machine = msgspec.structs.replace(_with_nic(addresses=(calls.Address(ip="192.0.2.10"),)), name="vm1")
    lab.machine("node2").running["vm1"] = machine
    await lab.run(opcodes.ClusterVerify(error_codes=True))
    text = "\n".join(lab.log.lines)
    assert "ERROR:ENODEORPHANINSTANCE:node:node2: instance vm1 should not exist: it is not the instance of that" in text
    owners = "address 192.0.2.10 of network net1 has two owners: guest vm1 on node2 and instance vm1 on node1"
    assert f"ERROR:EINSTANCECONFLICT:instance:vm1: {owners}" in text


async def test_a_guest_is_stopped_or_recorded_by_its_own_opcode(lab: build.MemoryCluster) -> None:
    lab.machine("node2").running["vm9"] = UNKNOWN
    op = opcodes.StrayGuestRepair(guest_name="vm9", guest_uuid="i9", node_name="node2", rule="adopt")
    assert await lab.run(op) == "adopted"
    assert lab.state.instance("vm9").primary_node == "n2"
    assert await lab.run(op) == "none"
    lab.put(msgspec.structs.replace(lab.state.instance("vm9"), primary_node="n3"))
    stop = msgspec.structs.replace(op, rule="stop")
    assert "its disks stay: file /file/vm9/d9" in str((await lab.plan(stop)).lines)
    assert await lab.run(stop) == "stopped"
    assert lab.machine("node2").running == {}


async def test_an_adoption_with_a_conflict_changes_nothing(lab: build.MemoryCluster) -> None:
    lab.machine("node2").running["vm9"] = _with_nic(mac="aa:00:00:00:00:01")
    before = lab.state
    op = opcodes.StrayGuestRepair(guest_name="vm9", guest_uuid="i9", node_name="node2", rule="adopt")
    with pytest.raises(errors.WrongStateError, match=r"guest vm9 on node2 and instance vm1 on node1.*--rule stop"):
        await lab.run(op)
    assert lab.state is before
    assert "vm9" in lab.machine("node2").running


async def test_the_node_that_does_not_answer_fails_the_opcode(lab: build.MemoryCluster) -> None:
    lab.machine("node2").down = True
    op = opcodes.StrayGuestRepair(guest_name="vm9", guest_uuid="i9", node_name="node2", rule="stop")
    with pytest.raises(errors.RemoteError):
        await lab.run(op)


def test_the_job_of_a_guest_waits_for_every_job_that_works_on_the_instance_or_creates_it(
    lab: build.MemoryCluster,
) -> None:
    op = opcodes.StrayGuestRepair(guest_name="vm9", guest_uuid="i9", node_name="node2", rule="stop")
    locks = reconcile.StrayGuestRepair(op, lab.environment).locks(lab.state)
    assert locks == {
        (lock.Level.INSTANCE, "vm9"): lock.Mode.EXCLUSIVE,
        (lock.Level.INSTANCE, "i9"): lock.Mode.EXCLUSIVE,
        (lock.Level.NODE, "n2"): lock.Mode.SHARED,
    }
