"""The same requests to a Neutron with its own driver and to one with Gantry's get the same answers."""

import json
import re
from typing import Any

import pytest
from tests import postgres
from tests.neutron import server

pytestmark = server.NEEDS

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
VARIES = re.compile(r"fa:16:3e:[0-9a-f:]{8}|\d{4}-\d\d-\d\dT[\d:]+Z")


class Story:
    """Records requests and answers, with names in place of the UUIDs, which differ in each run."""

    def __init__(self, client: server.Client) -> None:
        self.answers: list[object] = []
        self._client = client
        self._names: dict[str, str] = {}

    def ask(self, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        status, answer = self._client.call(method, "/v2.0" + path, body)
        text = VARIES.sub("varies", json.dumps(answer, sort_keys=True))
        named = UUID.sub(lambda match: self._names.setdefault(match[0], f"uuid {len(self._names)}"), text)
        self.answers.append((method, re.sub(UUID, "uuid", path), status, json.loads(named)))
        return answer

    def make(self, kind: str, **values: object) -> str:
        """Request a new object; return its id, empty if it was refused."""
        answer = self.ask("POST", f"/{kind}s", {kind: values})
        return str(answer[kind]["id"]) if kind in answer else ""


def _play(story: Story) -> None:
    network = story.make("network", name="n")
    pools = [{"start": "192.0.2.9", "end": "192.0.2.9"}]
    subnet = story.make("subnet", network_id=network, ip_version=4, cidr="192.0.2.0/24", allocation_pools=pools)
    for wrong in ("192.0.2.0/33", "192.0.2.0/24", "2001:db8::/64"):
        story.make("subnet", network_id=network, ip_version=4, cidr=wrong)
    story.make("subnet", network_id=network, ip_version=4, cidr="192.0.2.0/24", gateway_ip="192.0.2.0")
    for runs in ([["192.0.2.9", "192.0.2.1"]], [["10.0.0.1", "10.0.0.2"]], [["198.51.100.2", "198.51.100.5"]] * 2):
        listed = [{"start": start, "end": end} for start, end in runs]
        story.make("subnet", network_id=network, ip_version=4, cidr="198.51.100.0/24", allocation_pools=listed)

    def port(**values: object) -> str:
        return story.make("port", network_id=network, **values)

    first = port()
    port()
    for address in ("192.0.2.9", "192.0.2.77", "192.0.2.0", "192.0.2.255", "192.0.2.1", "10.0.0.1", "2001:db8::1", "x"):
        port(fixed_ips=[{"ip_address": address}])
        port(fixed_ips=[{"ip_address": address, "subnet_id": subnet}])
    port(fixed_ips=[{"subnet_id": network}])
    port(security_groups=["00000000-0000-4000-8000-000000000000"])
    for fixed in ([{"ip_address": "192.0.2.50"}], [{"ip_address": "192.0.2.77"}], [{"subnet_id": subnet}], []):
        story.ask("PUT", f"/ports/{first}", {"port": {"fixed_ips": fixed}})
    for change in (
        {"allocation_pools": [{"start": "192.0.2.20", "end": "192.0.2.20"}]},
        {"allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.2"}]},
        {"gateway_ip": "192.0.2.20"}, {"gateway_ip": None}, {"name": "s"},
    ):  # fmt: skip
        story.ask("PUT", f"/subnets/{subnet}", {"subnet": change})
    port()
    port()
    story.ask("POST", "/ports", {"ports": [{"network_id": network}] * 2})
    story.ask("DELETE", f"/subnets/{subnet}")
    story.ask("DELETE", f"/ports/{first}")
    story.ask("DELETE", f"/ports/{first}")
    _tell_of_ipv6(story)
    _play_pools(story)
    story.ask("GET", "/subnets?sort_key=cidr&fields=cidr&fields=allocation_pools&fields=gateway_ip")


def _tell_of_ipv6(story: Story) -> None:
    network = story.make("network", name="six")
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    subnet = story.make("subnet", network_id=network, ip_version=6, cidr="2001:db8::/64", **modes)
    mac = "00:16:3e:00:00:05"
    port = story.make("port", network_id=network, mac_address=mac)
    story.make("port", network_id=network, fixed_ips=[{"subnet_id": subnet, "ip_address": "2001:db8::5"}])
    story.make("subnet", network_id=network, ip_version=6, cidr="2001:db8:1::/64", **modes)
    story.ask("GET", f"/ports/{port}?fields=fixed_ips")
    story.ask("DELETE", f"/subnets/{subnet}")
    story.ask("GET", f"/ports/{port}?fields=fixed_ips")
    for length in (126, 127, 128):
        story.make("subnet", network_id=story.make("network"), ip_version=6, cidr=f"2001:db8:2::/{length}")
        story.make("subnet", network_id=story.make("network"), ip_version=4, cidr=f"203.0.113.0/{length - 96}")


def _play_pools(story: Story) -> None:
    network = story.make("network", name="pooled")
    pool = story.make("subnetpool", name="p", prefixes=["198.51.100.0/24"], min_prefixlen=25, default_prefixlen=26)
    for request in (
        {},
        {"prefixlen": 25},
        {"prefixlen": 24},
        {"prefixlen": 27},
        {"cidr": "198.51.100.0/26"},
        {"cidr": "10.0.0.0/26"},
    ):
        story.make("subnet", network_id=network, ip_version=4, subnetpool_id=pool, **request)


@pytest.mark.promise("ipam-4", "ipam-29", "ipam-32", "ipam-38")
def test_every_answer_is_the_same_as_with_neutrons_own_driver() -> None:
    answers = {}
    with postgres.running() as database:
        for driver, own in (("internal", ""), ("gantry", database.create("gantry")), ("gantry", "")):
            with server.running(
                database.create(f"neutron {driver} {bool(own)}".replace(" ", "_")), own, driver=driver
            ) as (_, client):
                story = Story(client)
                _play(story)
                answers[driver, bool(own)] = story.answers
    expected = answers["internal", False]
    assert {answer[2] for answer in expected if isinstance(answer, tuple)} >= {200, 201, 204, 400, 404, 409}
    for actual in (answers["gantry", True], answers["gantry", False]):
        assert [pair for pair in zip(actual, expected, strict=True) if pair[0] != pair[1]] == []
