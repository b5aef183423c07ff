"""No DHCP: the controllers listen for HTTP only, and start no other program."""

import contextlib
import os
import re
from pathlib import Path

import pytest
from tests import processes
from tests.cluster import lab
from tests.kubernetes import server_process

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not server_process.kubectls(), reason="this machine has no kubectl"),
]

OBJECTS = """
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: lab}
spec: {namePrefix: lab, gateway: 192.0.2.1, pools: [{subnet: 192.0.2.0/24}, {subnet: "2001:db8::/64"}]}
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: node-1}
spec: {pool: {name: lab}}
"""
TABLES = ("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "packet")
LISTENS = "0A"


def sockets(process: int) -> dict[str, list[list[str]]]:
    """Return the rows of the kernel's socket tables that belong to a process, by table."""
    folder = Path(f"/proc/{process}")
    targets: list[str] = []
    for descriptor in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it closes files meanwhile
            targets.append(os.readlink(descriptor))
    own = {match[1] for target in targets if (match := re.fullmatch(r"socket:\[(\d+)\]", target))}
    rows = {name: (folder / "net" / name) for name in TABLES}
    listed = {name: path.read_text().splitlines()[1:] for name, path in rows.items() if path.exists()}
    return {name: [line.split() for line in lines if own & set(line.split())] for name, lines in listed.items()}


@pytest.mark.promise("claims-11")
def test_who_serves_claims_listens_for_http_alone(tmp_path: Path) -> None:
    with server_process.running(tmp_path, with_controllers=True) as here:
        assert here.running
        done = here.run("kubectl", "apply", "-f", "-", stdin=OBJECTS)
        assert done.returncode == 0, done.stderr
        arguments = ("kubectl", "get", "ipclaim", "node-1", "-o", "jsonpath={.status.address.name}")
        lab.wait_until(lambda: here.run(*arguments).stdout == "lab-192-0-2-2", "the address of the claim")
        rows_by_file = sockets(here.running.pid)
        listeners = [row for name in ("tcp", "tcp6") for row in rows_by_file[name] if row[3] == LISTENS]
        assert [int(row[1].rpartition(":")[2], 16) for row in listeners] == [here.port]
        assert not [name for name, rows in rows_by_file.items() if rows and not name.startswith("tcp")]
        (controllers,) = processes.children(here.running.pid)
        assert not [name for name, rows in sockets(controllers).items() if rows]
        assert not processes.children(controllers)
