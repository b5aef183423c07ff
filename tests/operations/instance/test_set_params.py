"""The change of instances: forms, addresses, what is reported, and which steps a running one takes."""

from collections.abc import Mapping
from typing import cast

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import cluster, instance, network, opcodes
from gantry.operations import fill
from gantry.operations.network import nics
from gantry.rpc import calls

OTHER = network.Network(
    uuid="other",
    name="net2",
    subnets=(network.Subnet(uuid="o4", cidr="198.51.100.0/24", pools=(network.Pool(range="198.51.100.7"),)),),
)
PLUG = cluster.Connection(mode="routed", link="main")
GROUP = msgspec.structs.replace(build.GROUP, networks={**build.GROUP.networks, "other": PLUG})
FIRST = instance.Nic(
    uuid="x1",
    mac="aa:00:00:00:00:01",
    name="front",
    ip=("192.0.2.10", "2001:db8::10"),
    network="net",
    nicparams={"mode": "bridged", "link": "br7"},
)
SECOND = instance.Nic(uuid="x2", mac="aa:00:00:00:00:02", ip=("203.0.113.200",))
VM = msgspec.structs.replace(build.VM, nics=(FIRST, SECOND))


def op(*nics: list[object], **fields: object) -> opcodes.InstanceSetParams:
    opcode = opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": list(nics), **fields})
    assert isinstance(opcode, opcodes.InstanceSetParams)
    return opcode


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(OTHER, GROUP, VM)
    return lab


def start(lab: build.MemoryCluster, vm: instance.Instance = VM) -> build.Machine:
    """Let the instance run with the NICs it has."""
    machine, whole = lab.machine("node1"), fill.fill(lab.state, vm)
    machine.running, machine.plugged = {"vm1": whole}, {nic.uuid: nic for nic in whole.nics}
    return machine


def ips(lab: build.MemoryCluster) -> list[tuple[str, ...]]:
    return [nic.ip for nic in lab.state.instance("vm1").nics]


async def changed(lab: build.MemoryCluster, *nics: list[object], **fields: object) -> Mapping[str, object]:
    """Carry a change out and return what it reports."""
    return dict(cast("list[tuple[str, object]]", await lab.run(op(*nics, **fields))))


@pytest.mark.parametrize(
    "change, expected",
    [
        ("192.0.2.15", ("192.0.2.15", "2001:db8::10")),
        ({"1": "192.0.2.15"}, ("192.0.2.10", "192.0.2.15")),
        ({"0": "2001:db8::10", "1": "192.0.2.10"}, ("2001:db8::10", "192.0.2.10")),
        ({"2": "pool"}, ("192.0.2.10", "2001:db8::10", "192.0.2.11")),
        ({"3": "pool6", "2": "pool4"}, ("192.0.2.10", "2001:db8::10", "192.0.2.11", "2001:db8::11")),
        ({"1": "lan"}, ("192.0.2.10", "192.0.2.11")),
        ({"0": "none"}, ("2001:db8::10",)),
        ({"0": "none", "2": "lan"}, ("2001:db8::10", "192.0.2.11")),
        ("none", ("2001:db8::10",)),
        (["pool", "192.0.2.10"], ("192.0.2.11", "192.0.2.10")),
        (["2001:DB8:0::10"], ("2001:db8::10",)),
        ([], ()),
        (["none"], ()),
    ],
)
async def test_addresses_are_changed_by_place_or_all_at_once(
    lab: build.MemoryCluster, change: object, expected: tuple[str, ...]
) -> None:
    assert await changed(lab, ["modify", 0, {"ip": change}]) == {"nic.ip/0": list(expected)}
    assert ips(lab) == [expected, SECOND.ip]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"3": "pool"}, "NIC 0 has 2 addresses, there is no ip3; addresses are numbered from 0"),
        ({"2": "none"}, "NIC 0 has 2 addresses, there is no ip2"),
        ({"x": "pool"}, "NIC 0: 'x' is not an address number"),
        ({"-1": "pool"}, "NIC 0: '-1' is not an address number"),
        ({"1": "192.0.2.10"}, "address 192.0.2.10 in network net1 is in use by instance vm1"),
        (["192.0.2.15", "192.0.2.15"], "address 192.0.2.15 of network net1 is requested twice"),
        ("192.0.2.50", "address 192.0.2.50 of network net1 is reserved externally"),
        ("192.0.2.1", "192.0.2.1 is the gateway"),
        ("10.0.0.1", "10.0.0.1 is outside every subnet of network net1"),
        ("nopool", "network net1 has no pool nopool"),
    ],
)
async def test_addresses_that_cannot_be_given_change_nothing(
    lab: build.MemoryCluster, change: object, message: str
) -> None:
    assert message in str(await lab.refused(op(["modify", 0, {"ip": change}])))


