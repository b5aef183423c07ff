"""Addresses that are free and not yet for others: after the hold time only, and not while a guest still uses them."""

import re
from collections.abc import Iterator

import pytest
import yaml
from tests.cluster import lab

MODIFY = ("gnt-instance", "modify", "--no-hotplug")


def add(cluster: lab.Lab, name: str, ips: str, *more: str) -> None:
    where = ("-t", "diskless", "-n", "node1", "--net", f"0:{ips},network=net1")
    cluster.run("gnt-instance", "add", *where, *more, name)


def addresses(cluster: lab.Lab, name: str) -> str:
    return cluster.rows("gnt-instance", "nic.ips", name)[0][0]


def restart_master(cluster: lab.Lab) -> None:
    cluster.kill_master()
    cluster.start_master()


@pytest.fixture
def patient() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init("--ipam-hold-time", "7000")
        cluster_lab.add_network()
        yield cluster_lab


def test_an_address_rests_after_its_release_and_a_new_master_knows_it(patient: lab.Lab) -> None:
    add(patient, "a.example", "ip0=lan4,ip1=lan6")
    patient.run("gnt-instance", "remove", "-f", "a.example")
    restart_master(patient)
    assert patient.rows("gnt-network", "free_count") == [[str(3 + 65520 - 1)]]
    add(patient, "b.example", "ip0=lan4,ip1=lan6")
    assert addresses(patient, "b.example") == "192.0.2.11/2001:db8::11"
    output = patient.refused(*("gnt-instance", "modify", "--net", "0:modify,ip0=192.0.2.10", "b.example"))
    assert "192.0.2.10 of network net1 was released by instance a.example and is in quarantine for another" in output
    patient.run("gnt-instance", "modify", "--force", "--net", "0:modify,ip0=192.0.2.10", "b.example")
    patient.run("gnt-instance", "modify", "--net", "0:modify,ip0=192.0.2.11", "b.example")
    assert addresses(patient, "b.example") == "192.0.2.11/2001:db8::11"
    drawn = patient.run("gnt-network", "map", "--pool", "lan4", "net1").stdout
    assert "  192.0.2.10  HX.." in drawn
    assert re.search(r"\n  192\.0\.2\.10 quarantined until 2\S+ \S+, was instance b\.example\n", drawn)
    (info,) = yaml.safe_load(patient.run("gnt-network", "info", "net1").stdout)
    assert re.fullmatch(r"until 2\S+ \S+, was instance b\.example", info["in quarantine"]["192.0.2.10"])
    ((used, count, quarantine),) = patient.rows("gnt-network", "used_count,quarantined_count,quarantine", "net1")
    assert (used, count) == ("2", "2")
    assert "192.0.2.10 (instance b.example)" in quarantine


@pytest.mark.slow
def test_without_hotplug_an_address_is_the_guests_until_it_has_stopped_over_a_new_master(own: lab.Lab) -> None:
    add(own, "a.example", "ip0=192.0.2.10,ip1=192.0.2.11,ip2=192.0.2.12")
    output = own.run(*MODIFY, "--net", "0:modify,ip0=192.0.2.13,ip2=none", "a.example").stdout
    assert "the guest of a.example still uses 192.0.2.10, 192.0.2.12: kept for it until the instance stops" in output
    restart_master(own)
    refused = own.refused("gnt-instance", "add", *lab.instance_arguments(nics="ip=lan4,network=net1"), "b.example")
    assert "pool lan4 of network net1 is full: 192.0.2.10-192.0.2.13 (lan4)" in refused
    refused = own.refused(
        "gnt-instance", "add", "--force", *lab.instance_arguments(nics="ip=192.0.2.12,network=net1"), "b.example"
    )
    assert "192.0.2.12 in network net1 was taken from instance a.example, whose guest still uses it" in refused
    assert "192.0.2.12" in own.refused(
        "gnt-network", "modify", "--subnet", "192.0.2.0/24:modify,cidr=192.0.2.8/30", "net1"
    )
    info = own.run("gnt-network", "info", "net1").stdout
    assert "192.0.2.10: a.example, its running guest, until that stops" in info
    own.run(*MODIFY, "--net", "0:modify,ip2=192.0.2.12", "a.example")
    own.run("gnt-instance", "reboot", "-t", "soft", "a.example")
    refused = own.refused(
        "gnt-instance", "add", *lab.instance_arguments(nics="ip=192.0.2.10,network=net1"), "b.example"
    )
    assert "whose guest still uses it" in refused
    own.run("gnt-instance", "stop", "a.example")
    add(own, "b.example", "ip=lan4")
    assert addresses(own, "b.example") == "192.0.2.10"


@pytest.mark.parametrize("change", ["reboot", "hotplug", "start"])
@pytest.mark.slow
def test_a_changed_or_restarted_guest_releases_its_address(own: lab.Lab, change: str) -> None:
    add(own, "a.example", "ip=lan4")
    own.run(*MODIFY, "--net", "0:modify,ip=192.0.2.13", "a.example")
    if change == "reboot":
        own.run("gnt-instance", "reboot", "-t", "full", "a.example")
    elif change == "hotplug":
        own.run("gnt-instance", "modify", "--net", "0:modify,ip1=lan6", "a.example")
    else:
        (own.master / "run/instances/fake/a.example").unlink()
        own.run("gnt-instance", "start", "a.example")
    add(own, "b.example", "ip=lan4")
    assert addresses(own, "b.example") == "192.0.2.10"


@pytest.mark.slow
def test_a_removed_nic_keeps_its_addresses_from_others_while_the_guest_has_it(own: lab.Lab) -> None:
    add(own, "a.example", "ip=lan4")
    own.run(*MODIFY, "--net", "0:remove", "a.example")
    assert own.rows("gnt-network", "inst_list") == [["a.example"]]
    add(own, "b.example", "ip=lan4")
    assert addresses(own, "b.example") == "192.0.2.11"
    own.run("gnt-instance", "remove", "-f", "a.example")
    add(own, "c.example", "ip=lan4")
    assert addresses(own, "c.example") == "192.0.2.10"
