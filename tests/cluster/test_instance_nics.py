"""NICs of instances through the real commands: several addresses each, and what is changed of them afterwards."""

import json
import os
import subprocess
from collections.abc import Iterator

import pytest
from tests.cluster import lab

WEB, DB = "web.example", "db.example"
MODIFY = ("gnt-instance", "modify")


@pytest.fixture(scope="module")
def networks(shared: lab.Lab) -> Iterator[lab.Lab]:
    """Two networks: one with two subnets and pools of both families, one small."""
    shared.run(
        "gnt-network", "add", "--subnet", "cidr=10.30.0.0/24,gateway=10.30.0.1", "--subnet", "cidr=2001:db8:30::/64",
        "--pool", "10.30.0.10-10.30.0.200,name=low", "--pool", "10.30.0.220-10.30.0.223,name=few",
        "--pool", "2001:db8:30::10-2001:db8:30::ffff,name=six", "--add-reserved-ips", "10.30.0.5", "cable",
    )  # fmt: skip
    shared.run("gnt-network", "add", "--subnet", "cidr=10.31.0.0/24", "--pool", "10.31.0.10-10.31.0.12", "other")
    for name in ("cable", "other"):
        shared.run("gnt-network", "connect", "-N", "mode=routed,link=main", name, "default")
    yield shared
    for name in ("cable", "other"):
        shared.run("gnt-network", "disconnect", name, "default")
        shared.run("gnt-network", "remove", "-f", name)


@pytest.fixture
def cluster(networks: lab.Lab) -> Iterator[lab.Lab]:
    yield networks
    for (name,) in networks.rows("gnt-instance", "name"):
        if name in (WEB, DB) or name.startswith("many"):
            networks.run("gnt-instance", "remove", "-f", name)


def add(cluster: lab.Lab, *nets: str, name: str = WEB, more: tuple[str, ...] = ()) -> None:
    options = [word for net in nets for word in ("--net", net)] or ["--no-nics"]
    cluster.run("gnt-instance", "add", "-t", "diskless", "-n", "node1", *more, *options, name)


def addresses(cluster: lab.Lab, name: str = WEB) -> list[list[str]]:
    """Return the addresses of each NIC."""
    with cluster.luxi() as luxi:
        data = luxi.call("Query", "instance", ["nic.ips"], ["=", "name", name])["data"]
    assert isinstance(data, list)
    ips: list[list[str]] = data[0][0][1]
    return ips


def guest(cluster: lab.Lab, name: str = WEB) -> list[list[str]]:
    """Return the addresses of each NIC that the running guest is plugged in with."""
    file = cluster.master / "run/instances/fake" / name
    return [[address["ip"] for address in nic["addresses"]] for nic in json.loads(file.read_text())["nics"]]


def reserved(cluster: lab.Lab, network: str = "cable") -> int:
    return int(cluster.rows("gnt-network", "reserved_count", network)[0][0])


@pytest.mark.promise("networks-6", "networks-62")
def test_an_instance_gets_an_explicit_address_one_of_any_pool_and_one_of_a_named_pool(cluster: lab.Lab) -> None:
    add(cluster, "0:ip0=10.30.0.4,ip1=pool,ip2=few,network=cable")
    assert addresses(cluster) == [["10.30.0.4", "10.30.0.10", "10.30.0.220"]]
    assert guest(cluster) == addresses(cluster)


