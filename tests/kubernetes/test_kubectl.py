"""Typical use of ``kubectl``, in every installed version."""

import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes import server_process
from tests.kubernetes.contract import backends

pytestmark = [pytest.mark.real]

POOL = """
apiVersion: ipam.metal3.io/v1alpha1
kind: IPPool
metadata: {name: prov, namespace: site-a}
spec:
  namePrefix: prov
  prefix: 24
  pools: [{start: 192.0.2.10, end: 192.0.2.20}]
"""
ADDRESS = """
apiVersion: ipam.metal3.io/v1alpha1
kind: IPAddress
metadata: {name: prov-192-0-2-11, namespace: site-a}
spec: {address: 192.0.2.11, pool: {name: prov}, claim: {name: node-1}}
"""
CLAIM = """
apiVersion: ipam.metal3.io/v1alpha1
kind: IPClaim
metadata: {name: node-1, namespace: site-a}
spec: {pool: {name: prov}}
"""


def _programs() -> list[object]:
    """Return parameters of a test for each version; those between the oldest and the newest are slow."""
    binaries = server_process.kubectls()
    between = binaries[1:-1]
    return [
        pytest.param(binary, marks=[pytest.mark.slow] if binary in between else [], id=binary.name)
        for binary in binaries
    ]


@pytest.fixture(scope="module", params=_programs() or [pytest.param(None, id="none")])
def program(request: pytest.FixtureRequest) -> Path:
    if request.param is None:
        pytest.skip("this machine has no kubectl")
    assert isinstance(request.param, Path)
    return request.param


