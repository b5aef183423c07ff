"""Requests that must be refused: one clear message, the expected exit code, and nothing changed.

See contracts/commands.md#exit-codes.
"""

import contextlib
from collections.abc import Iterator

import pytest
from tests.cluster import lab

ADD = ("gnt-instance", "add")


@contextlib.contextmanager
def unchanged(cluster: lab.Lab) -> Iterator[None]:
    """Compare every object of the configuration, field by field, before and after."""
    before = _everything(cluster)
    yield
    assert _everything(cluster) == before


def _everything(cluster: lab.Lab) -> list[object]:
    request = {
        "instance": ["name", "uuid", "serial_no", "nic.ips", "nic.macs", "admin_state"],
        "network": ["name", "uuid", "serial_no", "free_count", "subnets"],
        "node": ["name", "uuid", "serial_no"],
        "group": ["name", "serial_no"],
    }
    with cluster.luxi() as luxi:
        return [luxi.call("Query", what, fields, None)["data"] for what, fields in request.items()]


def arguments(*more: str, nics: str = "ip0=lan4,network=net1", name: str = "refused.example") -> list[object]:
    return [*ADD, *lab.instance_arguments(*more, nics=nics), name]


@pytest.fixture(scope="module")
def cluster(shared: lab.Lab) -> Iterator[lab.Lab]:
    """A network of its own: two addresses in the pool, one of them used, one reserved externally."""
    shared.run(
        "gnt-network", "add", "--subnet", "cidr=198.51.100.0/24,gateway=198.51.100.1",
        "--pool", "198.51.100.10-198.51.100.11,name=two", "--add-reserved-ips", "198.51.100.50", "small",
    )  # fmt: skip
    shared.run("gnt-network", "connect", "-N", "mode=routed,link=main", "small", "default")
    shared.add_instance("first.example", nics="ip=two,network=small")
    yield shared
    shared.run("gnt-instance", "remove", "-f", "first.example")


@pytest.mark.parametrize(
    ("nics", "message"),
    [
        ("ip=pool,network=nowhere", "no such network: nowhere"),
        ("ip=nopool,network=small", "network small has no pool nopool"),
        ("ip=10.9.9.9,network=small", "address 10.9.9.9 is outside every subnet of network small (198.51.100.0/24)"),
        (
            "ip=198.51.100.10,network=small",
            "198.51.100.10 in network small is in use by instance first.example",
        ),
        (
            "ip=198.51.100.50,network=small",
            "address 198.51.100.50 of network small is reserved externally; allocate it with --force",
        ),
        ("ip=198.51.100.1,network=small", "198.51.100.1 is the gateway of the subnet 198.51.100.0/24"),
        ("ip=198.51.100.255,network=small", "198.51.100.255 is the last address of the subnet"),
        ("ip0=two,ip1=two,network=small", "pool two of network small is full"),
        (
            "ip0=198.51.100.60,ip1=198.51.100.60,network=small",
            "address 198.51.100.60 of network small is requested twice",
        ),
        ("ip=198.51.100.999,network=small", "198.51.100.999"),
        ("ip=198.51.100.60", "address 198.51.100.60 belongs to network"),
        ("ip=pool", "ip=pool needs a network"),
        ("mode=routed,network=small", "mode cannot be set with network small"),
        ("mac=zz:00,network=small", "MAC address zz:00 is not valid"),
    ],
)
def test_addresses_that_cannot_be_allocated(cluster: lab.Lab, nics: str, message: str) -> None:
    with unchanged(cluster):
        assert message in cluster.refused(*arguments(nics=nics))


@pytest.mark.promise("networks-16")
def test_an_externally_reserved_address_is_given_only_with_force(cluster: lab.Lab) -> None:
    nics = "ip=198.51.100.50,network=small"
    with unchanged(cluster):
        cluster.refused(*arguments(nics=nics))
    cluster.run(*arguments("--force", nics=nics, name="forced.example"))
    assert cluster.rows("gnt-instance", "nic.ips", "forced.example") == [["198.51.100.50"]]
    cluster.run("gnt-instance", "remove", "-f", "forced.example")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "minix"], "no OS definition minix"),
        (["-n", "node9"], "no such node: node9"),
        (["-t", "plain"], "disk template plain is not enabled"),
        (["-B", "memory=lots"], "lots"),
        (["-B", "memory=99999999"], "MiB of memory, "),
        (["-B", "colour=red"], "unknown backend parameter colour"),
        (["-H", "fake:colour=red"], "unknown fake hypervisor parameter colour"),
        (["-H", "kvm:acpi=true"], "hypervisor kvm is not enabled"),
    ],
)
def test_instances_that_cannot_be_created(cluster: lab.Lab, options: list[str], message: str) -> None:
    with unchanged(cluster):
        assert message in cluster.refused(*arguments(*options))


