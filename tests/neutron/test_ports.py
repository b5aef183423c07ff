"""Ports and subnets of Neutron, as users see them, with addresses that the driver allocates."""

import ipaddress
from collections.abc import Iterator

import pytest
from tests import postgres
from tests.neutron import server

pytestmark = server.NEEDS
MAC = "fa:16:3e:00:00:05"
EUI64 = "f816:3eff:fe00:5"


@pytest.fixture(scope="module", params=["in a separate database", "in Neutron's database"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[server.Neutron, server.Client]]:
    with postgres.running() as database:
        url = database.create("gantry") if request.param.startswith("in a separate") else ""
        with server.running(database.create("neutron"), url) as neutron_and_client:
            yield neutron_and_client


@pytest.fixture
def client(running: tuple[server.Neutron, server.Client]) -> server.Client:
    return running[1]


@pytest.mark.promise("ipam-13")
def test_a_port_gets_an_address_of_its_subnet_and_keeps_it(client: server.Client) -> None:
    network, subnet = client.network("192.0.2.0/24", allocation_pools=[{"start": "192.0.2.10", "end": "192.0.2.20"}])
    port = client.create("port", network_id=network)
    assert [fixed["subnet_id"] for fixed in port["fixed_ips"]] == [subnet]
    address = ipaddress.IPv4Address(port["fixed_ips"][0]["ip_address"])
    assert ipaddress.IPv4Address("192.0.2.10") <= address <= ipaddress.IPv4Address("192.0.2.20")
    assert server.addresses(client.list("port", id=port["id"])) == [str(address)]


@pytest.mark.promise("ipam-14", "ipam-19", "ipam-24")
def test_addresses_run_out_and_are_allocated_again_when_ports_are_deleted(client: server.Client) -> None:
    network, _subnet = client.network("192.0.2.0/29")
    ports = [client.create("port", network_id=network) for _ in range(5)]
    assert sorted(server.addresses(ports)) == [f"192.0.2.{host}" for host in range(2, 7)]
    status, answer = client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})
    assert (status, answer["NeutronError"]["type"]) == (409, "IpAddressGenerationFailure")
    client.delete("port", ports[3]["id"])
    assert server.addresses([client.create("port", network_id=network)]) == server.addresses([ports[3]])


@pytest.mark.promise("ipam-14")
def test_a_specific_address_is_allocated_once_also_outside_the_pools_and_never_outside_the_subnet(
    client: server.Client,
) -> None:
    network, subnet = client.network("192.0.2.0/24", allocation_pools=[{"start": "192.0.2.10", "end": "192.0.2.20"}])

    def named(address: str) -> tuple[int, str]:
        fixed = [{"subnet_id": subnet, "ip_address": address}]
        status, answer = client.call("POST", "/v2.0/ports", {"port": {"network_id": network, "fixed_ips": fixed}})
        return status, "" if status == 201 else answer["NeutronError"]["type"]

    assert named("192.0.2.11") == (201, "")
    assert named("192.0.2.200") == (201, "")
    assert named("192.0.2.11") == named("192.0.2.200") == (409, "IpAddressAlreadyAllocated")
    assert {named(wrong) for wrong in ("192.0.2.0", "192.0.2.255", "198.51.100.1")} == {(400, "InvalidIpForSubnet")}


@pytest.mark.promise("ipam-12")
def test_subnets_of_different_networks_may_overlap(client: server.Client) -> None:
    first, second = (client.network("192.0.2.0/30")[0] for _ in range(2))
    ports = [client.create("port", network_id=network) for network in (first, second)]
    assert server.addresses(ports) == ["192.0.2.2", "192.0.2.2"]


def test_a_dhcp_port_gets_the_first_address(client: server.Client) -> None:
    network, _ = client.network("192.0.2.0/24")
    port = client.create("port", network_id=network, device_owner="network:dhcp", device_id="dhcp-agent")
    assert server.addresses([port]) == ["192.0.2.2"]


@pytest.mark.promise("ipam-13")
def test_a_port_changes_its_addresses_and_what_it_leaves_is_free(client: server.Client) -> None:
    network, _subnet = client.network("192.0.2.0/24")
    port = client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.10"}])

    def change(*addresses: str) -> set[str]:
        return set(
            server.addresses(
                [client.update("port", port["id"], fixed_ips=[{"ip_address": address} for address in addresses])]
            )
        )

    assert change("192.0.2.20", "192.0.2.21") == {"192.0.2.20", "192.0.2.21"}
    assert change("192.0.2.21", "192.0.2.10") == {"192.0.2.21", "192.0.2.10"}
    client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.20"}])
    assert change() == set()
    client.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.21"}])


def test_on_a_full_subnet_a_port_may_reallocate_an_address_that_the_same_update_releases(client: server.Client) -> None:
    network, subnet = client.network("192.0.2.0/29", allocation_pools=[{"start": "192.0.2.2", "end": "192.0.2.2"}])
    port = client.create("port", network_id=network)
    assert server.addresses([port]) == ["192.0.2.2"]
    changed = client.update("port", port["id"], fixed_ips=[{"subnet_id": subnet}])
    assert server.addresses([changed]) == ["192.0.2.2"]
    assert client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 409


def test_ports_in_bulk_all_get_an_address_or_none_does(client: server.Client) -> None:
    network, _ = client.network("192.0.2.0/27")
    new_ports = [{"network_id": network} for _ in range(20)]
    status, answer = client.call("POST", "/v2.0/ports", {"ports": new_ports})
    assert status == 201
    assert len(set(server.addresses(answer["ports"]))) == 20
    assert client.call("POST", "/v2.0/ports", {"ports": new_ports})[0] == 409
    status, answer = client.call("POST", "/v2.0/ports", {"ports": new_ports[:9]})
    assert status == 201, "the failed request has left no address behind"