@pytest.mark.promise("networks-63")
def test_the_short_form_names_the_network_alone(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=pool,cable")
    assert addresses(cluster) == [["10.30.0.10"]]
    assert cluster.rows("gnt-instance", "nic.network.name/0", WEB) == [["cable"]]


@pytest.mark.promise("networks-82")
def test_ip_means_the_first_address(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=10.30.0.4,ip1=six,network=cable")
    assert addresses(cluster) == [["10.30.0.4", "2001:db8:30::10"]]
    cluster.run(*MODIFY, "--net", "0:ip=10.30.0.6", WEB)
    assert addresses(cluster) == [["10.30.0.6", "2001:db8:30::10"]]
    assert cluster.rows("gnt-instance", "ip", WEB) == [["10.30.0.6"]]


@pytest.mark.promise("networks-61", "networks-65")
def test_the_second_address_of_a_nic_is_changed_and_the_running_guest_follows(cluster: lab.Lab) -> None:
    add(cluster, "0:ip0=10.30.0.4,ip1=six,network=cable")
    done = cluster.run(*MODIFY, "--net", "0:modify,ip1=10.30.0.10", WEB)
    assert addresses(cluster) == guest(cluster) == [["10.30.0.4", "10.30.0.10"]]
    assert done.stdout.endswith(f"Modified instance {WEB}\n - nic.ip/0 -> 10.30.0.4,10.30.0.10\n")


@pytest.mark.promise("networks-66")
def test_a_nic_with_two_addresses_is_added_behind_the_others(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable")
    cluster.run(*MODIFY, "--net", "-1:add,ip0=pool,ip1=10.31.0.4,network=other", WEB)
    assert addresses(cluster) == guest(cluster) == [["10.30.0.10"], ["10.31.0.10", "10.31.0.4"]]
    assert "node1 has no bridge br0" in cluster.refused(*MODIFY, "--net", "add:mac=auto", WEB)
    cluster.run(*MODIFY, "--net", "add:mac=auto,mode=routed,link=main", WEB)
    assert addresses(cluster)[2] == []


@pytest.fixture
def bridges() -> Iterator[tuple[str, str]]:
    """Two bridges on this machine, which is all the nodes."""
    names = (f"gn{os.getpid() % 10**6}a", f"gn{os.getpid() % 10**6}b")
    codes = [subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=False).returncode for name in names]
    if any(codes):
        pytest.skip("bridges cannot be created here: that requires root, and a kernel with bridges")
    yield names
    for name in names:
        subprocess.run(["ip", "link", "delete", name], check=True)


@pytest.mark.promise("cluster-136")
def test_mac_and_bridge_of_a_nic_are_found_where_they_are_auto(cluster: lab.Lab, bridges: tuple[str, str]) -> None:
    usual, other = bridges
    cluster.run("gnt-cluster", "modify", "--defaults", f"bridge={usual}")
    try:
        add(cluster, "0:mac=auto,bridge=auto", "1:mac=auto", f"2:mac=aa:00:00:12:34:56,bridge={other}", "3:bridge=auto")
        ((macs, links, modes),) = cluster.rows("gnt-instance", "nic.macs,nic.links,nic.modes", WEB)
        assert links.split(",") == [usual, usual, other, usual]
        assert set(modes.split(",")) == {"bridged"}
        first, second, third, fourth = macs.split(",")
        assert third == "aa:00:00:12:34:56"
        assert len({first, second, third, fourth}) == 4
        assert all(mac.startswith("aa:00:00:") for mac in (first, second, fourth))
        cluster.run("gnt-instance", "remove", "-f", WEB)
    finally:
        cluster.run("gnt-cluster", "modify", "-f", "--defaults", "bridge=default")


@pytest.mark.promise("networks-67")
def test_none_takes_the_second_address_of_the_second_nic_away_and_frees_it(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable", "1:ip0=low,ip1=six,ip2=few,network=cable")
    before = reserved(cluster)
    cluster.run(*MODIFY, "--net", "1:modify,ip1=none", WEB)
    assert addresses(cluster) == guest(cluster) == [["10.30.0.10"], ["10.30.0.11", "10.30.0.220"]]
    assert reserved(cluster) == before - 1
    add(cluster, "0:ip=2001:db8:30::10,network=cable", name=DB)


@pytest.mark.promise("networks-72")
def test_what_is_stored_of_a_nic_is_a_list_of_addresses(cluster: lab.Lab) -> None:
    add(cluster, "0:ip0=low,ip1=six,network=cable")
    journal = b"".join(file.read_bytes() for file in sorted((cluster.master / "lib/journal").iterdir()))
    assert b'"ip":["10.30.0.10","2001:db8:30::10"]' in journal


@pytest.mark.promise("cluster-141")
def test_a_removed_nic_gives_its_addresses_back_and_leaves_the_guest(cluster: lab.Lab) -> None:
    before = reserved(cluster)
    add(cluster, "0:ip=low,network=cable", "1:ip0=low,ip1=six,network=cable")
    cluster.run(*MODIFY, "--net", "remove", WEB)
    assert addresses(cluster) == guest(cluster) == [["10.30.0.10"]]
    assert reserved(cluster) == before + 1


def test_several_changes_are_done_in_order_and_an_address_may_move_between_nics(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=10.30.0.4,network=cable,name=front", "1:ip=low,network=cable")
    changes = ("front:remove", "0:modify,ip1=10.30.0.4", "0:add,ip=few,network=cable,name=back")
    cluster.run(*MODIFY, *(word for change in changes for word in ("--net", change)), WEB)
    assert addresses(cluster) == [["10.30.0.220"], ["10.30.0.10", "10.30.0.4"]]
    assert sorted(guest(cluster)) == sorted(addresses(cluster))


def test_another_network_frees_the_addresses_of_the_old_one(cluster: lab.Lab) -> None:
    before = reserved(cluster)
    add(cluster, "0:ip0=low,ip1=six,network=cable")
    cluster.run(*MODIFY, "--net", "0:modify,network=other,ip=pool", WEB)
    assert addresses(cluster) == guest(cluster) == [["10.31.0.10"]]
    assert reserved(cluster) == before
    cluster.run(*MODIFY, "--net", "0:modify,network=none,mode=routed,link=back,ip=203.0.113.77", WEB)
    assert addresses(cluster) == guest(cluster) == [["203.0.113.77"]]
    assert cluster.rows("gnt-instance", "nic.link/0,nic.network.name/0", WEB) == [["back", "-"]]


def test_the_older_and_the_newer_form_of_the_opcode_are_understood(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable,name=front")
    (uuid,) = cluster.rows("gnt-instance", "nic.uuid/0", WEB)[0]
    nic = {"network": "cable"}
    forms: list[list[object]] = [
        ["add", {**nic, "ip": "10.30.0.40"}],
        ["add", -1, {**nic, "ip": ["10.30.0.41", "pool6"]}],
        [0, {"ip": "10.30.0.42"}],
        ["modify", "front", {"ip": {"1": "10.30.0.43"}}],
        ["modify", uuid, {"name": "rear"}],
        ["modify", -1, {"ip": ["10.30.0.44"]}],
        ["remove", 1, {}],
    ]
    op = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": WEB, "nics": forms, "hotplug_if_possible": True}
    with cluster.luxi() as luxi:
        status, results, *_ = luxi.finished(luxi.value("SubmitJob", [op]))
    assert status == "success", results
    assert addresses(cluster) == [["10.30.0.42", "10.30.0.43"], ["10.30.0.44"]]
    assert isinstance(results, list)
    report = dict(results[0])
    assert report["nic/1"] == "remove"
    assert report["nic.name/0"] == "rear"
    assert cluster.rows("gnt-instance", "nic.name/0", WEB) == [["rear"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("0:modify,ip1=10.30.0.10", "10.30.0.10 in network cable is in use by instance web.example"),
        ("0:modify,ip1=10.31.0.10", "address 10.31.0.10 is outside every subnet of network cable"),
        (
            "0:modify,ip1=10.30.0.5",
            "address 10.30.0.5 of network cable is reserved externally; allocate it with --force",
        ),
        ("0:modify,ip1=nopool", "network cable has no pool nopool"),
        ("0:modify,ip2=pool", "NIC 0 has 1 addresses, there is no ip2"),
        ("0:modify,ip1=none", "NIC 0 has 1 addresses, there is no ip1"),
        ("0:modify,link=br9", "link cannot be set with network cable"),
        ("0:modify,network=nowhere", "no such network: nowhere"),
        ("0:modify,network=other,ip=10.30.0.10", "outside every subnet of network other"),
        ("0:modify,network=none,ip=10.30.0.99", "address 10.30.0.99 belongs to network cable"),
        ("0:modify,mac=zz", "MAC address zz is not valid"),
        ("0:remove,ip=pool", "remove does not take values"),
        ("0:modify", "no value to modify"),
        ("0:add,remove", "add and remove exclude each other"),
        ("0:colour=red", "--net: the NIC: unknown key colour"),
        ("ip=pool", "the value names neither a NIC nor an action"),
        ("9:modify,ip=pool", "the instance has no NIC 9"),
        ("nobody:remove", "the instance has no NICs named nobody"),
        ("9:add,ip=pool,network=cable", "a NIC cannot be added at index '9'"),
    ],
)
def test_changes_that_are_refused_change_nothing(cluster: lab.Lab, change: str, message: str) -> None:
    add(cluster, "0:ip=low,network=cable")
    fields = "serial_no,nic.ips,nic.macs,nic.names,nic.networks,nic.links"
    before = cluster.rows("gnt-instance", fields, WEB), guest(cluster)
    assert message in cluster.refused(*MODIFY, "--net", change, WEB)
    assert (cluster.rows("gnt-instance", fields, WEB), guest(cluster)) == before


def test_an_externally_reserved_address_is_given_with_force_and_then_stays_without(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable")
    cluster.run(*MODIFY, "--force", "--net", "0:modify,ip0=10.30.0.5", WEB)
    cluster.run(*MODIFY, "--net", "0:modify,ip1=six", WEB)
    assert addresses(cluster) == [["10.30.0.5", "2001:db8:30::10"]]


def test_parameters_are_set_and_taken_back_and_hold_from_the_next_start(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable", more=("-B", "memory=16"))
    done = cluster.run(*MODIFY, "-B", "memory=32,vcpus=2", "-H", "migration_mode=non-live", "-O", "mirror=x", WEB)
    assert "its new parameters take effect at its next start" in done.stdout
    assert " - be/vcpus -> 2\n" in done.stdout
    assert " - hv/migration_mode -> non-live\n" in done.stdout
    assert " - os/mirror -> x\n" in done.stdout
    fields = "be/memory,be/vcpus,hv/migration_mode"
    assert cluster.rows("gnt-instance", fields, WEB) == [["32", "2", "non-live"]]
    cluster.run(*MODIFY, "-B", "vcpus=default", "-H", "migration_mode=default", "-O", "-mirror", WEB)
    assert cluster.rows("gnt-instance", fields, WEB) == [["32", "1", "live"]]
    assert "at least one of the parameters" in cluster.refused(*MODIFY, WEB)
    assert "unknown backend parameter colour" in cluster.refused(*MODIFY, "-B", "colour=red", WEB)


def test_without_hotplug_the_guest_changes_with_its_next_start(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable")
    done = cluster.run(*MODIFY, "--no-hotplug", "--net", "add:ip=low,network=cable", "--net", "0:ip1=six", WEB)
    assert "its NIC changes take effect at its next start" in done.stdout
    assert guest(cluster) == [["10.30.0.10"]]
    assert addresses(cluster) == [["10.30.0.10", "2001:db8:30::10"], ["10.30.0.11"]]
    done = cluster.run(*MODIFY, "--net", "1:ip1=six", WEB)
    assert "NIC 1 is not plugged in: the change takes effect at the next start" in done.stdout
    cluster.run("gnt-instance", "reboot", "-t", "full", WEB)
    assert guest(cluster) == addresses(cluster)


def test_a_stopped_instance_is_changed_without_its_node(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable", more=("--no-start",))
    done = cluster.run(*MODIFY, "--net", "0:ip1=pool6", "--net", "0:mac=aa:00:00:77:00:01", WEB)
    assert "plug" not in done.stdout
    assert cluster.rows("gnt-instance", "nic.ip/0,nic.mac/0", WEB) == [
        ["10.30.0.10,2001:db8:30::10", "aa:00:00:77:00:01"]
    ]


def test_a_dry_run_shows_the_changes_and_the_steps(cluster: lab.Lab) -> None:
    add(cluster, "0:ip=low,network=cable")
    output = cluster.run(*MODIFY, "--dry-run", "--net", "add:ip=low,network=cable", "--net", "0:mac=auto", WEB).stdout
    assert "nic/1: add:mac=" in output
    assert "ip=10.30.0.11" in output
    assert "unplug NIC 0" in output
    assert addresses(cluster) == guest(cluster) == [["10.30.0.10"]]


@pytest.mark.promise("networks-6", "networks-11")
def test_jobs_side_by_side_never_give_an_address_twice(cluster: lab.Lab) -> None:
    names = [f"many{number}.example" for number in range(6)]
    nets = [{"ip": ["low"], "network": "cable"} for _ in range(5)]
    create = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": "node1", "nics": nets}
    with cluster.luxi() as luxi:
        _all_succeed(luxi, [{**create, "instance_name": name} for name in names])
        jobs: list[dict[str, object]] = [
            {
                "OP_ID": "OP_INSTANCE_SET_PARAMS",
                "instance_name": name,
                "nics": [["modify", nic, {"ip": {"1": "pool", "2": "six"}}]],
            }
            for nic in range(5)
            for name in names
        ]
        _all_succeed(luxi, jobs)
    nics = [nic for name in names for nic in addresses(cluster, name)]
    assert [len(nic) for nic in nics] == [3] * 30
    ips = [ip for nic in nics for ip in nic]
    assert len(set(ips)) == len(ips) == 90
    for name in names:
        assert guest(cluster, name)
        assert sorted(guest(cluster, name)) == sorted(addresses(cluster, name))


def _all_succeed(luxi: lab.Luxi, ops: list[dict[str, object]]) -> None:
    submitted = luxi.value("SubmitManyJobs", [[op] for op in ops])
    assert isinstance(submitted, list)
    for good, number in submitted:
        assert good, number
        status, results, *_ = luxi.finished(number)
        assert status == "success", results


@pytest.mark.promise("cluster-5")
@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_an_instance_has_as_many_nics_as_it_was_given(shared: lab.Lab, count: int) -> None:
    words = [word for index in range(count) for word in ("--net", f"{index}:mode=routed,link=main")] or ["--no-nics"]
    name = f"many{count}.example"
    shared.run("gnt-instance", "add", "-t", "diskless", "-n", "node1", *words, name)
    try:
        assert shared.rows("gnt-instance", "nic.count,status", name) == [[str(count), "running"]]
        with shared.luxi() as luxi:
            rows = luxi.value("QueryInstances", [name], ["nic.macs"], False)
        assert isinstance(rows, list)
        assert len(set(rows[0][0])) == count
    finally:
        shared.run("gnt-instance", "remove", "-f", name)


def test_a_ninth_nic_is_refused(shared: lab.Lab) -> None:
    words = [word for index in range(9) for word in ("--net", f"{index}:mode=routed,link=main")]
    assert "8" in shared.refused("gnt-instance", "add", "-t", "diskless", "-n", "node1", *words, "nine.example")
