"""What a cluster tells of its addresses: who had them, how they are used, and what goes in and out as files."""

import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.cluster import lab

FOUR = "ip0=lan4,network=net1"
_numbers = itertools.count(1)


@pytest.fixture
def network(shared: lab.Lab) -> "RecordedNetwork":
    return RecordedNetwork(shared, f"n{next(_numbers)}")


@dataclass
class RecordedNetwork:
    """A network of its own on the cluster that the tests share; instances and files have its name in front."""

    cluster: lab.Lab
    net: str

    def __post_init__(self) -> None:
        self.cluster.add_network(self.net)

    def add(self, name: str, *more: object, ip: str = "ip0=lan4") -> str:
        full = f"{self.net}-{name}.example"
        self.cluster.add_instance(full, *more, nics=f"{ip},network={self.net}")
        return full

    def remove(self, full: str, *more: object) -> None:
        self.cluster.run("gnt-instance", "remove", "-f", *more, full)

    def file(self, name: str) -> Path:
        return self.cluster.folder / f"{self.net}-{name}"

    def command(self, name: str, *words: object) -> str:
        """Run a command about the network; return what it printed."""
        return self.cluster.run("gnt-network", name, *words).stdout

    def reserved(self, net: str = "") -> str:
        ((text,),) = self.cluster.rows("gnt-network", "external_reservations", net or self.net)
        return text


@pytest.fixture
def strict() -> Iterator[lab.Lab]:
    """A cluster that warns from 50 percent on and complains from 75."""
    with lab.lab() as cluster_lab:
        first = cluster_lab.add_machine()
        cluster_lab.run(
            "gnt-cluster", "init", "--enabled-hypervisors", "fake", "--enabled-disk-templates", "file,diskless",
            "--primary-ip", "127.0.0.1", "--port", first.port, "--node-name", first.name,
            "--network-thresholds", "50,75", "lab.example",
        )  # fmt: skip
        cluster_lab.add_network()
        yield cluster_lab


def history(cluster: lab.Lab, *words: object) -> list[dict[str, object]]:
    fields = "address,instance,from,to,job,opcode,user,reason,end_job,end_opcode,end_reason"
    done = cluster.run("gnt-network", "history", "--format", "json", "-o", fields, *words)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


def holders(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["instance"], row["end_opcode"]) for row in rows]


def test_the_history_has_the_past_owners_of_an_address_with_their_jobs(network: RecordedNetwork) -> None:
    web1 = network.add("web1", "--reason", "order 5")
    before = time.time()
    network.remove(web1, "--reason", "order 6")
    web2 = network.add("web2")
    rows = history(network.cluster, "--address", "192.0.2.10", network.net)
    assert holders(rows) == [(web1, "OP_INSTANCE_REMOVE"), (web2, None)]
    first, second = rows
    assert (first["opcode"], first["user"], first["reason"]) == ("OP_INSTANCE_CREATE", "gnt:user", "order 5; add")
    assert first["end_reason"] == "order 6; remove"
    jobs = dict(network.cluster.rows("gnt-job", "id,summary"))
    assert jobs[str(first["job"])] == f"INSTANCE_CREATE({web1})"
    assert jobs[str(first["end_job"])] == f"INSTANCE_REMOVE({web1})"
    assert jobs[str(second["job"])] == f"INSTANCE_CREATE({web2})"
    assert [row["instance"] for row in history(network.cluster, "--at", before, network.net)] == [web1]
    assert [row["instance"] for row in history(network.cluster, "--at", "-0s", network.net)] == [web2]
    early = network.cluster.run("gnt-network", "history", "--at", "-1d", network.net)
    assert early.stderr.startswith("There are no records of that time")


@pytest.mark.slow
def test_the_history_outlives_the_master_and_its_checkpoints(own: lab.Lab) -> None:
    own.add_instance("web1.example", nics=FOUR)
    own.run("gnt-instance", "remove", "-f", "web1.example")
    known = history(own, "net1")
    for _ in range(2):
        own.close_daemons()
        own.nodes[0].start()
        own.start_master()
    assert len(list((own.master / "lib/journal").iterdir())) > 1
    own.kill_master()
    own.start_master()
    assert history(own, "net1") == known
    assert holders(known) == [("web1.example", "OP_INSTANCE_REMOVE")]


