"""The use cases of segment ranges with the stock ``openstack`` command and its text, and each way to log in.

See contracts/segment-ranges.md#use-cases.
"""

from collections.abc import Iterator

import pytest
from tests.openstack import client

pytestmark = client.NEEDS

RANGE = ("network", "segment", "range")
HEAD = (
    "ID", "Name", "Default", "Shared", "Project ID", "Network Type", "Physical Network", "Minimum ID", "Maximum ID",
)  # fmt: skip
UUID = "00000000-0000-0000-0000-000000000000"
PRIVATE = ("--private", "--project", "tenant-1", "--network-type", "vlan", "--physical-network", "physnet1")


@pytest.fixture(scope="module")
def cloud() -> Iterator[client.Cloud]:
    with client.cloud() as running:
        yield running


@pytest.mark.parametrize(
    "wrong", [{"OS_PASSWORD": "wrong"}, {"OS_PROJECT_NAME": "nosuch"}, {"OS_USERNAME": "stranger"}], ids=str
)
def test_a_refused_login_is_reported_in_keystones_words(cloud: client.Cloud, wrong: dict[str, str]) -> None:
    cloud.auth["wrong"] = {**cloud.login("admin"), **wrong}
    message = "The request you have made requires authentication. (HTTP 401)"
    assert cloud.refused("network", "create", "stray", who="wrong").startswith(message)


def _default(kind: str, physical: str, minimum: int, maximum: int) -> tuple[object, ...]:
    return (UUID, None, True, True, None, kind, physical, minimum, maximum)


def _segments(cloud: client.Cloud, project: str) -> list[tuple[object, object]]:
    rows = cloud.rows("network", "list", "--project", project, "--long")
    networks = [cloud.value("network", "show", str(row["ID"])) for row in rows]
    return sorted((each["provider:network_type"], each["provider:segmentation_id"]) for each in networks)


@pytest.mark.promise("segments-9", "segments-60", "segments-64", "segments-65", "segments-66", "segments-69")
def test_use_case_one_allocates_ids_of_a_projects_own_ranges(cloud: client.Cloud) -> None:
    rows = [
        _default("gre", "", 1, 20), _default("vxlan", "", 1000, 1019), _default("vlan", "physnet2", 300, 309),
        _default("geneve", "", 5000, 5019), _default("vlan", "physnet1", 100, 119),
    ]  # fmt: skip
    listed = cloud.output(*RANGE, "list").splitlines(keepends=True)
    drawn = client.table(HEAD, *rows).splitlines(keepends=True)
    assert sorted(listed) == sorted([*drawn, "\n"][: len(listed)])
    new = cloud.value(*RANGE, "create", *PRIVATE, "--minimum", "200", "--maximum", "201", "range-t1")
    assert client.plain(str(new.pop("created_at"))) == client.plain(str(new.pop("updated_at")))
    assert new == {
        "available": ["200-201"], "default": False, "description": "", "id": new["id"], "maximum": 201, "minimum": 200,
        "name": "range-t1", "network_type": "vlan", "physical_network": "physnet1", "project_id": "tenant-1",
        "revision_number": 0, "shared": False, "tags": [], "used": {},
    }  # fmt: skip
    for name in ("t1-0", "t1-1", "t1-2"):
        cloud.output("network", "create", name, who="anna")
    assert _segments(cloud, "tenant-1") == [("vlan", 100), ("vlan", 200), ("vlan", 201)]
    cloud.output("network", "create", "t2", who="ben")
    assert _segments(cloud, "tenant-2")[0][1] not in (200, 201)
    range_shown = cloud.value(*RANGE, "show", "range-t1")
    assert (range_shown["used"], range_shown["available"]) == ({"tenant-1": ["200-201"]}, [])
    assert "is referenced by one or more project networks" in cloud.refused(*RANGE, "delete", "range-t1")


@pytest.mark.promise("segments-2", "segments-12", "segments-63", "segments-70", "segments-71")
def test_use_case_two_moves_a_range_while_all_runs(cloud: client.Cloud) -> None:
    project = ("--private", "--project", "tenant-2", "--network-type", "geneve")
    cloud.output(*RANGE, "create", *project, "--minimum", "6000", "--maximum", "6001", "moved")
    assert cloud.output(*RANGE, "set", "--name", "there", "--minimum", "7000", "--maximum", "7005", "moved") == ""
    cloud.output("network", "create", "t2-moved", who="ben")
    assert ("geneve", 7000) in _segments(cloud, "tenant-2")
    assert "No NetworkSegmentRange found for moved" in cloud.refused(*RANGE, "show", "moved")
    cloud.output("network", "delete", "t2-moved", who="ben")
    assert cloud.output(*RANGE, "delete", "there") == ""