@pytest.mark.parametrize(
    ("size", "message"),
    [("0", "above 0"), ("-5", "-5"), ("900t", "MiB of disk space, "), ("many", "many"), ("", "size")],
)
def test_disks_that_cannot_be_created(cluster: lab.Lab, size: str, message: str) -> None:
    with unchanged(cluster):
        assert message in cluster.refused(*ADD, *lab.instance_arguments(size=size), "refused.example")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"disks": [{"size": 0}]}, "disk 0: size 0 is not above 0 MiB"),
        ({"disks": [{"size": -4}]}, "disk 0: size -4 is not above 0 MiB"),
        ({"disks": [{"size": "x"}]}, "disk size 'x' is not valid"),
        ({"disks": []}, "disk template file needs at least one disk"),
        ({"disk_template": "diskless"}, "a diskless instance cannot have disks"),
        ({"os_type": None}, "no operating system was specified"),
        ({"nics": [{"ip": ["192.0.2.300"], "network": "small"}]}, "192.0.2.300"),
        ({"nics": [{"mac": "aa:00:00:00:00"}]}, "MAC address aa:00:00:00:00 is not valid"),
    ],
)
def test_the_master_refuses_what_a_command_would_not_have_sent(
    cluster: lab.Lab, fields: dict[str, object], message: str
) -> None:
    create = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "refused.example", "os_type": "plain", "pnode": "node1"}
    with unchanged(cluster), cluster.luxi() as luxi:
        number = luxi.value("SubmitJob", [{**create, "disks": [{"size": 16}], **fields}])
        assert message in str(luxi.finished(number))


def test_a_name_cannot_be_taken_twice(cluster: lab.Lab) -> None:
    with unchanged(cluster):
        assert "instance first.example exists already" in cluster.refused(*arguments(name="first.example"))
        assert "network small exists already" in cluster.refused("gnt-network", "add", "small")
        node = cluster.nodes[1]
        args = ["--primary-ip", "127.0.0.1", "--port", "9", "--join-token", "{}", node.name]
        assert "node node2 is already part of the cluster" in cluster.refused("gnt-node", "add", *args)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--subnet", "cidr=192.0.2.5/24"], "192.0.2.0/24"),
        (["--subnet", "cidr=192.0.2.0/33"], "192.0.2.0/33"),
        (["--subnet", "cidr=192.0.2.0/24", "--subnet", "cidr=192.0.2.128/25"], "overlap"),
        (["--subnet", "cidr=192.0.2.0/24,gateway=2001:db8::1"], "has another IP version than its subnet"),
        (["--pool", "192.0.2.1-192.0.2.9"], "outside every subnet"),
        (["--subnet", "cidr=192.0.2.0/24", "--pool", "192.0.2.9-192.0.2.1"], "192.0.2.9-192.0.2.1"),
        (
            ["--subnet", "cidr=192.0.2.0/24", "--pool", "192.0.2.1-192.0.2.9", "--pool", "192.0.2.9-192.0.2.12"],
            "overlaps",
        ),
        (["--subnet", "cidr=192.0.2.0/24", "--add-reserved-ips", "192.0.3.1"], "outside every subnet"),
        (["-m", "01:00:00"], "multicast"),
    ],
)
def test_networks_that_cannot_be_created(cluster: lab.Lab, options: list[str], message: str) -> None:
    with unchanged(cluster):
        assert message in cluster.refused("gnt-network", "add", *options, "bad")


def test_a_network_in_use_is_neither_disconnected_nor_removed(cluster: lab.Lab) -> None:
    with unchanged(cluster):
        assert "in use in node group default by instance first.example" in cluster.refused(
            "gnt-network", "disconnect", "small", "default"
        )
        assert "is connected to node group default" in cluster.refused("gnt-network", "remove", "-f", "small")


def test_a_node_that_is_needed_is_not_removed(cluster: lab.Lab) -> None:
    with unchanged(cluster):
        assert "node node1 is the master" in cluster.refused("gnt-node", "remove", "node1")


def test_a_machine_with_a_wrong_token_is_not_added(cluster: lab.Lab) -> None:
    other = cluster.nodes[1]
    with unchanged(cluster):
        where = ["--primary-ip", "127.0.0.1", "--port", other.port + 1]
        assert "give the node's join token" in cluster.refused("gnt-node", "add", *where, "--join-token", "", "node7")
        assert "this is not a join token" in cluster.refused("gnt-node", "add", *where, "--join-token", "x", "node7")


@pytest.mark.parametrize("program", ["gnt-instance", "gnt-node", "gnt-network", "gnt-job"])
def test_an_unknown_name_fails_and_an_unknown_field_has_its_own_exit_code(cluster: lab.Lab, program: str) -> None:
    name = "999999" if program == "gnt-job" else "nobody"
    assert name in cluster.refused(program, "list", name)
    assert "nofield" in cluster.refused(program, "list", "-o", "nofield", code=14)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(cluster: lab.Lab) -> None:
    with unchanged(cluster):
        message = cluster.run(*arguments("--dry-run", nics="ip=two,network=small", name="dry.example")).stdout
        assert "198.51.100.11" in message
        assert "create disk 0 of 16 MiB" in message