async def test_a_nic_does_not_grow_beyond_what_one_request_may_ask_for(lab: build.MemoryCluster) -> None:
    many = {str(index): "pool6" for index in range(2, 65)}
    assert "NIC 0 would have 65 addresses, the maximum is 64" in str(await lab.refused(op(["modify", 0, {"ip": many}])))
    with pytest.raises(errors.InvalidError, match=r"nics.*at most 64 values"):
        op(["modify", 0, {"ip": ["pool6"] * 65}])


async def test_an_external_address_needs_force_once(lab: build.MemoryCluster) -> None:
    await changed(lab, ["modify", 0, {"ip": "192.0.2.50"}], force=True)
    await changed(lab, ["modify", 0, {"ip": ["192.0.2.11", "192.0.2.50"]}])
    assert ips(lab)[0] == ("192.0.2.11", "192.0.2.50")


async def test_changes_are_done_in_order_and_an_address_moves_from_one_nic_to_another(lab: build.MemoryCluster) -> None:
    report = await changed(
        lab,
        ["remove", "front", {}],
        ["add", {"ip": ["192.0.2.10", "pool"], "network": "net1", "mac": "AA:00:00:00:00:01"}],
        ["modify", "x2", {"name": "rear"}],
        ["add", 0, {"mode": "routed", "link": "9"}],
    )
    assert ips(lab) == [(), SECOND.ip, ("192.0.2.10", "192.0.2.11")]
    vm = lab.state.instance("vm1")
    assert vm.nics[2].mac == FIRST.mac
    assert vm.nics[0].nicparams == {"mode": "routed", "link": "9"}
    assert list(report) == ["nic/0", "nic/1", "nic.name/0"]
    assert report["nic.name/0"] == "rear"


async def test_the_last_nic_is_meant_where_none_is_named(lab: build.MemoryCluster) -> None:
    await changed(lab, ["remove", {}])
    assert ips(lab) == [FIRST.ip]
    await changed(lab, [-1, {"name": "only"}], ["modify", -1, {"ip": []}])
    assert lab.state.instance("vm1").nics[0].name == "only"
    assert ips(lab) == [()]
    await changed(lab, ["remove", -1, {}])
    assert "the instance has no NIC; the instance has 0, numbered from 0" in str(await lab.refused(op(["remove", {}])))


async def test_another_network_means_other_addresses_and_another_plug(lab: build.MemoryCluster) -> None:
    report = await changed(lab, ["modify", 0, {"network": "net2", "ip": {"0": "pool", "1": "198.51.100.9"}}])
    nic = lab.state.instance("vm1").nics[0]
    assert (nic.ip, nic.network) == (("198.51.100.7", "198.51.100.9"), "other")
    assert nic.nicparams == {"mode": "routed", "link": "main"}
    assert report["nic.network/0"] == "net2"
    assert ("net", "192.0.2.10") not in lab.state.addresses
    await changed(lab, ["modify", 0, {"network": "none", "ip": "none"}])
    nic = lab.state.instance("vm1").nics[0]
    assert (nic.ip, nic.network, nic.nicparams) == ((), "", {})
    await changed(lab, ["modify", 1, {"network": "net1"}])
    assert ips(lab) == [(), ()]