def test_addresses_of_a_failed_job_are_recorded_with_their_end(network: RecordedNetwork) -> None:
    words = lab.instance_arguments(nics=f"ip0=lan4,network={network.net}")
    broken = network.cluster.master / "srv/os/broken"
    shutil.copytree(network.cluster.master / "srv/os/plain", broken, dirs_exist_ok=True)
    (broken / "create").write_text("#!/bin/sh\nexit 1\n")
    network.cluster.refused("gnt-instance", "add", *words, "-o", "broken", f"{network.net}-bad.example")
    (row,) = history(network.cluster, network.net)
    assert row["instance"] == f"{network.net}-bad.example"
    assert row["job"] == row["end_job"]


def test_a_network_is_shown_as_it_was(network: RecordedNetwork) -> None:
    name = network.add("web1", ip="ip0=lan4,ip1=lan6")
    moment = time.time()
    network.remove(name)
    network.command("disconnect", network.net)
    network.command("remove", network.net)
    (then,) = yaml.safe_load(network.command("info", "--at", moment, network.net))
    assert [subnet["cidr"] for subnet in then["Subnets"]] == ["192.0.2.0/24", "2001:db8::/64"]
    assert then["used by 1 instances"] == {name: ["192.0.2.10", "2001:db8::10"]}
    output = network.cluster.refused("gnt-network", "info", "--at", "-0s", network.net)
    assert f"network {network.net} did not exist at" in output
    assert holders(history(network.cluster, network.net)) == [(name, "OP_INSTANCE_REMOVE")] * 2
    assert "no such network: net9" in network.cluster.refused("gnt-network", "history", "net9")


def test_a_map_shows_what_is_free(network: RecordedNetwork) -> None:
    network.add("web1", ip="ip0=lan4,ip1=lan6")
    text = network.command("map", network.net)
    assert "pool lan4 192.0.2.10-192.0.2.13 of subnet 192.0.2.0/24: 4 addresses, 3 free, 25 % in use\n" in text
    assert "\n  192.0.2.10  X...\n" in text
    assert re.search(r"^  2001:db8::10 +1  X in use$", text, re.MULTILINE)
    assert network.command("map", "--pool", "lan4", network.net).count("pool ") == 1


def verified(cluster: lab.Lab, *words: str) -> subprocess.CompletedProcess[str]:
    """Verify the cluster, once its nodes have the files that follow a change."""
    completed: list[subprocess.CompletedProcess[str]] = []

    def settled() -> bool:
        completed.append(cluster.run("gnt-cluster", "verify", *words, check=False))
        return "is out of date" not in completed[-1].stdout

    lab.wait_until(settled, "the files of the nodes")
    return completed[-1]


def test_a_full_network_is_warned_of_and_then_an_error(strict: lab.Lab) -> None:
    strict.add_instance("i1.example", nics=FOUR)
    assert "ENETWORKPOOL" not in verified(strict).stdout
    strict.add_instance("i2.example", nics=FOUR)
    warned = verified(strict, "--error-codes")
    assert warned.returncode == 0
    assert "  - WARNING:ENETWORKPOOL:network:net1: its pools are 50 % in use, the threshold is 50 %" in warned.stdout
    strict.add_instance("i3.example", nics=FOUR)
    failed = verified(strict)
    assert failed.returncode == 1
    assert "  - ERROR: network net1: its pools are 75 % in use, the threshold is 75 %" in failed.stdout
    assert strict.rows("gnt-network", "name,utilization") == [["net1", "75.0"]]
    subnets = json.loads(strict.run("gnt-network", "list", "-o", "subnets", "--format", "json").stdout)[0]["subnets"]
    assert [pool["utilization"] for subnet in subnets for pool in subnet["pools"]] == [75.0, 0.0]


