"""Looking back and following, and what verify says of the journal, on real daemons."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cluster import lab


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
    assert [row.rpartition(" ")[2] for row in rows.splitlines()[1:]] == ["added", "changed", "removed"]


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


@pytest.mark.promise("cluster-80")
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
