"""Ports: which addresses they get, who may have them, and what is refused."""

import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import lock, network, opcodes
from gantry.state.objects import snapshot as states

Spec, Fixed = opcodes.PortSpec, opcodes.FixedSpec

UUID = "11111111-2222-4333-8444-555555555555"
AUTO = network.Subnet(uuid="auto", cidr="2001:db8:1::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
LARGE = network.Network(
    uuid="big",
    name="big",
    subnets=(
        network.Subnet(uuid="one", cidr="10.0.0.0/29", pools=(network.Pool(range="10.0.0.2-10.0.0.3"),)),
        network.Subnet(uuid="two", cidr="10.0.1.0/24", gateway="10.0.1.1", pools=(network.Pool(range="10.0.1.0/24"),)),
        AUTO,
    ),
)
MAC = "fa:16:3e:33:44:55"
EUI64 = "2001:db8:1:0:f816:3eff:fe33:4455"


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(LARGE)
    return lab


async def create(lab: build.MemoryCluster, *specs: opcodes.PortSpec) -> list[network.Port]:
    rows = await lab.run(opcodes.PortAdd(ports=specs))
    assert isinstance(rows, list)
    return [lab.state.ports[row["uuid"]] for row in rows]


async def addresses(lab: build.MemoryCluster, *fixed: opcodes.FixedSpec, owner: str = "") -> tuple[str, ...]:
    (port,) = await create(lab, Spec(network="big", fixed=fixed, mac=MAC, device_owner=owner))
    return port.ip


async def changed(lab: build.MemoryCluster, port: network.Port, **fields: object) -> network.Port:
    await lab.run(opcodes.PortSetParams(port=port.uuid, **fields))  # type: ignore[arg-type]
    return lab.state.ports[port.uuid]


def taken(lab: build.MemoryCluster, ip: str, *, cable: str = "net") -> states.AddressOwner | None:
    return lab.state.addresses.get((cable, ip))


async def test_a_port_that_asks_for_nothing_gets_an_address_of_each_ip_version(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="net1"))
    assert port.ip == ("192.0.2.11", "2001:db8::10")
    assert taken(lab, "192.0.2.11") == states.AddressOwner(port=port.uuid)
    assert lab.state.macs[port.mac] == port.uuid
    assert port.mac.startswith("aa:00:00:")


async def test_a_port_without_addresses_asks_for_an_empty_list(lab: build.MemoryCluster) -> None:
    assert await addresses(lab) == ()


async def test_a_second_subnet_is_used_when_the_first_is_full(lab: build.MemoryCluster) -> None:
    addresses = [port.ip[0] for port in await create(lab, *(Spec(network="big") for _ in range(3)))]
    assert addresses == ["10.0.0.2", "10.0.0.3", "10.0.1.2"]


async def test_an_address_of_a_slaac_subnet_follows_from_the_mac(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="big", mac=MAC))
    assert port.ip == ("10.0.0.2", EUI64)


async def test_a_slaac_subnet_joins_whatever_else_is_asked_for(lab: build.MemoryCluster) -> None:
    assert await addresses(lab, Fixed(subnet="two"), Fixed(subnet="auto")) == ("10.0.1.2", EUI64)


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        (Fixed(subnet="two"), "10.0.1.2"),
        (Fixed(ip="10.0.1.99"), "10.0.1.99"),
        (Fixed(subnet="two", ip="10.0.1.99"), "10.0.1.99"),
        (Fixed(ip="10.0.0.5"), "10.0.0.5"),
        (Fixed(ip="10.0.1.1"), "10.0.1.1"),
    ],
    ids=["any of a subnet", "an address", "both", "outside the pool", "the gateway"],
)
async def test_what_is_asked_for_is_given(lab: build.MemoryCluster, fixed: opcodes.FixedSpec, expected: str) -> None:
    assert (await addresses(lab, fixed))[0] == expected


async def test_a_named_address_is_not_picked_for_another_wish_of_the_same_port(lab: build.MemoryCluster) -> None:
    assert (await addresses(lab, Fixed(subnet="one"), Fixed(ip="10.0.0.2")))[:2] == ("10.0.0.3", "10.0.0.2")


async def test_a_router_makes_no_address_itself_and_may_name_one(lab: build.MemoryCluster) -> None:
    owner = "network:router_interface"
    assert await addresses(lab, Fixed(ip="2001:db8:1::1"), owner=owner) == ("2001:db8:1::1",)