async def test_the_same_network_keeps_addresses_and_plug(lab: build.MemoryCluster) -> None:
    assert await changed(lab, ["modify", 0, {"network": "net1", "name": "back"}]) == {"nic.name/0": "back"}
    assert ips(lab)[0] == FIRST.ip
    assert lab.state.instance("vm1").nics[0].nicparams == FIRST.nicparams


@pytest.mark.parametrize(
    "change, message",
    [
        (["modify", 0, {"network": "net2", "ip": "192.0.2.10"}], "outside every subnet of network net2"),
        (["modify", 0, {"network": "spare"}], "network spare is not connected to node group default"),
        (["modify", 0, {"mode": "routed"}], "NIC 0: mode cannot be set with network net1"),
        (["modify", 1, {"ip": "pool"}], "NIC 1: ip=pool needs a network"),
        (["modify", 1, {"ip": "192.0.2.99"}], "address 192.0.2.99 belongs to network net1"),
        (["modify", 1, {"mac": "aa:00:00:00:00:01"}], "MAC address aa:00:00:00:00:01 is in use by instance vm1"),
        (["modify", 1, {"mac": "01:00:00:00:00:01"}], "01:00:00:00:00:01 is multicast, so no NIC can have it"),
        (["modify", 1, {"mode": "nonsense"}], "'nonsense' is not one of"),
        (["modify", 1, {"name": "7"}], "NIC 1: 7 is a number, not a name"),
        (["add", {"name": "-1"}], "NIC 2: -1 is a number, not a name"),
        (["modify", 2, {"name": "x"}], "the instance has no NIC 2; the instance has 2, numbered from 0"),
        (["modify", "nobody", {}], "the instance has no NICs named nobody"),
        (["remove", 0, {"ip": "pool"}], "remove takes no parameters"),
        (["add", 3, {}], "a NIC cannot be added at index '3'; valid indexes are 0 to 2"),
        (["add", "front", {}], "a NIC cannot be added at index 'front'"),
        (["attach", 0, {}], "'attach' is not a NIC action"),
    ],
)
async def test_changes_of_nics_that_are_refused(lab: build.MemoryCluster, change: list[object], message: str) -> None:
    assert message in str(await lab.refused(op(change)))


async def test_two_nics_of_one_name_are_distinguished_by_number(lab: build.MemoryCluster) -> None:
    await changed(lab, ["modify", 1, {"name": "front"}])
    assert "the instance has 2 NICs named front" in str(await lab.refused(op(["remove", "front", {}])))


async def test_a_ninth_nic_is_refused(lab: build.MemoryCluster) -> None:
    adds: list[list[object]] = [["add", {"mode": "routed"}] for _ in range(7)]
    assert "instance vm1 would have 9 NICs, the maximum is 8" in str(await lab.refused(op(*adds)))


async def test_parameters_are_set_and_default_takes_them_back(lab: build.MemoryCluster) -> None:
    report = await changed(
        lab, beparams={"memory": 256, "vcpus": "2"}, hvparams={"migration_mode": "non-live"}, osparams={"dns": "hi"}
    )
    assert report == {
        "be/minmem": 256, "be/maxmem": 256, "be/vcpus": 2, "hv/migration_mode": "non-live", "os/dns": "hi",
    }  # fmt: skip
    vm = lab.state.instance("vm1")
    assert (vm.beparams["vcpus"], vm.hvparams, vm.osparams) == (2, {"migration_mode": "non-live"}, {"dns": "hi"})
    await changed(
        lab, beparams={"vcpus": "default"}, hvparams={"migration_mode": "default"}, osparams={"dns": "default"}
    )
    vm = lab.state.instance("vm1")
    assert (vm.beparams, vm.hvparams, vm.osparams) == ({"minmem": 256, "maxmem": 256}, {}, {})
    assert len(lab.nodes.calls_of(calls.HypervisorValidate)) == 2


