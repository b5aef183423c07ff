"""Queries for ports, subnets and subnet pools: what they show, and that a question for one walks nothing."""

import pytest
from tests import effort
from tests.operations import build
from tests.operations.query.test_engine import Queries

from gantry import errors
from gantry.model import network
from gantry.operations.query import lookup

PORT = network.Port(
    uuid="p1", name="vip", network="net", mac="aa:00:00:00:00:55", ip=("192.0.2.55", "2001:db8::55"), device_id="d1"
)
TWIN = network.Port(uuid="p2", name="vip", network="spare", mac="aa:00:00:00:00:56")
POOLS = [
    network.SubnetPool(
        uuid=uuid, name="pool", prefixes=("10.0.0.0/8",), default_prefixlen=24, min_prefixlen=8, max_prefixlen=32
    )
    for uuid in ("sp1", "sp2")
]
CUT = network.Network(
    uuid="cut", name="cut", subnets=(network.Subnet(uuid="c4", cidr="10.0.0.0/24", subnetpool="sp1"),), project="proj"
)


@pytest.fixture
def queries() -> Queries:
    queries = Queries()
    queries.lab.put(PORT, TWIN, *POOLS, CUT)
    return queries


async def test_a_port_shows_its_addresses_with_their_subnets(queries: Queries) -> None:
    fields = ("network", "network_uuid", "ip", "fixed", "device_id", "instance", "project")
    (row,) = await queries.rows("port", *fields, filter_=["=", "uuid", "p1"])
    fixed = [{"subnet": "s4", "ip": "192.0.2.55"}, {"subnet": "s6", "ip": "2001:db8::55"}]
    assert [value for _, value in row] == ["net1", "net", list(PORT.ip), fixed, "d1", None, ""]


async def test_a_nic_in_a_network_is_a_port_of_its_instance(queries: Queries) -> None:
    fields = ("device_owner", "device_id", "instance", "mac", "ip")
    (row,) = await queries.rows("port", *fields, filter_=["=", "uuid", "x1"])
    nic = build.VM.nics[0]
    assert [value for _, value in row] == ["compute:gantry", "i1", "vm1", nic.mac, list(nic.ip)]


@pytest.mark.parametrize(
    ("what", "filter_", "expected"),
    [
        ("port", None, ["p1", "p2", "x1"]),
        ("port", ["=", "uuid", "p1"], ["p1"]),
        ("port", ["|", ["=", "uuid", "x1"], ["=", "uuid", "gone"], ["=", "uuid", "p2"]], ["x1", "p2"]),
        ("port", ["&", ["=", "name", "vip"], ["=", "network_uuid", "net"]], ["p1"]),
        ("port", ["=", "network_uuid", "net"], ["p1", "x1"]),
        ("port", ["=", "device_id", "d1"], ["p1"]),
        ("port", ["=", "device_id", "i1"], ["x1"]),
        ("port", ["=", "mac", "aa:00:00:00:00:01"], ["x1"]),
        ("port", ["|", ["=", "mac", PORT.mac], ["=", "uuid", "p1"], ["=", "device_id", "i1"]], ["p1", "x1"]),
        ("port", ["=", "name", "vip"], ["p1", "p2"]),
        ("port", ["=", "name", "other"], []),
        ("subnet", None, ["c4", "s4", "s6"]),
        ("subnet", ["=", "uuid", "s6"], ["s6"]),
        ("subnet", ["=", "uuid", "gone"], []),
        ("subnet", ["=", "network_uuid", "net"], ["s4", "s6"]),
        ("subnet", ["=", "subnetpool", "sp1"], ["c4"]),
        ("subnet", ["&", ["=", "subnetpool", "sp1"], ["=", "project", "other"]], []),
        ("subnetpool", ["=", "uuid", "sp2"], ["sp2"]),
        ("subnetpool", ["=", "name", "pool"], ["sp1", "sp2"]),
        ("network", ["=", "uuid", "cut"], ["cut"]),
        ("network", ["=", "project", "proj"], ["cut"]),
        ("instance", ["=", "uuid", "i1"], ["i1"]),
        ("instance", ["&", ["=", "uuid", "i1"], ["=", "name", "other"]], []),
        ("instance", ["=[]", "nic.ips", "192.0.2.10"], ["i1"]),
        ("instance", ["=[]", "nic.ips", "192.0.2.55"], []),
        ("instance", ["=[]", "nic.macs", "AA:00:00:00:00:01"], ["i1"]),
        ("instance", ["=[]", "nic.networks", "net"], ["i1"]),
        ("instance", ["=[]", "nic.networks", "gone"], []),
        ("port", ["=[]", "ip", "192.0.2.55"], ["p1"]),
        ("port", ["=[]", "ip", "192.0.2.10"], ["x1"]),
        ("port", ["=~", "ip", r"\.2\.55"], ["p1"]),
        ("port", ["=~", "ip", "db8::"], ["p1"]),
        ("port", ["=~", "ip", "^192.0.2.(10|55)$"], ["p1", "x1"]),
        ("port", ["|", ["=~", "ip", r"\.10"], ["=[]", "ip", "192.0.2.55"]], ["p1", "x1"]),
        ("port", ["&", ["=", "network_uuid", "net"], ["=~", "ip", r"\.55"]], ["p1"]),
        ("port", ["=~", "ip", "9999"], []),
        ("port", ["|"], []),
        ("port", ["&", ["|"], ["=", "network_uuid", "net"]], []),
        ("port", ["=[]", "ip", "2001:DB8:0::55"], ["p1"]),
        ("port", ["=", "mac", "AA:00:00:00:00:01"], ["x1"]),
        ("port", ["=[]", "fixed", "s4"], ["p1", "x1"]),
        ("port", ["=[]", "fixed", "2001:DB8:0::55"], ["p1"]),
        ("port", ["=[]", "fixed", "gone"], []),
        ("port", ["&", ["|", ["=[]", "ip", "192.0.2.55"]], ["|", ["=[]", "fixed", "s4"]]], ["p1"]),
        ("port", ["&", ["=[]", "ip", "192.0.2.10"], ["=", "network_uuid", "spare"]], []),
    ],
)  # fmt: skip
async def test_a_filter_lets_the_same_pass_by_an_index_or_without(
    queries: Queries, monkeypatch: pytest.MonkeyPatch, what: str, filter_: object, expected: list[str]
) -> None:
    assert sorted(map(str, await queries.values(what, "uuid", filter_=filter_))) == sorted(expected)
    if filter_ is not None:
        monkeypatch.setattr(lookup, "narrowed", lambda *_: None)
        by_hand = ["&", filter_, ["!", ["=", "uuid", ""]]]
        if not (isinstance(filter_, list) and filter_[1:2] == ["name"] and what == "subnetpool"):
            assert sorted(map(str, await queries.values(what, "uuid", filter_=by_hand))) == sorted(expected)


