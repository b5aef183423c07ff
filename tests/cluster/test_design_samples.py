"""The command lines and requests that the documents on networks and on segment ranges show, on real daemons.

What the document calls "some-ident" is the CIDR, name or UUID of a subnet. The command without a network
(``--pool add:subnet=some-ident``) gets the network that the lines around it name.
"""

import shlex
from collections.abc import Iterator

import pytest
from tests.cluster import lab, test_segment_attributes, wires

# The gate has the grammar of these lines (tests/cli/grammar) and what they do (tests/cluster/test_network_*.py).
pytestmark = pytest.mark.slow

RANGES = test_segment_attributes.RANGES
NAME = test_segment_attributes.NAME
OWNER = "45977fa2dbd7482098dd68d0d8970117"
USERS = {"100": "07ac1127ee9647d48ce2626867104a13", "101": "d4fa62aa47d340d98d076801aa7e6ec4"}
RANGE: dict[str, object] = {
    "name": "network_segment_range_physnet1",
    "shared": False,
    "project_id": OWNER,
    "network_type": "vlan",
    "physical_network": "physnet1",
}


class Shell:
    """A cluster whose administrator types the lines of a document."""

    def __init__(self, cluster: lab.Lab) -> None:
        self.cluster = cluster

    def type(self, line: str) -> None:
        """Run a command line, which must succeed."""
        self.cluster.run(*shlex.split(line))

    def add(self, network: str, line: str = "gnt-network add") -> wires.Wire:
        """Create a network, connected to the nodes."""
        self.type(f"{line} {network}")
        self.type(f"gnt-network connect -N mode=routed,link=main {network} default")
        return wires.Wire(self.cluster, network)

    def ips(self, instance: str) -> list[list[str]]:
        """Return the addresses of each NIC of an instance."""
        with self.cluster.luxi() as luxi:
            answer = luxi.call("Query", "instance", ["nic.ips"], ["=", "name", instance])
        rows = answer["data"]
        assert isinstance(rows, list)
        ips: list[list[str]] = rows[0][0][1]
        return ips

    def remove(self, *networks: str) -> None:
        for (name,) in self.cluster.rows("gnt-instance", "name"):
            self.type(f"gnt-instance remove -f {name}")
        for network in networks:
            self.type(f"gnt-network disconnect {network} default")
            self.type(f"gnt-network remove -f {network}")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        yield Shell(cluster_lab)


@pytest.mark.promise("networks-21", "networks-26", "networks-27")
def test_subnets_are_added_by_the_lines_of_the_document(shell: Shell) -> None:
    net1 = shell.add("net1")
    shell.type("gnt-network modify --subnet add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true net1")
    shell.type("gnt-network modify --subnet add:cidr=2001::/64,gateway=2001::1,dhcp=true net1")
    displayed = [(subnet["cidr"], subnet["gateway"], subnet["dhcp"]) for subnet in net1.subnets]
    assert displayed == [("10.0.0.0/24", "10.0.0.1", True), ("2001::/64", "2001::1", True)]
    shell.remove("net1")


@pytest.mark.promise("networks-28", "networks-29", "networks-32", "networks-34")
@pytest.mark.parametrize("kind", ["cidr", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("name", "uuid"))])
def test_subnets_are_changed_and_removed_by_the_lines_of_the_document(shell: Shell, kind: str) -> None:
    network1 = shell.add("network1")
    shell.type("gnt-network modify --subnet add:cidr=192.0.2.0/24,dhcp=true,name=bar network1")

    def ident() -> str:
        (subnet,) = network1.subnets
        return str(subnet[kind])

    def values(*names: str) -> list[object]:
        (subnet,) = network1.subnets
        return [subnet[name] for name in names]

    shell.type(f"gnt-network modify --subnet {ident()}:modify,dhcp=false,name=foo network1")
    assert values("dhcp", "name") == [False, "foo"]
    shell.type(f"gnt-network modify --subnet {ident()}:modify,cidr=192.0.2.0/22 network1")
    assert values("cidr") == ["192.0.0.0/22"]
    shell.type(f"gnt-network modify --subnet {ident()}:modify,cidr=192.0.2.32/28 network1")
    assert values("cidr") == ["192.0.2.32/28"]
    shell.type(f"gnt-network modify --subnet {ident()}:modify,gateway=192.0.2.40 network1")
    assert values("gateway") == ["192.0.2.40"]
    shell.type(f"gnt-network modify --subnet {ident()}:remove network1")
    assert network1.subnets == []
    shell.remove("network1")


@pytest.mark.promise("networks-43", "networks-44", "networks-48", "networks-49")
def test_pools_and_reservations_are_changed_by_the_lines_of_the_document(shell: Shell) -> None:
    net1 = shell.add("net1", "gnt-network add --subnet cidr=192.0.2.0/24 --subnet cidr=10.0.0.0/24")
    shell.type("gnt-network modify --pool add:192.0.2.10-192.0.2.100,name=pool1 net1")
    shell.type("gnt-network modify --pool add:10.0.0.7-10.0.0.20 net1")
    shell.type("gnt-network modify --pool add:10.0.0.100 net1")
    other_pools = [("10.0.0.7", "10.0.0.20", ""), ("10.0.0.100", "10.0.0.100", "")]
    assert net1.pools == [("192.0.2.10", "192.0.2.100", "pool1"), *other_pools]
    shell.type("gnt-network modify --pool remove:192.0.2.20-192.0.2.50 net1")
    assert net1.pools == [("192.0.2.10", "192.0.2.19", "pool1"), ("192.0.2.51", "192.0.2.100", "pool1"), *other_pools]
    shell.type("gnt-network modify --add-reserved-ips 192.0.2.20-192.0.2.50 net1")
    assert net1.external == ["192.0.2.20-192.0.2.50"]
    shell.remove("net1")