async def test_nothing_to_change_is_refused_and_no_difference_is_no_change(lab: build.MemoryCluster) -> None:
    assert "no change of instance vm1 was requested" in str(await lab.refused(op()))
    before = lab.state.instance("vm1")
    assert await changed(lab, ["modify", 0, {"ip": ["192.0.2.10", "2001:db8::10"]}]) == {}
    assert lab.state.instance("vm1") is before


async def test_a_running_instance_unplugs_updates_and_plugs_nics(lab: build.MemoryCluster) -> None:
    machine = start(lab)
    await changed(
        lab,
        ["modify", 0, {"ip": {"1": "192.0.2.15"}}],
        ["remove", 1, {}],
        ["add", {"ip": "pool", "network": "net2"}],
    )
    nic_calls = [type(call).__name__ for _, call in lab.nodes.made if type(call).__name__.startswith("Nic")]
    assert nic_calls == ["NicValidate", "NicUnplug", "NicUpdate", "NicPlug"]
    whole = fill.fill(lab.state, lab.state.instance("vm1"))
    assert list(machine.plugged.values()) == list(whole.nics)


async def test_addresses_that_go_stay_reserved_until_the_guest_has_let_go_of_them(lab: build.MemoryCluster) -> None:
    start(lab)
    change = op(["modify", 0, {"ip": {"1": "192.0.2.15"}}], ["remove", 1, {}])
    plan = await lab.plan(change)
    between = lab.state.apply(plan.changes, serial=99).instance("vm1")
    assert [address.ip for address in between.lingering] == ["2001:db8::10"]
    await lab.run(change)
    assert not lab.state.instance("vm1").lingering


async def test_an_address_that_the_guest_still_uses_goes_back_to_its_nic_and_to_no_other(
    lab: build.MemoryCluster,
) -> None:
    start(lab)
    await changed(lab, ["modify", 0, {"ip": {"0": "192.0.2.15"}}], hotplug=False)
    assert [address.ip for address in lab.state.instance("vm1").lingering] == ["192.0.2.10"]
    taking = op(["modify", 1, {"ip": "192.0.2.10", "network": "net1"}])
    assert "whose guest still uses it" in str(await lab.refused(taking))
    await changed(lab, ["modify", 0, {"ip": {"0": "192.0.2.10"}}])
    assert ips(lab)[0] == ("192.0.2.10", "2001:db8::10")
    assert not lab.state.instance("vm1").lingering


async def test_another_mac_address_unplugs_and_plugs(lab: build.MemoryCluster) -> None:
    machine = start(lab)
    plan = await lab.plan(op(["modify", 0, {"mac": "aa:00:00:00:00:77"}]))
    assert [step.text for step in plan.steps] == [
        "unplug NIC 0 (aa:00:00:00:00:01) of vm1",
        "plug NIC 0 (aa:00:00:00:00:77) into vm1",
    ]
    await changed(lab, ["modify", 0, {"mac": "aa:00:00:00:00:77"}])
    assert machine.plugged["x1"].mac == "aa:00:00:00:00:77"


async def test_a_nic_that_only_moves_up_is_left_alone(lab: build.MemoryCluster) -> None:
    start(lab)
    plan = await lab.plan(op(["remove", 0, {}]))
    assert [step.text for step in plan.steps] == ["unplug NIC 0 (aa:00:00:00:00:01) of vm1"]


