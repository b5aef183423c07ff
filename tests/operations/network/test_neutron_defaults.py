"""What a subnet is given whose maker leaves it to the cluster."""

import pytest
from msgspec import structs

from gantry.model import network, opcodes
from gantry.operations.network import neutron_defaults

NET = network.Network(uuid="n", name="n", subnets=(network.Subnet(uuid="s", cidr="192.0.2.0/24", dhcp=True),))
EMPTY = network.Network(uuid="n", name="n")


def _with_defaults(cidr: str, net: network.Network = EMPTY, **fields: object) -> opcodes.SubnetMod:
    mod = structs.replace(opcodes.SubnetMod(action="add", cidr=cidr, usual=True), **fields)
    return neutron_defaults.completed(net, mod)


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.0.0.0/28", "10.0.0.1", ("10.0.0.2-10.0.0.14",)),
        ("10.0.0.0/31", "10.0.0.0", ("10.0.0.1",)),
        ("10.0.0.0/32", "", ("10.0.0.0",)),
        ("2001:db8::/64", "2001:db8::", ("2001:db8::1-2001:db8::ffff:ffff:ffff:ffff",)),
    ],
)
def test_the_first_address_is_the_gateway_and_the_others_are_a_pool(
    cidr: str, gateway: str, pools: tuple[str, ...]
) -> None:
    subnet = _with_defaults(cidr)
    assert (subnet.gateway, subnet.pools, subnet.dhcp) == (gateway, pools, True)


def test_what_is_said_is_kept() -> None:
    subnet = _with_defaults("10.0.0.0/28", gateway="10.0.0.5", dhcp=False)
    assert (subnet.gateway, subnet.pools, subnet.dhcp) == (
        "10.0.0.5",
        ("10.0.0.1-10.0.0.4", "10.0.0.6-10.0.0.14"),
        False,
    )
    assert _with_defaults("10.0.0.0/28", gateway="").pools == ("10.0.0.1-10.0.0.14",)
    assert _with_defaults("10.0.0.0/28", pools=("10.0.0.3",)).pools == ("10.0.0.3",)


def test_one_subnet_of_an_ip_version_has_dhcp() -> None:
    assert _with_defaults("10.0.0.0/28", NET).dhcp is False
    assert _with_defaults("2001:db8::/64", NET).dhcp is True


def test_nothing_is_made_up_where_that_is_not_asked_for() -> None:
    plain = opcodes.SubnetMod(action="add", cidr="10.0.0.0/28")
    assert neutron_defaults.completed(EMPTY, plain) is plain