@pytest.mark.promise("networks-46", "networks-47")
@pytest.mark.parametrize(
    "lines",
    [
        ["--subnet add:cidr=10.0.0.0/27,pool"],
        ["--subnet add:cidr=10.0.0.0/27,name=some-ident", "--pool add:subnet=some-ident"],
        ["--subnet add:cidr=10.0.0.0/27", "--pool add:10.0.0.0/27"],
    ],
    ids=["with the subnet", "of a subnet", "of a CIDR"],
)
def test_a_pool_of_a_whole_subnet_is_added_by_the_lines_of_the_document(shell: Shell, lines: list[str]) -> None:
    net1 = shell.add("net1")
    for line in lines:
        shell.type(f"gnt-network modify {line} net1")
    assert [(first, last) for first, last, _ in net1.pools] == [("10.0.0.0", "10.0.0.31")]
    shell.remove("net1")


@pytest.mark.promise("networks-62", "networks-63", "networks-65", "networks-66", "networks-67")
def test_instances_get_addresses_by_the_lines_of_the_document(shell: Shell) -> None:
    shell.add(
        "network1",
        "gnt-network add --subnet cidr=192.0.2.0/24 --subnet cidr=10.0.0.0/24 --subnet cidr=10.0.1.0/24"
        " --pool 10.0.0.7-10.0.0.20 --pool 10.0.1.8-10.0.1.9,name=some-pool-name",
    )
    shell.add("test", "gnt-network add --subnet cidr=1.2.3.0/24 --pool 1.2.3.100-1.2.3.110")
    add = "gnt-instance add -t diskless -n node1 --no-start"
    shell.type(f"{add} --net 0:ip0=192.0.2.4,ip1=pool,ip2=some-pool-name,network=network1 inst1")
    assert shell.ips("inst1") == [["192.0.2.4", "10.0.0.7", "10.0.1.8"]]
    shell.type(f"{add} --net 0:ip=pool,network1 inst2")
    assert shell.ips("inst2") == [["10.0.0.8"]]
    shell.type("gnt-instance modify --net -1:add,ip0=pool,ip1=1.2.3.4,network=test inst2")
    assert shell.ips("inst2") == [["10.0.0.8"], ["1.2.3.100", "1.2.3.4"]]
    shell.type("gnt-instance modify --net 1:modify,ip1=none inst2")
    assert shell.ips("inst2") == [["10.0.0.8"], ["1.2.3.100"]]
    shell.type(f"{add} --net 0:ip0=1.2.3.5,ip1=1.2.3.6,network=test inst3")
    shell.type("gnt-instance modify --net 0:modify,ip1=1.2.3.10 inst3")
    assert shell.ips("inst3") == [["1.2.3.5", "1.2.3.10"]]
    shell.remove("network1", "test")


@pytest.fixture(scope="module")
def opened() -> Iterator[test_segment_attributes.Door]:
    with test_segment_attributes.open_door() as door:
        yield door


@pytest.mark.promise("segments-48", "segments-49", "segments-52", "segments-53")
def test_ranges_are_displayed_as_the_document_shows_them(opened: test_segment_attributes.Door) -> None:
    key = opened.add(100, **RANGE, maximum=105)["id"]
    networks = [
        opened.api.say(
            "POST",
            "/v2.0/networks",
            {
                "network": {
                    "project_id": project,
                    "provider:network_type": "vlan",
                    "provider:physical_network": "physnet1",
                    "provider:segmentation_id": int(number),
                }
            },
            who="admin",
        )
        for number, project in USERS.items()
    ]
    assert [status for status, _ in networks] == [201, 201]
    expected = {
        "id": key,
        "default": False,
        **RANGE,
        "minimum": 100,
        "maximum": 105,
        "used": USERS,
        "available": [102, 103, 104, 105],
    }
    displayed = opened.show(key)
    (listed,) = [row for row in opened.rows() if row["id"] == key]
    for answer in (displayed, listed):
        assert {name: answer.get(name) for name in expected} == expected
    for _, answer in networks:
        network = answer["network"]
        assert isinstance(network, dict)
        assert opened.status("DELETE", f"/v2.0/networks/{network['id']}") == 204
    opened.clear()


@pytest.mark.promise("segments-54", "segments-55", "segments-57", "segments-59")
def test_a_range_is_created_changed_and_removed_by_the_requests_of_the_document(
    opened: test_segment_attributes.Door,
) -> None:
    created = opened.add(100, **RANGE, maximum=200)
    assert {name: created[name] for name in RANGE} == RANGE
    assert (created["minimum"], created["maximum"]) == (100, 200)
    changed = opened.put(created["id"], minimum=200, maximum=300)
    assert (changed["minimum"], changed["maximum"]) == (200, 300)
    assert changed["available"] == [*range(200, 301)]
    path = f"{RANGES}/{created['id']}"
    assert opened.api.say("DELETE", path, who="admin") == (204, {})
    assert opened.status("DELETE", path) == 404