class Kubectl:
    """The command; ``said`` is what it prints when it succeeds, ``refused`` when it does not.

    Its namespace ``site-a`` is replaced by one for the test.
    """

    def __init__(self, program: Path, backend: backends.Backend, home: Path) -> None:
        self.program, self.backend, self.name = program, backend, f"test-{secrets.token_hex(4)}"
        self.variables = {**os.environ, "KUBECONFIG": str(backend.kubeconfig), "HOME": str(home)}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._command(*arguments), input=self._ours(stdin), env=self.variables, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        done.stdout = done.stdout.replace(self.name, "site-a")
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command(*arguments), env=self.variables, stdout=subprocess.PIPE, text=True)

    def _command(self, *arguments: str) -> list[str]:
        return [str(self.program), *map(self._ours, arguments)]

    def _ours(self, text: str) -> str:
        return text.replace("site-a", self.name)

    def output_of(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr


@pytest.fixture
def kubectl(program: Path, backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a server with an empty namespace ``site-a``."""
    new_kubectl = Kubectl(program, backend, tmp_path_factory.getbasetemp())
    new_kubectl.output_of("create", "namespace", "site-a")
    yield new_kubectl
    new_kubectl.output_of("delete", "namespace", "site-a", "--wait=false")


@pytest.mark.promise("claims-1", "claims-2", "claims-3")
@pytest.mark.round
def test_objects_are_applied_shown_and_deleted(kubectl: Kubectl) -> None:
    assert kubectl.output_of("apply", "-f", "-", stdin=f"{POOL}---{CLAIM}---{ADDRESS}").splitlines() == [
        "ippool.ipam.metal3.io/prov created", "ipclaim.ipam.metal3.io/node-1 created",
        "ipaddress.ipam.metal3.io/prov-192-0-2-11 created",
    ]  # fmt: skip
    assert "ippool.ipam.metal3.io/prov unchanged" in kubectl.output_of("apply", "-f", "-", stdin=POOL)
    assert "configured" in kubectl.output_of("apply", "-f", "-", stdin=POOL.replace("24", "25"))
    rows = kubectl.output_of("get", "ippools", "-A").splitlines()
    assert rows[0].split() == ["NAMESPACE", "NAME", "CLUSTER", "TOTAL", "USED", "FREE", "WAITING", "AGE"]
    assert ["site-a", "prov"] in [row.split()[:2] for row in rows]
    rows = kubectl.output_of("-n", "site-a", "get", "m3ipc").splitlines()
    assert rows[1].split()[:2] == ["node-1", "prov"]
    assert kubectl.output_of("-n", "site-a", "get", "ippool", "prov", "-o", "jsonpath={.spec.prefix}") == "25"
    rows = kubectl.output_of("-n", "site-a", "get", "ipaddress.ipam.metal3.io").splitlines()
    assert rows[1].split()[:4] == ["prov-192-0-2-11", "192.0.2.11", "prov", "node-1"]
    assert "prov" in kubectl.output_of("-n", "site-a", "get", "cluster-api")
    assert "No resources found" in kubectl.run("-n", "default", "get", "ippools,ipclaims").stderr
    assert "Name Prefix:" in kubectl.output_of("-n", "site-a", "describe", "ippool", "prov")
    assert 'ippool.ipam.metal3.io "prov" deleted' in kubectl.output_of("-n", "site-a", "delete", "ippool", "prov")
    assert '(NotFound): ippools.ipam.metal3.io "prov" not found' in kubectl.refused(
        "-n", "site-a", "get", "ippool", "prov"
    )


def test_bad_objects_are_refused_with_the_field(kubectl: Kubectl) -> None:
    assert "spec.prefix: Invalid value: 129" in kubectl.refused("apply", "-f", "-", stdin=POOL.replace("24", "129"))
    unknown = POOL.replace("prefix: 24", "colour: blue")
    # An old server does not look for them, but kubectl does, by its description.
    assert re.search(r'unknown field "(spec\.)?colour"', kubectl.refused("create", "-f", "-", stdin=unknown))
    if backends.is_embedded(kubectl.backend):
        assert "is before start IP" in kubectl.refused("apply", "-f", "-", stdin=POOL.replace(".20}", ".2}"))


def test_a_kind_that_does_not_exist_is_named(kubectl: Kubectl) -> None:
    refused = kubectl.refused("apply", "-f", "-", stdin=POOL.replace("IPPool", "IPPol"))
    assert 'no matches for kind "IPPol" in version "ipam.metal3.io/v1alpha1"' in refused


def test_dry_run_and_difference_store_nothing(kubectl: Kubectl) -> None:
    assert "created (server dry run)" in kubectl.output_of("apply", "--dry-run=server", "-f", "-", stdin=POOL)
    assert "NotFound" in kubectl.refused("-n", "site-a", "get", "ippool", "prov")
    kubectl.output_of("create", "-f", "-", stdin=POOL)
    difference = kubectl.run("diff", "-f", "-", stdin=POOL.replace("24", "26"))
    assert (difference.returncode, "+  prefix: 26" in difference.stdout) == (1, True)


def test_objects_are_changed_in_all_ways(kubectl: Kubectl) -> None:
    kubectl.output_of("create", "-f", "-", stdin=POOL)
    pool = ("-n", "site-a", "ippool", "prov")
    assert "already exists" in kubectl.refused("create", "-f", "-", stdin=POOL)
    assert "labeled" in kubectl.output_of("label", *pool, "tier=web")
    # 1.27 says "annotate".
    assert " annotate" in kubectl.output_of("annotate", *pool, "note=x")
    assert "patched" in kubectl.output_of("patch", *pool, "--type=merge", "-p", '{"spec":{"prefix":25}}')
    steps = '[{"op":"replace","path":"/spec/prefix","value":26}]'
    assert "patched" in kubectl.output_of("patch", *pool, "--type=json", "-p", steps)
    assert "strategic-merge-patch+json is not supported" in kubectl.refused("patch", *pool, "-p", "{}")
    status = '{"status":{"total":11}}'
    assert "patched" in kubectl.output_of("patch", *pool, "--subresource=status", "--type=merge", "-p", status)
    assert re.search(r"prov\s+11\s", kubectl.output_of("-n", "site-a", "get", "ippool", "-l", "tier=web"))
    text = kubectl.output_of("get", *pool, "-o", "yaml").replace("prefix: 26", "prefix: 27")
    assert "replaced" in kubectl.output_of("replace", "-f", "-", stdin=text)
    assert "Conflict" in kubectl.refused("replace", "-f", "-", stdin=text.replace("prefix: 27", "prefix: 28"))


def test_fields_are_applied_by_the_server(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl.output_of(*apply, stdin=POOL)
    other = POOL.replace("24", "25")
    refused = kubectl.refused(*apply, "--field-manager=other", stdin=other)
    # An old server does not say by which version it was applied.
    assert re.search(r'conflict with "kubectl"( using ipam.metal3.io/v1alpha1)?: .spec.prefix', refused)
    kubectl.output_of(*apply, "--field-manager=other", "--force-conflicts", stdin=other)
    kubectl.output_of("delete", "-f", "-", stdin=POOL)
    kubectl.output_of("apply", "-f", "-", stdin=POOL)
    assert "serverside-applied" in kubectl.output_of(*apply, stdin=POOL.replace("prefix: 24", "prefix: 28"))


def test_finalizers_are_waited_for_and_watches_show_changes(kubectl: Kubectl) -> None:
    manifest = POOL.replace("namespace: site-a}", "namespace: site-a, finalizers: [example.com/hold]}")
    kubectl.output_of("create", "-f", "-", stdin=manifest)
    pool = ("-n", "site-a", "ippool", "prov")
    watching = kubectl.start("-n", "site-a", "get", "ippools", "-w", "-o", "name")
    try:
        assert watching.stdout
        assert watching.stdout.readline() == "ippool.ipam.metal3.io/prov\n"
        assert "deleted" in kubectl.output_of("delete", *pool, "--wait=false")
        waiting = kubectl.start("wait", "--for=delete", "--timeout=60s", *pool)
        assert watching.stdout.readline() == "ippool.ipam.metal3.io/prov\n"
        kubectl.output_of("patch", *pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(90) == 0
        assert watching.stdout.readline() == "ippool.ipam.metal3.io/prov\n"
    finally:
        watching.kill()
        watching.wait()


def test_waiting_for_a_condition_ends_when_it_holds(kubectl: Kubectl) -> None:
    kubectl.output_of("create", "-f", "-", stdin=POOL)
    pool = ("-n", "site-a", "ippool", "prov")
    condition = {"type": "Ready", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = json.dumps({"status": {"total": 11, "conditions": [condition]}})
    kubectl.output_of("patch", *pool, "--subresource=status", "--type=merge", "-p", status)
    assert "condition met" in kubectl.output_of("wait", "--for=condition=Ready", "--timeout=60s", *pool)
    assert "condition met" in kubectl.output_of("wait", "--for=jsonpath={.status.total}=11", "--timeout=60s", *pool)


def test_kinds_are_listed_and_explained(kubectl: Kubectl) -> None:
    listed = kubectl.output_of("api-resources", "--api-group=ipam.metal3.io", "-o", "name").split()
    assert listed == ["ipaddresses.ipam.metal3.io", "ipclaims.ipam.metal3.io", "ippools.ipam.metal3.io"]
    assert "DESCRIPTION" in kubectl.output_of("explain", "ippools.spec.pools.start")
    assert "v{}.{}".format(*kubectl.backend.version) in kubectl.output_of("version")
    assert "ipam.metal3.io/v1alpha1" in kubectl.output_of("api-versions").split()


def test_events_are_shown_with_their_object(kubectl: Kubectl) -> None:
    kubectl.output_of("create", "-f", "-", stdin=POOL)
    uid = kubectl.output_of("-n", "site-a", "get", "ippool", "prov", "-o", "jsonpath={.metadata.uid}")
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: e1, namespace: site-a}}
involvedObject: {{apiVersion: ipam.metal3.io/v1alpha1, kind: IPPool, name: prov, namespace: site-a, uid: {uid}}}
type: Warning
reason: Exhausted
message: no free address
lastTimestamp: 2026-01-01T00:00:00Z
"""
    kubectl.output_of("create", "-f", "-", stdin=event)
    assert "no free address" in kubectl.output_of("-n", "site-a", "get", "events")
    assert "no free address" in kubectl.output_of("-n", "site-a", "events", "--for", "ippool/prov")
    assert "no free address" in kubectl.output_of("-n", "site-a", "describe", "ippool", "prov")