@pytest.mark.promise("segments-61", "segments-62", "segments-93")
def test_lists_are_of_what_is_used_and_what_is_free(cloud: client.Cloud) -> None:
    project = ("--private", "--project", "tenant-2", "--network-type", "vxlan")
    cloud.output(*RANGE, "create", *project, "--minimum", "50", "--maximum", "50", "one")
    cloud.output("network", "create", "full", who="ben")
    names = {
        option: {row["Name"] for row in cloud.rows(*RANGE, "list", option)}
        for option in ("--used", "--unused", "--available", "--unavailable")
    }
    assert "one" in names["--used"] & names["--unavailable"]
    assert "one" not in names["--unused"] | names["--available"]
    cloud.output("network", "delete", "full", who="ben")
    assert "one" in {row["Name"] for row in cloud.rows(*RANGE, "list", "--unused")}
    cloud.output(*RANGE, "delete", "one")


@pytest.mark.promise("segments-72")
def test_a_project_does_not_see_ranges(cloud: client.Cloud) -> None:
    assert cloud.rows(*RANGE, "list", who="anna") == []
    refused = cloud.refused(
        *RANGE, "create", "--network-type", "gre", "--minimum", "1", "--maximum", "2", "x", who="anna"
    )
    assert "rule:create_network_segment_range is disallowed by policy" in refused


def test_networks_subnets_and_ports_come_and_go(cloud: client.Cloud) -> None:
    cloud.output("network", "create", "lan", "--description", "a lan")
    cloud.output("subnet", "create", "--network", "lan", "--subnet-range", "10.7.0.0/24", "s1")
    port = cloud.value("port", "create", "--network", "lan", "--fixed-ip", "subnet=s1,ip-address=10.7.0.77", "p1")
    subnet = cloud.value("subnet", "show", "s1")
    assert port["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "10.7.0.77"}]
    assert subnet["allocation_pools"] == [{"start": "10.7.0.2", "end": "10.7.0.254"}]
    head = ("ID", "Name", "Network", "Subnet")
    assert cloud.output("subnet", "list") == client.table(head, (UUID, "s1", UUID, "10.7.0.0/24"))
    cloud.output("port", "set", "--no-fixed-ip", "--fixed-ip", "ip-address=10.7.0.78", "--name", "p2", "p1")
    assert [row["Name"] for row in cloud.rows("port", "list", "--fixed-ip", "ip-address=10.7.0.78")] == ["p2"]
    pool = ("--no-allocation-pool", "--allocation-pool", "start=10.7.0.10,end=10.7.0.200")
    cloud.output("subnet", "set", *pool, "--tag", "red", "s1")
    assert cloud.value("subnet", "show", "s1")["tags"] == ["red"]
    assert "One or more ports have an IP allocation from this subnet" in cloud.refused("subnet", "delete", "s1")
    cloud.output("network", "set", "--name", "wan", "--tag", "blue", "lan")
    assert [row["Name"] for row in cloud.rows("network", "list", "--tags", "blue")] == ["wan"]
    cloud.output("port", "delete", "p2")
    cloud.output("subnet", "delete", "s1")
    cloud.output("network", "delete", "wan")


def test_cidrs_of_subnets_are_allocated_from_a_pool(cloud: client.Cloud) -> None:
    cloud.output("subnet", "pool", "create", "--pool-prefix", "10.8.0.0/16", "--default-prefix-length", "26", "sp")
    cloud.output("network", "create", "pooled")
    subnet = cloud.value("subnet", "create", "--network", "pooled", "--subnet-pool", "sp", "s2")
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("10.8.0.0/26", "10.8.0.1")
    cloud.output("subnet", "delete", "s2")
    cloud.output("subnet", "pool", "delete", "sp")
    cloud.output("network", "delete", "pooled")


def test_the_client_can_use_basic_authentication(cloud: client.Cloud) -> None:
    basic = {
        "OS_AUTH_TYPE": "http_basic", "OS_ENDPOINT": cloud.url, "OS_USERNAME": "admin", "OS_PASSWORD": "secret",
    }  # fmt: skip
    cloud.auth["basic"] = basic
    cloud.auth["stranger"] = {**basic, "OS_PASSWORD": "wrong"}
    assert len(cloud.rows(*RANGE, "list", who="basic")) >= 5
    assert "401" in cloud.refused(*RANGE, "list", who="stranger")


@pytest.mark.promise("segments-68")
def test_without_authentication_everybody_is_the_administrator() -> None:
    with client.cloud("--neutron-auth", "none") as cloud:
        cloud.auth["admin"] = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": cloud.url}
        arguments = ("--network-type", "vxlan", "--minimum", "60", "--maximum", "61")
        assert cloud.value(*RANGE, "create", *arguments, "x")["available"] == ["60-61"]
        assert cloud.output(*RANGE, "delete", "x") == ""
        private = (
            "--private",
            "--project",
            "tenant-2",
            "--network-type",
            "vxlan",
            "--minimum",
            "70",
            "--maximum",
            "70",
        )
        assert cloud.value(*RANGE, "create", *private, "y")["project_id"] == "tenant-2"
