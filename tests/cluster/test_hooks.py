"""Hooks and OS scripts end to end: real scripts on two nodes, driven by the commands."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import lab

SEVERAL = "ip0=192.0.2.20,ip1=198.51.100.20,ip2=2001:db8:5::20,network=wide"


@pytest.fixture(scope="module")
def cluster() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.add_machine()
        record(cluster_lab.nodes[0], "cluster-init-post")
        cluster_lab.run(
            "gnt-cluster", "init", "--enabled-hypervisors", "fake", "--enabled-disk-templates", "file,diskless",
            "--primary-ip", "127.0.0.1", "--port", cluster_lab.nodes[0].port, "--node-name", "node1", "lab.example",
        )  # fmt: skip
        cluster_lab.add_node()
        cluster_lab.add_network()
        cluster_lab.run(
            "gnt-network", "add", "--subnet", "cidr=192.0.2.0/24,gateway=192.0.2.1", "--subnet",
            "cidr=198.51.100.0/24,dhcp=true", "--subnet", "cidr=2001:db8:5::/64,gateway=2001:db8:5::1", "wide",
        )  # fmt: skip
        cluster_lab.run("gnt-network", "connect", "-N", "mode=routed,link=main", "wide", "default")
        yield cluster_lab


def script(node: lab.Node, where: str, commands: str, *, name: str = "10-test") -> Path:
    path = node.root / "etc/hooks" / f"{where}.d" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{commands}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def record(node: lab.Node, where: str) -> Path:
    """Have a hook of a node record its environment; a shell would hide names with a colon from its children."""
    recorded = node.root / f"recorded-{where}"
    script(node, where, f"cat /proc/$$/environ > {recorded}")
    return recorded


def read(path: Path) -> dict[str, str]:
    entries = path.read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


@pytest.fixture(autouse=True)
def no_hooks(cluster: lab.Lab) -> Iterator[None]:
    yield
    for node in cluster.nodes:
        for path in (node.root / "etc/hooks").glob("*/*"):
            path.unlink()


@pytest.mark.promise("networks-25", "networks-33", "networks-74", "networks-75", "networks-76")
def test_every_script_learns_of_all_addresses_and_subnets_of_a_nic(cluster: lab.Lab) -> None:
    first, second = cluster.nodes
    before, after = record(first, "instance-add-pre"), record(second, "instance-add-post")
    system = first.root / "srv/os/tells"
    system.mkdir()
    for file, text in lab.OS_FILES.items():
        (system / file).write_text(text)
    (system / "create").write_text('#!/bin/sh\ncat /proc/$$/environ > "$DISK_0_PATH.told"\n')
    (system / "create").chmod(0o755)
    cluster.run(
        "gnt-instance", "add", "-t", "file", "--disk", "0:size=16m", "-o", "tells", "-n", "node1",
        "--net", f"0:{SEVERAL}", "several.example",
    )  # fmt: skip
    expected = {
        "IP": "192.0.2.20",
        "IP:0": "192.0.2.20",
        "IP:1": "198.51.100.20",
        "IP:2": "2001:db8:5::20",
        "NETWORK_NAME": "wide",
        "NETWORK_SUBNET": "192.0.2.0/24",
        "NETWORK_SUBNET:0": "192.0.2.0/24",
        "NETWORK_SUBNET:1": "198.51.100.0/24",
        "NETWORK_SUBNET:2": "2001:db8:5::/64",
        "NETWORK_GATEWAY:0": "192.0.2.1",
        "NETWORK_GATEWAY:2": "2001:db8:5::1",
        "NETWORK_DHCP:0": "False",
        "NETWORK_DHCP:1": "True",
        "NETWORK_DHCP:2": "False",
    }
    (recorded,) = (first.root / "srv/file-storage/several.example").glob("*.told")
    for path, prefix in ((recorded, "NIC_0_"), (before, "GANETI_INSTANCE_NIC0_")):
        variables = read(path)
        assert {name: variables.get(prefix + name) for name in expected} == expected
        readable = {name.replace(":", "_"): value for name, value in expected.items()}
        assert {name: variables.get(prefix + name) for name in readable} == readable
    assert not after.exists()
    cluster.run("gnt-instance", "remove", "-f", "several.example")


@pytest.mark.promise("networks-83")
def test_the_variables_of_a_single_address_are_unchanged(cluster: lab.Lab) -> None:
    recorded = record(cluster.nodes[0], "instance-add-pre")
    cluster.add_instance("single.example", nics="ip=192.0.2.10,network=net1")
    variables = {name: value for name, value in read(recorded).items() if name.startswith("GANETI_INSTANCE_NIC0_")}
    assert {name: variables.pop(f"GANETI_INSTANCE_NIC0_{name}")[:0] for name in ("MAC", "UUID", "NETWORK_UUID")}
    assert variables == {
        f"GANETI_INSTANCE_NIC0_{name}": value
        for name, value in {
            "IP": "192.0.2.10",
            "MODE": "routed",
            "LINK": "main",
            "VLAN": "",
            "NETWORK_NAME": "net1",
            "NETWORK_SUBNET": "192.0.2.0/24",
            "NETWORK_GATEWAY": "192.0.2.1",
            "NETWORK_SUBNET6": "2001:db8::/64",
            "NETWORK_TAGS": "",
        }.items()
    }
    cluster.run("gnt-instance", "remove", "-f", "single.example")


def test_hooks_run_before_and_after_a_change_on_the_master_and_the_primary_node(cluster: lab.Lab) -> None:
    first, second = cluster.nodes
    cluster.add_instance("moves.example", "-n", "node2")
    before, after = record(first, "instance-modify-pre"), record(second, "instance-modify-post")
    cluster.run("gnt-instance", "modify", "--net", "0:modify,ip1=none", "moves.example")
    early, late = read(before), read(after)
    common = {
        "PATH": "/sbin:/bin:/usr/sbin:/usr/bin",
        "GANETI_HOOKS_VERSION": "2",
        "GANETI_HOOKS_PATH": "instance-modify",
        "GANETI_OBJECT_TYPE": "INSTANCE",
        "GANETI_OP_CODE": "OP_INSTANCE_SET_PARAMS",
        "GANETI_CLUSTER": "lab.example",
        "GANETI_MASTER": "node1",
        "GANETI_INSTANCE_NAME": "moves.example",
        "GANETI_INSTANCE_PRIMARY": "node2",
    }
    assert common.items() <= early.items()
    assert common.items() <= late.items()
    assert (early["GANETI_DATA_DIR"], late["GANETI_DATA_DIR"]) == (f"{first.root}/lib", f"{second.root}/lib")
    assert (early["GANETI_HOOKS_PHASE"], late["GANETI_HOOKS_PHASE"]) == ("pre", "post")
    assert "GANETI_INSTANCE_NIC0_IP:1" not in early
    assert late["GANETI_INSTANCE_NIC0_IP:1"].startswith("2001:db8::")
    assert "GANETI_POST_INSTANCE_NIC0_IP:1" not in late
    assert late["GANETI_POST_INSTANCE_NIC0_IP"] == late["GANETI_INSTANCE_NIC0_IP:0"]
    cluster.run("gnt-instance", "remove", "-f", "moves.example")


def test_a_script_refuses_and_nothing_is_changed(cluster: lab.Lab) -> None:
    script(cluster.nodes[0], "instance-add-pre", 'echo "$GANETI_INSTANCE_NAME is not registered"; exit 1')
    free = cluster.rows("gnt-network", "name,free_count")
    output = cluster.refused("gnt-instance", "add", *lab.instance_arguments(), "refused.example")
    assert "hooks" in output
    assert re.search(r"node1.*10-test.*refused\.example is not registered", output, re.DOTALL)
    assert "refused.example" not in [name for (name,) in cluster.rows("gnt-instance", "name")]
    assert cluster.rows("gnt-network", "name,free_count") == free
    assert not (cluster.master / "srv/file-storage/refused.example").exists()
    cluster.run("gnt-instance", "add", "--dry-run", *lab.instance_arguments(), "refused.example")


def test_a_script_that_fails_afterwards_is_a_warning_in_the_log_of_the_job(cluster: lab.Lab) -> None:
    script(cluster.nodes[0], "network-add-post", "echo mail could not be sent; exit 1")
    done = cluster.run("gnt-network", "add", "bare")
    assert "WARNING: hooks network-add on node1: script 10-test failed, output: mail could not be sent" in done.stdout
    cluster.run("gnt-network", "remove", "bare")


def test_what_hooks_find_is_part_of_the_verdict_of_verify(cluster: lab.Lab) -> None:
    cluster.verified()
    script(cluster.nodes[1], "cluster-verify-post", "echo fan is loud; exit 1")
    done = cluster.run("gnt-cluster", "verify", check=False)
    assert done.returncode == 1
    heading, finding = done.stdout.index("* Hooks Results"), done.stdout.index("fan is loud")
    assert heading < finding


def test_hooks_run_for_a_new_cluster_and_a_new_node(cluster: lab.Lab) -> None:
    first = cluster.nodes[0]
    assert read(first.root / "recorded-cluster-init-post")["GANETI_OP_TARGET"] == "lab.example"
    before = record(first, "node-add-pre")
    node = cluster.add_machine()
    after = record(node, "node-add-post")
    token, where = node.root / "lib/join-token", ("--primary-ip", "127.0.0.1", "--port", node.port)
    cluster.run("gnt-node", "add", "--join-token-file", token, *where, node.name)
    assert read(before)["GANETI_NODE_NAME"] == read(after)["GANETI_POST_NODE_NAME"] == node.name
    leaving = record(node, "node-remove-post")
    done = cluster.run("gnt-node", "remove", node.name)
    assert "hooks" not in done.stdout
    assert read(leaving)["GANETI_NODE_NAME"] == node.name
    node.stop()
    cluster.nodes.remove(node)


@pytest.mark.slow
def test_hooks_run_before_a_cluster_is_destroyed(own: lab.Lab) -> None:
    recorded = record(own.nodes[0], "cluster-destroy-post")
    own.run("gnt-cluster", "destroy", "--yes-do-it")
    assert read(recorded)["GANETI_OP_TARGET"] == "lab.example"


@pytest.mark.promise("networks-58")
def test_jobs_whose_hooks_run_at_the_same_time_get_different_addresses(cluster: lab.Lab) -> None:
    gate, waiting = cluster.folder / "gate", cluster.folder / "waiting"
    record_owner = 'echo "$GANETI_INSTANCE_NAME $GANETI_INSTANCE_NIC0_IP"'
    wait = f"n=0; until [ -e {gate} ] || [ $n -gt 600 ]; do sleep 0.1; n=$((n + 1)); done"
    refuse = '[ "$GANETI_INSTANCE_NAME" != first.example ]'
    skip_third = '[ "$GANETI_INSTANCE_NAME" = third.example ] && exit 0'
    script(cluster.nodes[0], "instance-add-pre", f"{skip_third}; {record_owner} >> {waiting}; {wait}; {refuse}")
    names = ["first.example", "second.example"]
    op = {"OP_ID": "OP_INSTANCE_CREATE", "disk_template": "diskless", "pnode": "node1"}
    with cluster.luxi() as luxi:
        jobs = [
            luxi.value("SubmitJob", [{**op, "instance_name": name, "nics": [{"ip": "lan4", "network": "net1"}]}])
            for name in names
        ]
        lab.wait_until(lambda: waiting.exists() and len(waiting.read_text().splitlines()) == 2, "both hooks")
        picked = dict(line.split() for line in waiting.read_text().splitlines())
        arguments = ("-t", "diskless", "-n", "node1", "--net", f"0:ip={picked['first.example']},network=net1")
        refused = cluster.run("gnt-instance", "add", *arguments, "third.example", check=False)
        gate.touch()
        statuses = [luxi.finished(job)[0] for job in jobs]
    assert f"is held by job {jobs[0]}" in refused.stderr
    assert picked["first.example"] != picked["second.example"]
    assert statuses == ["error", "success"]
    script(cluster.nodes[0], "instance-add-pre", "exit 0")
    cluster.add_instance("third.example", nics=f"ip={picked['first.example']},network=net1")
    rows = cluster.rows("gnt-instance", "nic.ips", "second.example", "third.example")
    assert [ips for (ips,) in rows] == [picked["second.example"], picked["first.example"]]
    for name in ("second.example", "third.example"):
        cluster.run("gnt-instance", "remove", "-f", name)
