"""The base of ``deploy/kubernetes`` on a real API server, which asks for every right."""

import http.client
import json
import ssl
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.cluster import lab
from tests.kubernetes import server_process
from tests.kubernetes.contract import backends, programs
from tests.kubernetes.real import server

BASE = Path(__file__).parents[3] / "deploy" / "kubernetes"
CLAIMS = 20
POOL = """
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: prov, namespace: rights}
spec:
  namePrefix: prov
  pools: [{start: 192.0.2.10, end: 192.0.2.40}]
"""
CLAIM = """
---
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: node-%d, namespace: rights}
spec: {pool: {name: prov}}
"""
pytestmark = [
    pytest.mark.skipif(not server_process.kubectls(), reason="this machine has no kubectl"),
    pytest.mark.parametrize("backend", [pytest.param("real", marks=server.NEEDS)], indirect=True),
]


def kubectl(here: server.Server, *arguments: str | Path, stdin: str = "") -> str:
    done: subprocess.CompletedProcess[str] = here.run(server_process.kubectls()[-1], *arguments, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names(here: server.Server, *arguments: str) -> list[str]:
    return kubectl(here, "get", "--namespace", "rights", "--output", "name", *arguments).split()


def status(here: server.Server, kubeconfig: Path, path: str) -> int:
    """Return the status of what somebody else reads."""
    token = msgspec.json.decode(kubeconfig.read_bytes())["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cafile=here.folder / "authority.pem")
    connection = http.client.HTTPSConnection(server.HOST, here.port, timeout=server.TIMEOUT, context=trusted)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_controllers_serve_claims_with_the_rights_of_the_base_and_no_others(
    backend: backends.Backend, tmp_path: Path
) -> None:
    assert isinstance(backend, server.Server)
    kubectl(backend, "apply", "-k", BASE)
    account = backend.account("gantry-system", "gantry-kube")
    assert status(backend, account, "/apis/ipam.metal3.io/v1alpha1/ippools") == 200
    assert status(backend, account, "/api/v1/secrets") == 403
    kubectl(backend, "create", "namespace", "rights")
    with programs.controllers(account, tmp_path / "run", "--leader-elect") as controllers:
        claims = "".join(CLAIM % number for number in range(CLAIMS))
        kubectl(backend, "apply", "-f", "-", stdin=POOL + claims)
        addresses = ("ipclaims", "--output", "jsonpath={.items[*].status.address.name}")
        lab.wait_until(lambda: len(set(names(backend, *addresses))) == CLAIMS, "the claims")
        kubectl(backend, "delete", "--namespace", "rights", "ipclaims", "--all", "--wait=true")
        lab.wait_until(lambda: names(backend, "ipaddresses.ipam.metal3.io") == [], "the addresses")
        events = json.loads(kubectl(backend, "get", "events", "--namespace", "rights", "--output", "json"))
        assert events["items"]
        assert "forbidden" not in (controllers.folder / "log").read_text().lower()
    kubectl(backend, "delete", "namespace", "rights", "--wait=false")
