"""Many concurrent requests to several workers and servers."""

from collections.abc import Iterator

import pytest
from tests import postgres
from tests.neutron import server

pytestmark = server.NEEDS
PORTS = 1000


@pytest.fixture(params=["in a separate database", "in Neutron's database"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[server.Neutron, server.Client]]:
    with postgres.running() as database:
        url = database.create("gantry") if request.param.startswith("in a separate") else ""
        with server.running(database.create("neutron"), url, workers=8) as neutron_and_client:
            yield neutron_and_client


@pytest.mark.promise("ipam-2", "ipam-5", "ipam-26", "ipam-31", "ipam-36")
def test_a_thousand_ports_by_eight_workers_have_a_thousand_addresses(
    running: tuple[server.Neutron, server.Client],
) -> None:
    neutron, client = running
    network, _subnet = client.network("10.0.0.0/16")
    ports = server.at_once(PORTS, lambda number: client.create("port", network_id=network, name=str(number)))
    assert len(set(server.addresses(ports))) == PORTS
    listed = client.list("port", network_id=network)
    assert {port["id"]: port["fixed_ips"] for port in listed} == {port["id"]: port["fixed_ips"] for port in ports}
    assert neutron.python("gantry.ipam.neutron.program", "check", "--pause", "0", *neutron.arguments) == ""
    assert "Retry" not in neutron.logs()


@pytest.mark.promise("ipam-26", "ipam-27", "ipam-33")
def test_two_servers_hand_out_each_address_of_a_subnet_once(running: tuple[server.Neutron, server.Client]) -> None:
    neutron, first = running
    clients = [first, neutron.start(workers=2)]
    network, _subnet = first.network("192.0.2.0/25")

    def post(number: int) -> tuple[int, list[str]]:
        status, answer = clients[number % 2].call("POST", "/v2.0/ports", {"port": {"network_id": network}})
        return status, server.addresses([answer["port"]]) if status == 201 else []

    answers = server.at_once(132, post)
    got = [address for status, addresses in answers if status == 201 for address in addresses]
    assert sorted(got) == sorted(f"192.0.2.{host}" for host in range(2, 127))
    assert {status for status, _ in answers} == {201, 409}