@pytest.mark.promise("ipam-17", "ipam-21")
def test_addresses_come_from_the_new_pools_after_an_update(client: server.Client) -> None:
    network, subnet = client.network("192.0.2.0/24", allocation_pools=[{"start": "192.0.2.10", "end": "192.0.2.11"}])
    ports = [client.create("port", network_id=network) for _ in range(2)]
    assert client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 409
    pools = [{"start": "192.0.2.11", "end": "192.0.2.12"}, {"start": "192.0.2.50", "end": "192.0.2.50"}]
    assert client.update("subnet", subnet, allocation_pools=pools)["allocation_pools"] == pools
    got = [client.create("port", network_id=network) for _ in range(2)]
    assert sorted(server.addresses(got)) == ["192.0.2.12", "192.0.2.50"]
    assert client.call("POST", "/v2.0/ports", {"port": {"network_id": network}})[0] == 409
    for port in ports:
        client.delete("port", port["id"])
    assert server.addresses([client.create("port", network_id=network)]) == ["192.0.2.11"]


@pytest.mark.promise("ipam-22")
def test_a_subnet_is_deleted_only_without_ports(client: server.Client) -> None:
    network, subnet = client.network("192.0.2.0/24")
    port = client.create("port", network_id=network)
    status, answer = client.call("DELETE", f"/v2.0/subnets/{subnet}")
    assert (status, answer["NeutronError"]["type"]) == (409, "SubnetInUse")
    client.delete("port", port["id"])
    client.delete("subnet", subnet)
    again = client.create("subnet", network_id=network, ip_version=4, cidr="192.0.2.0/24")["id"]
    assert client.create("port", network_id=network)["fixed_ips"][0]["subnet_id"] == again


@pytest.mark.promise("ipam-32")
def test_ports_have_the_address_that_they_configure_automatically(client: server.Client) -> None:
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    network, _subnet = client.network("2001:db8::/64", **modes)
    port = client.create("port", network_id=network, mac_address=MAC)
    assert server.addresses([port]) == [f"2001:db8::{EUI64}"]
    second = client.create("subnet", network_id=network, ip_version=6, cidr="2001:db8:1::/64", **modes)["id"]
    now = client.list("port", id=port["id"])
    assert sorted(server.addresses(now)) == [f"2001:db8:1:0:{EUI64}", f"2001:db8::{EUI64}"]
    client.delete("subnet", second)
    assert server.addresses(client.list("port", id=port["id"])) == [f"2001:db8::{EUI64}"]
    moved = client.update("port", port["id"], mac_address="fa:16:3e:00:00:06")
    assert server.addresses([moved]) == ["2001:db8::f816:3eff:fe00:6"]


@pytest.mark.promise("ipam-32")
def test_a_port_of_two_families_has_one_address_of_each(client: server.Client) -> None:
    network, _first = client.network("192.0.2.0/24")
    client.create(
        "subnet", network_id=network, ip_version=6, cidr="2001:db8::/64",
        ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful",
    )  # fmt: skip
    got = server.addresses([client.create("port", network_id=network)])
    assert sorted(ipaddress.ip_address(address).version for address in got) == [4, 6]


@pytest.mark.promise("ipam-11", "ipam-40")
def test_subnets_come_from_a_subnet_pool_within_its_quota_and_never_overlap(client: server.Client) -> None:
    pool = client.create(
        "subnetpool",
        name="pool",
        prefixes=["198.51.100.0/24"],
        default_prefixlen=26,
        min_prefixlen=26,
        default_quota=192,
    )["id"]
    network = client.create("network")["id"]
    subnets = [client.create("subnet", network_id=network, ip_version=4, subnetpool_id=pool) for _ in range(2)]
    subnets.append(
        client.create("subnet", network_id=network, ip_version=4, subnetpool_id=pool, cidr="198.51.100.192/26")
    )
    nets = [ipaddress.ip_network(subnet["cidr"]) for subnet in subnets]
    assert not any(first.overlaps(second) for first in nets for second in nets if first is not second)
    assert client.create("port", network_id=network, fixed_ips=[{"subnet_id": subnets[0]["id"]}])["fixed_ips"]
    more = {"subnet": {"network_id": network, "ip_version": 4, "subnetpool_id": pool}}
    assert client.call("POST", "/v2.0/subnets", more)[1]["NeutronError"]["type"] == "SubnetPoolQuotaExceeded"


@pytest.mark.promise("ipam-32")
def test_ports_follow_the_prefix_that_is_delegated_to_their_subnet(
    running: tuple[server.Neutron, server.Client],
) -> None:
    neutron, client = running
    network = client.create("network")["id"]
    subnet = client.create(
        "subnet", network_id=network, ip_version=6, subnetpool_id="prefix_delegation",
        ipv6_ra_mode="slaac", ipv6_address_mode="slaac",
    )  # fmt: skip
    port = client.create("port", network_id=network, mac_address=MAC)
    for prefix in ("2001:db8:7::/64", "2001:db8:8::/64"):
        output = neutron.python("tests.neutron.inside.delegation", subnet["id"], prefix, *neutron.arguments)
        assert output.split()[-1] == prefix
        now = client.list("port", id=port["id"])
        assert server.addresses(now) == [prefix.removesuffix(":/64") + f"0:{EUI64}"]
    assert neutron.python("gantry.ipam.neutron.program", "check", "--pause", "0", *neutron.arguments) == ""