@pytest.mark.parametrize(
    ("fixed", "kind", "message"),
    [
        (Fixed(ip="192.0.2.10"), errors.NotUniqueError, "address 192.0.2.10 in network net1 is in use by instance vm1"),
        (Fixed(ip="192.0.2.0"), errors.InvalidError, "is the first address of the subnet"),
        (Fixed(ip="192.0.2.255"), errors.InvalidError, "is the last address of the subnet"),
        (
            Fixed(ip="10.9.0.1"),
            errors.InvalidError,
            "address 10.9.0.1 is outside every subnet of network net1 (192.0.2.0/24, 2001:db8::/64)",
        ),
        (Fixed(subnet="s6", ip="192.0.2.9"), errors.InvalidError, "address 192.0.2.9 is not in subnet s6"),
        (Fixed(ip="x"), errors.InvalidError, "'x' is not an IP address"),
        (Fixed(), errors.InvalidError, "needs a subnet, an address or both"),
        (Fixed(subnet="nowhere"), errors.NotFoundError, "network net1 has no subnet nowhere"),
        (Fixed(ip="192.0.2.50"), errors.WrongStateError, "192.0.2.50 of network net1 is reserved externally"),
    ],
)
async def test_an_address_that_cannot_be_given_is_refused(
    lab: build.MemoryCluster, fixed: opcodes.FixedSpec, kind: type[errors.GantryError], message: str
) -> None:
    error = await lab.refused(opcodes.PortAdd(ports=(Spec(network="net1", fixed=(fixed,)),)))
    assert isinstance(error, kind)
    assert message in error.message


async def test_an_address_cannot_be_named_where_guests_make_it(lab: build.MemoryCluster) -> None:
    error = await lab.refused(opcodes.PortAdd(ports=(Spec(network="big", fixed=(Fixed(ip="2001:db8:1::9"),)),)))
    assert isinstance(error, errors.InvalidError)
    assert "make their own" in error.message


async def test_a_full_network_is_said_to_have_no_room(lab: build.MemoryCluster) -> None:
    small = structs.replace(LARGE, uuid="small", name="small", subnets=(structs.replace(LARGE.subnets[0], uuid="s"),))
    lab.put(small)
    error = await lab.refused(opcodes.PortAdd(ports=tuple(Spec(network="small") for _ in range(3))))
    assert isinstance(error, errors.NoRoomError)
    assert not lab.state.ports


async def test_of_many_ports_all_are_made_or_none(lab: build.MemoryCluster) -> None:
    specs = (Spec(network="net1", mac=MAC), Spec(network="net1", mac=MAC))
    error = await lab.refused(opcodes.PortAdd(ports=specs))
    assert f"MAC address {MAC} is in use by port" in error.message
    assert len(await create(lab, *(Spec(network="net1") for _ in range(9)))) == 9


async def test_the_same_uuid_is_refused_the_second_time(lab: build.MemoryCluster) -> None:
    await create(lab, Spec(network="net1", uuid=UUID))
    again = opcodes.PortAdd(ports=(Spec(network="net1", uuid=UUID),))
    assert isinstance(await lab.refused(again), errors.ExistsError)


async def test_an_instance_cannot_take_what_a_port_has(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="net1", name="lb"))
    nic = {"network": "net1", "ip": port.ip[0]}
    op = opcodes.decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "vm1", "nics": [["add", nic]]})
    error = await lab.refused(op)
    assert error.message == f"address {port.ip[0]} in network net1 is in use by port lb ({port.uuid})"


async def test_a_network_with_ports_stays_and_so_does_a_subnet_in_use(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="big", fixed=(Fixed(subnet="two"),)))
    error = await lab.refused(opcodes.NetworkRemove(network_name="big"))
    assert error.message == f"network big is in use by port {port.uuid}"
    mods = tuple(opcodes.SubnetMod(action="remove", ident=ident) for ident in ("one", "two"))
    error = await lab.refused(opcodes.NetworkSetParams(network_name="big", subnets=mods))
    assert f"in use by port {port.uuid} (10.0.1.2)" in error.message
    await lab.run(opcodes.NetworkSetParams(network_name="big", subnets=mods[:1]))


