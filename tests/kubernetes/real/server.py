"""A real kube-apiserver on an etcd, with the controller manager, all on loopback ports of a test's own.

Their programs are compiled once (``build.sh``), into the user's cache; as a program this module does that, and runs a
command on a server of its own if one is given: ``python -m tests.kubernetes.real.server make bench ONLY=claims``.
The administrator has a token and all rights; who has a kubeconfig of ``account`` has those that roles give it. The
definitions of all kinds that we know are installed. Everything ends with the process that started it.
"""

import contextlib
import functools
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests import cache, leftovers, ports
from tests.kubernetes import server_process
from tests.real.nodes import lab as machines

from gantry import security
from gantry.kubernetes.api import definitions, manifests

HERE = Path(__file__).parent
HOST = "127.0.0.1"
TOKEN = "administrator"
TIMEOUT = 120.0
CONTROLLERS = "namespace,garbagecollector,serviceaccount,serviceaccount-token"
LEASH = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -9 0) & exec "$@" 3<&-'
"""Starts a program that is killed when the other end of its standard input is closed, so when we end, however we do.

The signal that Linux sends for a parent comes when the thread ends that began the program, which may be a short one.
"""
NEEDS = [
    pytest.mark.kube,
    pytest.mark.skipif(not os.environ.get("GANTRY_KUBE"), reason="needs a real API server; make test-kube runs it"),
]


def programs() -> Path:
    """Return the folder with the programs, compiled now if they were not before."""
    return cache.cached("kube", HERE / "build.sh", HERE / "compile.sh")


class _Metadata(msgspec.Struct):
    name: str = ""


class _Secret(msgspec.Struct):
    metadata: _Metadata
    type: str = ""
    data: dict[str, bytes] = {}


class _Secrets(msgspec.Struct):
    items: list[_Secret]


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Conditions(msgspec.Struct):
    conditions: list[_Condition] = []


class _Definition(msgspec.Struct):
    status: _Conditions