def test_what_one_network_exports_another_imports(network: RecordedNetwork) -> None:
    network.add("web1", ip="ip0=lan4,ip1=lan6")
    path, twin = network.file("out.csv"), f"{network.net}-twin"
    network.command("export-reservations", network.net, path)
    again = network.command("import-reservations", network.net, path)
    assert again == "0 addresses reserved; skipped: 0 reserved externally already, 2 in use, 1 gateways\n"
    network.command("add", "--subnet", "cidr=192.0.2.0/25,pool", "--subnet", "cidr=2001:db8::/64", twin)
    dry = network.command("import-reservations", "--dry-run", twin, path)
    assert "192.0.2.10" in dry
    assert network.reserved(twin) == "-"
    assert network.command("import-reservations", twin, path).startswith("3 addresses reserved;")
    assert network.reserved(twin) == "192.0.2.1, 192.0.2.10, 2001:db8::10"
    once_more = network.command("import-reservations", twin, path)
    assert once_more.startswith("0 addresses reserved; skipped: 3 reserved externally already")


def test_a_wrong_line_of_an_import_changes_nothing(network: RecordedNetwork) -> None:
    path = network.file("in.csv")
    path.write_text("192.0.2.50,fine\n192.0.2.300,typed wrongly\n")
    output = network.cluster.refused("gnt-network", "import-reservations", network.net, path)
    assert f"{path}, line 2: " in output
    assert network.reserved() == "-"


def test_dhcp_files_have_the_addresses_of_the_instances(network: RecordedNetwork) -> None:
    lan = f"{network.net}-lan"
    network.command(
        "add", "--subnet", "cidr=198.51.100.0/24,gateway=198.51.100.1,dhcp=true,pool",
        "--subnet", "cidr=2001:db8:5::/64,dhcp=true,pool", lan,
    )  # fmt: skip
    network.command("connect", "-N", "mode=routed,link=main", lan, "default")
    name = f"{lan}.example"
    network.cluster.add_instance(name, nics=f"ip0=pool4,ip1=pool6,network={lan}")
    ((mac, addresses),) = network.cluster.rows("gnt-instance", "mac,nic.ips", name)
    four, six = addresses.split("/")
    path = network.file("lan.conf")
    network.command("dhcp", "--for", "dnsmasq", "--output", path, lan)
    assert f"dhcp-host={mac},{four},[{six}],{name}\n" in path.read_text()
    _check(["dnsmasq", "--test", "-C"], path)
    for family in ("4", "6"):
        path = network.file(f"kea{family}.json")
        network.command("dhcp", "--for", "kea", "--family", family, "--output", path, lan)
        assert mac in path.read_text()
        _check([f"kea-dhcp{family}", "-t"], path)


def _check(words: list[str], path: Path) -> None:
    program = shutil.which(words[0], path="/usr/sbin:/usr/bin:/sbin:/bin")
    if program:
        subprocess.run([program, *words[1:], path], capture_output=True, check=True)


def test_the_master_answers_while_it_reads_a_long_journal(network: RecordedNetwork) -> None:
    with network.cluster.luxi() as luxi:
        op = {"OP_ID": "OP_TEST_DELAY", "duration": 0, "on_master": True}
        for _ in range(20):
            luxi.value("SubmitManyJobs", [[op]] * 50)
    with network.cluster.luxi() as asking, network.cluster.luxi() as other:
        asking.send(
            json.dumps({"method": "QueryNetworkHistory", "args": [network.net, None, None, 10]}).encode() + b"\3"
        )
        assert other.call("QueryClusterInfo")["name"] == "lab.example"
        answer = json.loads(asking.receive())
    assert answer["success"]
    assert answer["result"]["rows"] == []


@pytest.mark.parametrize("arguments", [["net1", "192.0.2.999", None, 10], ["net1", None, None, 0], ["net1", None]])
def test_a_malformed_question_is_refused(shared: lab.Lab, arguments: list[object]) -> None:
    with shared.luxi() as luxi:
        success, result = luxi.exchange("QueryNetworkHistory", *arguments)
    assert not success
    assert isinstance(result, list)
    assert result[0] == "OpPrereqError"
