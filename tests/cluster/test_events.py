"""Looking back and following, and what verify says of the journal, on real daemons."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.cluster import lab

from gantry.model import instance


def _serials(file: Path) -> list[int]:
    """Return the serials of all lines; the last one may not be whole yet."""
    return [json.loads(line)["serial"] for line in file.read_text().split("\n")[:-1]]


def test_a_stream_of_events_has_no_gap_over_a_power_cut_of_the_master(own: lab.Lab) -> None:
    file = own.folder / "events"
    with file.open("w") as output:
        program = [str(lab.BIN / "gantry"), "events", "--follow"]
        follower = subprocess.Popen(program, env={**os.environ, "GANTRY_ROOT": str(own.master)}, stdout=output)
    try:
        own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node1", "seen.example")
        # Who has not reached a master yet does not wait for one.
        lab.wait_until(lambda: bool(_serials(file)), "the first event")
        own.kill_master()
        own.start_master()
        own.run("gnt-instance", "remove", "-f", "seen.example")
        last = json.loads(own.run("gantry", "events").stdout.splitlines()[-1])["serial"]
        lab.wait_until(lambda: last in _serials(file), "the last event")
        assert _serials(file)[:last] == list(range(1, last + 1))
    finally:
        follower.terminate()
        follower.wait(lab.TIMEOUT)
    rows = own.run("gantry", "history", "--kind", "instance", "--name", "seen.example", "--separator", "|").stdout
    assert [row.rpartition(" ")[2] for row in rows.splitlines()[1:]] == ["added", "changed", "changed", "removed"]


@pytest.mark.slow
def test_verify_names_the_place_where_the_journal_was_changed(own: lab.Lab) -> None:
    assert "* Verifying journal" in own.verified()
    oldest = min((own.master / "lib/journal").iterdir())
    data = bytearray(oldest.read_bytes())
    data[len(data) // 2] ^= 1
    oldest.write_bytes(data)
    completed = own.run("gnt-cluster", "verify", check=False)
    assert completed.returncode == 1
    (line,) = [line for line in completed.stdout.splitlines() if "ERROR" in line]
    assert f"{oldest}, byte offset 0: the checksum does not fit" in line


def _edited(cluster: lab.Lab, edit: Callable[[dict[str, dict[str, dict[str, object]]]], None]) -> None:
    """Edit the configuration by hand while there is no master daemon."""
    cluster.stop_master(cluster.nodes[0])
    file = cluster.master / "lib/config.data"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content | {"checksum": "edited"}))
    cluster.start_master()


@pytest.mark.slow
@pytest.mark.promise("cluster-80")
def test_an_export_of_the_configuration_has_no_secret_of_a_mirror(own: lab.Lab) -> None:
    """DRBD's shared secret, as the configuration of a cluster with mirrored disks has it: here it is edited in."""
    own.add_node()
    own.run("gnt-instance", "add", "--no-nics", "-n", "node1", "-t", "diskless", "--no-start", "mirrored.example")
    parts = tuple(
        instance.Disk(uuid=f"d1{name}", dev_type="plain", size=size, logical_id=("xenvg", name))
        for name, size in (("data", 64), ("meta", 128))
    )

    def mirror(content: dict[str, dict[str, dict[str, object]]]) -> None:
        first, second = content["nodes"]
        mirror = instance.Mirror(minors={first: 0, second: 0}, port=11000, secret="the-secret-of-drbd")
        disk = instance.Disk(uuid="d1", dev_type="drbd", size=64, children=parts, mirror=mirror)
        (vm,) = content["instances"].values()
        nodes = sorted((first, second), key=lambda uuid: uuid != vm["primary_node"])
        vm |= {"primary_node": nodes[0], "disk_template": "drbd", "disks": [msgspec.to_builtins(disk)]}

    _edited(own, mirror)
    assert "the-secret-of-drbd" in (own.master / "lib/config.data").read_text()
    text = own.run("gantry", "export-config").stdout
    (vm,) = json.loads(text)["instances"].values()
    assert (vm["name"], vm["disks"][0]["mirror"]["port"]) == ("mirrored.example", 11000)
    assert "the-secret-of-drbd" not in text
    assert own.rows("gnt-instance", "disk_template", "mirrored.example") == [["drbd"]]


@pytest.mark.promise("cluster-80")
@pytest.mark.slow
def test_an_exported_configuration_has_no_secrets_and_no_keys(own: lab.Lab) -> None:
    nic = ("--no-nics", "-n", "node1", "-t", "diskless", "--no-install", "-o", "plain")
    own.run("gnt-instance", "add", *nic, "-O", "root_password=hunter2,mirror=192.0.2.1", "secret.example")
    file = own.folder / "export.json"
    own.run("gantry", "export-config", "--output", file)
    text = file.read_text()
    exported = json.loads(text)
    assert [instance["name"] for instance in exported["instances"].values()] == ["secret.example"]
    assert '"mirror": "192.0.2.1"' in text
    assert "hunter2" not in text
    assert "PRIVATE KEY" not in text