async def test_a_gateway_that_a_port_has_stays_the_gateway(lab: build.MemoryCluster) -> None:
    await create(lab, Spec(network="big", fixed=(Fixed(ip="10.0.1.1"),)))
    mod = opcodes.SubnetMod(action="modify", ident="two", description="routed")
    await lab.run(opcodes.NetworkSetParams(network_name="big", subnets=(mod,)))
    again = opcodes.SubnetMod(action="modify", ident="two", gateway="10.0.1.254")
    await lab.run(opcodes.NetworkSetParams(network_name="big", subnets=(again,)))
    back = opcodes.SubnetMod(action="modify", ident="two", gateway="10.0.1.1")
    await lab.run(opcodes.NetworkSetParams(network_name="big", subnets=(back,)))
    assert lab.state.networks["big"].subnets[1].gateway == "10.0.1.1"


async def test_a_change_keeps_the_addresses_that_are_asked_for_again(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="big", mac=MAC, fixed=(Fixed(subnet="one"), Fixed(ip="10.0.1.7"))))
    kept = await changed(lab, port, fixed=(Fixed(ip="10.0.1.7"), Fixed(subnet="one")))
    assert kept.ip == ("10.0.1.7", "10.0.0.2", EUI64)
    fewer = await changed(lab, port, fixed=(Fixed(subnet="two"),))
    assert fewer.ip == ("10.0.1.7", EUI64)
    assert taken(lab, "10.0.0.2", cable="big") is None
    assert (await changed(lab, port, fixed=())).ip == ()


async def test_another_mac_makes_another_address(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="big", mac=MAC))
    new = await changed(lab, port, mac="fa:16:3e:00:00:01")
    assert new.ip == ("10.0.0.2", "2001:db8:1:0:f816:3eff:fe00:1")
    assert taken(lab, EUI64, cable="big") is None
    assert MAC not in lab.state.macs


async def test_a_change_of_words_touches_no_address_and_counts(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="net1"))
    new = await changed(lab, port, name="vip", description="shared", admin_state_up=False, tags=("a=b",))
    assert (new.name, new.ip, new.tags, new.serial_no) == ("vip", port.ip, ("a=b",), 2)
    assert await changed(lab, new, name="vip") is new


async def test_a_removed_port_gives_back_what_it_had(lab: build.MemoryCluster) -> None:
    (port,) = await create(lab, Spec(network="net1"))
    await lab.run(opcodes.PortRemove(port=port.uuid))
    assert not lab.state.ports
    assert not lab.state.ports_in
    (again,) = await create(lab, Spec(network="net1", mac=port.mac))
    assert again.ip == port.ip


@pytest.mark.parametrize("op", [opcodes.PortRemove(port="x1"), opcodes.PortSetParams(port="x1", name="n")])
async def test_a_nic_of_an_instance_is_no_port_to_change(lab: build.MemoryCluster, op: opcodes.Opcode) -> None:
    error = await lab.refused(op)
    assert isinstance(error, errors.WrongStateError)
    assert error.message == "port x1 is a NIC of instance vm1"


async def test_ports_of_a_network_are_made_side_by_side(lab: build.MemoryCluster) -> None:
    unit = lab.unit(opcodes.PortAdd(ports=(Spec(network="net1"), Spec(network="big"))))
    assert unit.locks(lab.state) == {(lock.Level.NETWORK, uuid): lock.Mode.SHARED for uuid in ("net", "big")}


async def test_what_a_running_job_gives_a_port_is_held_from_others(lab: build.MemoryCluster) -> None:
    plan = await lab.plan(opcodes.PortAdd(ports=(Spec(network="net1"),)))
    lab.ledger.hold(7, lab.state, changes=plan.changes)
    (port,) = await create(lab, Spec(network="net1"))
    assert port.ip == ("192.0.2.12", "2001:db8::11")
    wish = Spec(network="net1", fixed=(Fixed(ip="192.0.2.11"),))
    assert isinstance(await lab.refused(opcodes.PortAdd(ports=(wish,))), errors.BusyError)
    lab.ledger.release(7)
    await create(lab, wish)


async def test_the_answer_has_the_subnet_of_each_address(lab: build.MemoryCluster) -> None:
    rows = await lab.run(opcodes.PortAdd(ports=(Spec(network="net1", project="p"),)))
    assert isinstance(rows, list)
    (row,) = rows
    assert row["fixed"] == [{"subnet": "s4", "ip": "192.0.2.11"}, {"subnet": "s6", "ip": "2001:db8::10"}]
    assert (row["network_uuid"], row["network"], row["project"], row["instance"]) == ("net", "net1", "p", None)