async def test_what_a_running_guest_does_not_see_is_said(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(lab)
    changes: list[list[object]] = [["add", {"mode": "routed"}], ["modify", 0, {"ip": "192.0.2.15"}]]
    plan = await lab.plan(op(*changes, hotplug=False, beparams={"vcpus": 2}))
    assert [step.text for step in plan.steps] == [
        "instance vm1 is running: its new parameters take effect at its next start",
        "instance vm1 is running: its NIC changes take effect at its next start",
        "the guest of vm1 still uses 192.0.2.10: kept for it until the instance stops",
    ]
    original = build._seen
    monkeypatch.setattr(build, "_seen", lambda vm: msgspec.structs.replace(original(vm), hotplug=False))
    plan = await lab.plan(op(*changes))
    assert [step.text for step in plan.steps] == [
        "reconnect NIC 0 (aa:00:00:00:00:01) of vm1",
        "instance vm1 is running without NIC hotplug: its NIC changes take effect at its next start",
    ]


async def test_an_instance_on_a_node_that_is_offline_is_changed_all_the_same(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(lab.state.nodes["n1"], offline=True))
    await changed(lab, ["modify", 0, {"ip": "pool"}])
    assert ips(lab)[0] == ("192.0.2.11", "2001:db8::10")
    assert not lab.nodes.made


async def test_a_bridge_that_is_missing_is_found_before_anything_changes(lab: build.MemoryCluster) -> None:
    await changed(lab, ["add", {"network": "net2"}], ["modify", 0, {"ip": "pool"}])
    (validate_call,) = lab.nodes.calls_of(calls.NicValidate)
    assert [(nic.index, nic.mode, nic.link) for nic in validate_call.nics] == [(2, "routed", "main")]


def test_networks_old_and_new_are_locked_against_change(lab: build.MemoryCluster) -> None:
    unit = lab.unit(op(["add", {"network": "net2"}]))
    names = {(level.name, name): mode.value for (level, name), mode in unit.locks(lab.state).items()}
    assert names == {
        ("INSTANCE", "i1"): "exclusive",
        ("NODE", "n1"): "shared",
        ("NETWORK", "net"): "shared",
        ("NETWORK", "other"): "shared",
    }


@pytest.mark.parametrize(
    "form, expected",
    [
        (["add", {}], ("add", "")),
        (["add", -1, {}], ("add", "")),
        (["add", "0", {}], ("add", "0")),
        ([2, {}], ("modify", "2")),
        (["2", {}], ("modify", "2")),
        (["modify", "-1", {}], ("modify", "")),
        (["remove", {}], ("remove", "")),
        (["remove", "eth0", {}], ("remove", "eth0")),
    ],
)
def test_every_form_of_the_contract_is_understood(form: list[object], expected: tuple[str, str]) -> None:
    (change,) = op(form).nics
    edits = nics.edit(change)
    assert (edits.action, edits.ident) == expected


async def test_a_running_guest_gets_other_memory_between_its_bounds(lab: build.MemoryCluster) -> None:
    machine = start(lab)
    done = await changed(lab, beparams={"minmem": 64}, runtime_mem="96m")
    assert done == {"be/minmem": 64, "runtime_memory": 96}
    assert machine.memory == {"vm1": 96}
    for outside in (60, 132, "1t"):
        assert "runtime memory of instance vm1 must be 64 to 128 MiB" in str(await lab.refused(op(runtime_mem=outside)))
    assert "memory 'much' is not valid" in str(await lab.refused(op(runtime_mem="much")))
    machine.status = msgspec.structs.replace(build.STATUS, memory_free=10)
    error = await lab.refused(op(runtime_mem=2000, beparams={"maxmem": 2000}))
    assert isinstance(error, errors.NoRoomError)
    assert "instance vm1 needs 1872 MiB more memory, node node1 has 10 MiB free" in str(error)
    machine.running.clear()
    assert "instance vm1 is not running" in str(await lab.refused(op(runtime_mem=96)))


async def test_an_instance_that_is_down_is_put_aside_and_comes_back(lab: build.MemoryCluster) -> None:
    assert await changed(lab, offline=True) == {"admin_state": "offline"}
    assert lab.state.instance("vm1").admin_state is instance.AdminState.OFFLINE
    assert await changed(lab, offline=True) == {}
    assert await changed(lab, offline=False) == {"admin_state": "down"}
    lab.put(msgspec.structs.replace(VM, admin_state=instance.AdminState.UP))
    assert "instance vm1 is recorded as up and cannot be marked offline" in str(await lab.refused(op(offline=True)))


async def test_what_only_planning_looks_at_is_not_said_to_wait_for_the_next_start(lab: build.MemoryCluster) -> None:
    start(lab)
    plan = await lab.plan(op(beparams={"auto_balance": False, "spindle_use": 2, "minmem": 64}))
    assert [step.text for step in plan.steps] == []