@dataclass
class Server(server_process.Reached):
    """The API server; ``folder`` is for keys, logs and what etcd keeps."""

    folder: Path
    home: Path
    ports: list[int] = field(default_factory=lambda: [ports.free() for _ in range(3)])
    version: tuple[int, int] = (1, 20)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's."""
        return self.folder / "kubeconfig"

    def prepare(self) -> None:
        """Make certificates, keys and the administrator."""
        now = time.time()
        self.home.mkdir()
        authority = security.make_authority("test", now)
        key, request = security.make_request("server")
        issued = security.issue(authority, request, uuid="server", name="localhost", address=HOST, now=now)
        # The server reads no key of PKCS 8 as a public one.
        accounts = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        files = {
            "authority.pem": authority.certificates,
            "server.pem": issued,
            "server.key": key,
            "account.key": accounts,
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        (self.folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        self._write_kubeconfig(self.kubeconfig, TOKEN)

    def _write_kubeconfig(self, path: Path, token: str, *, namespace: str = "default") -> None:
        where = {"server": f"https://{HOST}:{self.port}", "certificate-authority": str(self.folder / "authority.pem")}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": where}], "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        }  # fmt: skip
        path.write_text(json.dumps(content))

    def _begin(self, program: str, **options: object) -> None:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        with open(self.folder / f"{program}.log", "ab") as log:
            self.processes[program] = subprocess.Popen(
                ["sh", "-c", LEASH, "sh", programs() / program, *words],
                cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _lives(self, program: str) -> None:
        log = self.folder / f"{program}.log"
        assert self.processes[program].poll() is None, f"{program} ended: {log.read_text()[-4000:]}"

    def start_store(self) -> None:
        """Start etcd; what it has written need not survive this machine."""
        here, peers = (f"http://{HOST}:{port}" for port in self.ports[1:])
        self._begin(
            "etcd", data_dir=self.folder / "etcd", unsafe_no_fsync="true", log_level="warn",
            listen_client_urls=here, advertise_client_urls=here, listen_peer_urls=peers,
            initial_advertise_peer_urls=peers, initial_cluster=f"default={peers}",
        )  # fmt: skip

    def start(self) -> None:
        """Start kube-apiserver, and return when it is ready."""
        keys = self.folder
        self._begin(
            "kube-apiserver", etcd_servers=f"http://{HOST}:{self.ports[1]}",
            bind_address=HOST, advertise_address=HOST, endpoint_reconciler_type="none", secure_port=self.port,
            tls_cert_file=keys / "server.pem", tls_private_key_file=keys / "server.key", cert_dir=keys,
            token_auth_file=keys / "tokens", authorization_mode="RBAC", service_cluster_ip_range="10.0.0.0/24",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=keys / "account.key", service_account_signing_key_file=keys / "account.key",
        )  # fmt: skip
        machines.until(self._is_ready, f"the API server is not ready: see {self.folder}", timeout=TIMEOUT)

    def _is_ready(self) -> bool:
        for program in self.processes:
            self._lives(program)
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.send("GET", "/readyz")[0] == 200
        return False

    def start_controllers(self) -> None:
        """Start kube-controller-manager: what deletes namespaces and what nobody owns, and gives accounts tokens."""
        self._begin(
            "kube-controller-manager", kubeconfig=self.kubeconfig, controllers=CONTROLLERS, leader_elect="false",
            port=0, secure_port=0, kube_api_qps=200, kube_api_burst=400,
            service_account_private_key_file=self.folder / "account.key", root_ca_file=self.folder / "authority.pem",
        )  # fmt: skip

    def kill(self) -> None:
        """End kube-apiserver by ``kill -9``; etcd and the controllers continue."""
        self._end("kube-apiserver")

    def _end(self, program: str) -> None:
        process = self.processes.pop(program)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=leftovers.KILL_TIMEOUT_SECONDS)

    def stop(self) -> None:
        """End everything."""
        for program in reversed(list(self.processes)):
            self._end(program)

    def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Send a request as the administrator; return status and body of the answer."""
        trusted = ssl.create_default_context(cafile=self.folder / "authority.pem")
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=TIMEOUT, context=trusted)
        try:
            sent = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def install(self) -> None:
        """Install the definitions of all kinds; return when they are served."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for definition in definitions.DEFINITIONS:
            status, answer = self.send("POST", path, manifests.crd(definition))
            assert status == 201, answer.decode()
        for definition in definitions.DEFINITIONS:
            name = f"{path}/{definition.plural}.{definition.group}"
            machines.until(functools.partial(self._is_established, name), f"{name} is not established")
        machines.until(lambda: self.send("GET", "/api/v1/namespaces/default")[0] == 200, "no namespace default")

    def _is_established(self, path: str) -> bool:
        status, answer = self.send("GET", path)
        conditions = msgspec.json.decode(answer, type=_Definition).status.conditions if status == 200 else []
        return any((condition.type, condition.status) == ("Established", "True") for condition in conditions)

    def account(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig of a service account, which is made if it is not there."""
        here = f"/api/v1/namespaces/{namespace}"
        self.send("POST", f"{here}/serviceaccounts", {"metadata": {"name": name}})
        token = machines.until(lambda: self._token(here, name), f"account {name} of {namespace} has no token")
        path = self.folder / f"{namespace}-{name}"
        self._write_kubeconfig(path, token, namespace=namespace)
        return path

    def _token(self, here: str, account: str) -> str:
        status, answer = self.send("GET", f"{here}/secrets")
        assert status == 200, answer.decode()
        secrets = msgspec.json.decode(answer, type=_Secrets).items
        named = [each for each in secrets if each.metadata.name.startswith(f"{account}-token-")]
        return next((secret.data["token"].decode() for secret in named if "token" in secret.data), "")


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """Start a server with all definitions and take it away afterwards."""
    leftovers.clear("gka")
    programs()
    with leftovers.folder("gka") as name:
        server = Server(Path(name), Path(name) / "home")
        server.prepare()
        try:
            server.start_store()
            server.start()
            server.start_controllers()
            server.install()
            yield server
        finally:
            server.stop()


def main(arguments: Sequence[str]) -> int:
    """Compile the programs; run a command, if one is given, on a server of its own, and return its exit code."""
    programs()
    if not arguments:
        return 0
    with running() as server:
        where = str(server.kubeconfig)
        variables = {**os.environ, "KUBECONFIG": where, "GANTRY_BENCH_KUBECONFIG": where}
        return subprocess.run(arguments, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
