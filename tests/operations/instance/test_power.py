"""Plans of the units for instances that exist."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import instance, opcodes
from gantry.rpc import calls

UP, DOWN, OFFLINE = instance.AdminState.UP, instance.AdminState.DOWN, instance.AdminState.OFFLINE
STARTUP = opcodes.InstanceStartup(instance_name="vm1")
SHUTDOWN = opcodes.InstanceShutdown(instance_name="vm1")
REBOOT = opcodes.InstanceReboot(instance_name="vm1")
REMOVE = opcodes.InstanceRemove(instance_name="vm1")
ALL = (STARTUP, SHUTDOWN, REBOOT, REMOVE, opcodes.InstanceConsole(instance_name="vm1"))


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def vm(lab: build.MemoryCluster) -> instance.Instance:
    return lab.state.instance("vm1")


def admin(lab: build.MemoryCluster, state: instance.AdminState) -> None:
    lab.put(msgspec.structs.replace(vm(lab), admin_state=state))


async def test_starting_and_stopping_say_what_is_wanted_and_do_it(lab: build.MemoryCluster) -> None:
    await lab.run(STARTUP)
    assert (vm(lab).admin_state, vm(lab).serial_no) == (UP, 2)
    assert set(lab.machine("node1").running) == {"vm1"}
    await lab.run(STARTUP)
    assert vm(lab).serial_no == 2
    await lab.run(SHUTDOWN)
    assert vm(lab).admin_state is DOWN
    assert lab.machine("node1").running == {}


async def test_what_is_not_to_be_remembered_leaves_the_wish(lab: build.MemoryCluster) -> None:
    await lab.run(msgspec.structs.replace(STARTUP, no_remember=True))
    assert vm(lab).admin_state is DOWN
    await lab.run(STARTUP)
    await lab.run(msgspec.structs.replace(SHUTDOWN, no_remember=True))
    assert vm(lab).admin_state is UP


async def test_parameters_of_a_start_hold_for_this_start(lab: build.MemoryCluster) -> None:
    overrides = {"hvparams": {"migration_mode": "non-live"}, "beparams": {"memory": "300"}, "startup_paused": True}
    await lab.run(msgspec.structs.replace(STARTUP, **overrides))
    (start,) = lab.nodes.calls_of(calls.InstanceStart)
    assert isinstance(start, calls.InstanceStart)
    assert start.instance.hvparams["migration_mode"] == "non-live"
    assert (start.instance.beparams["maxmem"], start.instance.beparams["minmem"], start.paused) == (300, 300, True)
    assert (vm(lab).hvparams, vm(lab).beparams) == ({}, {})


async def test_a_start_needs_memory_unless_it_runs_or_is_forced(lab: build.MemoryCluster) -> None:
    lab.machine("node1").status = msgspec.structs.replace(build.STATUS, memory_free=127)
    error = await lab.refused(STARTUP)
    assert isinstance(error, errors.NoRoomError)
    assert "node node1 has 127 MiB of memory free, instance vm1 needs 128" in str(error)
    await lab.run(msgspec.structs.replace(STARTUP, force=True))
    await lab.run(STARTUP)


@pytest.mark.parametrize("op", [STARTUP, SHUTDOWN, REBOOT])
async def test_an_instance_that_is_marked_offline_stays_so(lab: build.MemoryCluster, op: opcodes.Opcode) -> None:
    admin(lab, OFFLINE)
    assert "instance vm1 is marked offline" in str(await lab.refused(op))


@pytest.mark.parametrize("op", ALL)
async def test_the_node_must_be_online(lab: build.MemoryCluster, op: opcodes.Opcode) -> None:
    owner = msgspec.structs.replace(build.OWNER, master_node="n2")
    lab.put(owner, msgspec.structs.replace(build.NODES[0], offline=True))
    error = await lab.refused(op)
    assert isinstance(error, errors.EnvironmentFaultError)
    assert "node node1 of instance vm1 is offline" in str(error)


@pytest.mark.parametrize("op", ALL)
async def test_an_unknown_name_is_refused(lab: build.MemoryCluster, op: opcodes.Opcode) -> None:
    error = await lab.refused(msgspec.structs.replace(op, instance_name="vm9"))
    assert isinstance(error, errors.NotFoundError)
    assert "no such instance: vm9; gnt-instance list shows those there are" in str(error)


@pytest.mark.parametrize(("force", "timeout"), [(False, 45.0), (True, 0.0)])
async def test_a_forced_stop_does_not_wait(lab: build.MemoryCluster, force: bool, timeout: float) -> None:
    await lab.run(msgspec.structs.replace(SHUTDOWN, force=force, timeout=45))
    (stop,) = lab.nodes.calls_of(calls.InstanceShutdown)
    assert isinstance(stop, calls.InstanceShutdown)
    assert stop.timeout == timeout


@pytest.mark.parametrize(
    ("kind", "running", "expected_calls"),
    [
        ("soft", True, ["InstanceInfo", "InstanceReboot"]),
        ("hard", True, ["InstanceInfo", "InstanceShutdown", "InstanceStart"]),
        ("full", True, ["InstanceInfo", "InstanceShutdown", "InstanceStart"]),
        ("soft", False, ["InstanceInfo", "InstanceStart"]),
        ("full", False, ["InstanceInfo", "InstanceStart"]),
    ],
)
async def test_the_kinds_of_reboot(
    lab: build.MemoryCluster, kind: str, running: bool, expected_calls: list[str]
) -> None:
    await lab.run(STARTUP)
    if not running:
        lab.machine("node1").running.clear()
    lab.nodes.made.clear()
    await lab.run(msgspec.structs.replace(REBOOT, reboot_type=kind))
    assert [type(call).__name__ for _, call in lab.nodes.made] == expected_calls
    assert vm(lab).admin_state is UP


async def test_a_reboot_makes_the_machine_again_with_its_present_parameters(lab: build.MemoryCluster) -> None:
    await lab.run(STARTUP)
    await lab.run(opcodes.InstanceSetParams(instance_name="vm1", beparams={"vcpus": 3}))
    await lab.run(opcodes.InstanceReboot(instance_name="vm1", shutdown_timeout=7))
    assert [call.timeout for call in lab.nodes.calls_of(calls.InstanceShutdown)] == [7]
    assert [call.instance.beparams["vcpus"] for call in lab.nodes.calls_of(calls.InstanceStart)] == [1, 3]


@pytest.mark.parametrize(("kind", "lingers"), [("soft", True), ("hard", False), ("full", False)])
async def test_a_guest_that_is_made_again_releases_the_addresses_that_it_lost(
    lab: build.MemoryCluster, kind: str, *, lingers: bool
) -> None:
    await lab.run(STARTUP)
    lost = instance.Lingering(network="net", ip="192.0.2.11", nic="x1")
    lab.put(msgspec.structs.replace(vm(lab), lingering=(lost,)))
    await lab.run(msgspec.structs.replace(REBOOT, reboot_type=kind))
    assert vm(lab).lingering == ((lost,) if lingers else ())


async def test_a_removed_instance_leaves_nothing(lab: build.MemoryCluster) -> None:
    lab.machine("node1").disks["d1"] = 64
    await lab.run(STARTUP)
    await lab.run(REMOVE)
    assert ("instances", "vm1") not in lab.state.names
    assert (lab.machine("node1").disks, lab.machine("node1").running) == ({}, {})
    assert not lab.state.addresses.get(("net", "192.0.2.10"))


async def test_a_failed_removal_can_be_repeated_or_its_failures_ignored(lab: build.MemoryCluster) -> None:
    lab.machine("node1").down = True
    with pytest.raises(errors.RemoteError):
        await lab.run(REMOVE)
    assert vm(lab).name == "vm1"
    await lab.run(msgspec.structs.replace(REMOVE, ignore_failures=True))
    assert ("instances", "vm1") not in lab.state.names
    assert any("ignored" in line for line in lab.log.lines)


async def test_a_console_is_of_what_runs(lab: build.MemoryCluster) -> None:
    op = opcodes.InstanceConsole(instance_name="vm1")
    assert "instance vm1 is not running; gnt-instance start vm1" in str(await lab.refused(op))
    await lab.run(STARTUP)
    console = await lab.run(op)
    assert isinstance(console, dict)
    assert (console["instance"], console["kind"]) == ("vm1", "message")


KEYS = {
    *("name", "config_state", "run_state", "pnode", "pnode_group_uuid", "pnode_group_name", "snodes", "os", "nics"),
    *("snodes_group_uuids", "snodes_group_names", "disk_template", "disks", "hypervisor", "network_port", "uuid"),
    *(
        "hv_instance",
        "hv_actual",
        "be_instance",
        "be_actual",
        "os_instance",
        "os_actual",
        "serial_no",
        "mtime",
        "ctime",
    ),
}
DISK_KEYS = {
    *("iv_name", "dev_type", "logical_id", "drbd_info", "pstatus", "sstatus", "children", "mode", "size", "spindles"),
    *("name", "uuid"),
}


async def described(lab: build.MemoryCluster, **fields: object) -> dict[str, object]:
    descriptions = await lab.run(msgspec.structs.replace(opcodes.InstanceQueryData(), **fields))
    assert isinstance(descriptions, dict)
    description: dict[str, object] = descriptions["vm1"]
    return description


async def test_a_description_has_all_that_clients_know(lab: build.MemoryCluster) -> None:
    description = await described(lab)
    assert set(description) >= KEYS
    disks, nics = description["disks"], description["nics"]
    assert isinstance(disks, list)
    assert isinstance(nics, list)
    assert set(disks[0]) == DISK_KEYS
    assert nics[0][:8] == [None, "x1", ["192.0.2.10"], "aa:00:00:00:00:01", "bridged", "br0", "", "net"]
    assert (description["config_state"], description["run_state"], description["pnode"]) == ("down", "down", "node1")
    assert msgspec.json.encode(description)


async def test_a_description_says_up_only_of_what_runs_at_home_and_nothing_of_what_is_not_known(
    lab: build.MemoryCluster,
) -> None:
    await lab.run(STARTUP)
    assert (await described(lab))["run_state"] == "up"
    assert (await described(lab, static=True))["run_state"] is None
    lab.machine("node1").down = True
    assert (await described(lab))["run_state"] is None


async def test_a_description_of_an_unknown_instance_is_refused(lab: build.MemoryCluster) -> None:
    assert "vm9" in str(await lab.refused(opcodes.InstanceQueryData(instances=("vm1", "vm9"))))