@pytest.mark.parametrize(
    ("what", "uuid"), [("port", "p1"), ("port", "x1"), ("subnet", "s4"), ("subnetpool", "sp1"), ("network", "net")]
)
async def test_a_question_for_one_walks_no_collection(
    queries: Queries, monkeypatch: pytest.MonkeyPatch, what: str, uuid: str
) -> None:
    for name in ("every_port", "every_subnet"):
        monkeypatch.setattr(lookup, name, lambda _: pytest.fail("a collection was walked"))
    monkeypatch.setattr("gantry.operations.query.engine._nice_name", lambda _: pytest.fail("a collection was sorted"))
    for filter_ in (["=", "uuid", uuid], ["|", ["=", "uuid", uuid]], ["&", ["=", "uuid", uuid], ["=", "uuid", uuid]]):
        assert await queries.values(what, "uuid", filter_=filter_) == [uuid]


@pytest.mark.parametrize("count", [10, 1000])
async def test_a_port_with_an_address_costs_the_same_in_a_network_of_any_size(queries: Queries, count: int) -> None:
    queries.lab.put(
        *(
            network.Port(uuid=f"q{n}", name="", network="spare", mac=f"aa:01:00:00:{n // 256:02x}:{n % 256:02x}")
            for n in range(count)
        )
    )
    in_networks = ["|", ["=", "network_uuid", "spare"], ["=", "network_uuid", "net"]]
    filter_ = ["&", in_networks, ["|", ["=[]", "ip", "192.0.2.55"]]]
    narrowed: list[object] | None = []

    def find() -> None:
        nonlocal narrowed
        narrowed = lookup.narrowed(queries.lab.state, "port", filter_)

    assert effort.lines(find) < 200
    assert narrowed == [PORT]


async def test_a_part_of_an_address_is_looked_for_without_a_look_at_the_ports(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "every_port", lambda _: pytest.fail("the ports were walked"))
    assert await queries.values("port", "uuid", filter_=["=~", "ip", r"2\.55"]) == ["p1"]


async def test_a_subnet_pool_that_is_not_there_is_said_to_be_missing(queries: Queries) -> None:
    with pytest.raises(errors.NotFoundError, match="no such subnet pool: other"):
        await queries.values("subnetpool", "uuid", filter_=["=", "name", "other"])


async def test_a_network_shows_its_ports_and_what_clients_call_it(queries: Queries) -> None:
    (row,) = await queries.rows(
        "network", "port_list", "port_cnt", "label", "subnet_list", filter_=["=", "name", "net1"]
    )
    assert [value for _, value in row] == [[["p1", "vip", "", list(PORT.ip)]], 1, "net1", ["s4", "s6"]]


async def test_a_subnet_tells_how_much_of_its_pools_is_free(queries: Queries) -> None:
    (row,) = await queries.rows("subnet", "free_count", "reserved_count", filter_=["=", "uuid", "s4"])
    assert [value for _, value in row] == [9, 1]
