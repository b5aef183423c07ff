"""Real daemons on the loopback interface: a cluster, its HTTP front ends with and without TLS, a Kubernetes server."""

import base64
import contextlib
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import ports
from tests.cluster import lab
from tests.doors.hostile import clients

USERS = """
alice right write
bob {HA1}0123456789abcdef0123456789abcdef write
carol:$2b$12$khDWYxxYyYZ/QGG.3ok4UezvSR9W3wyA5Uw2pYsz472UKT7KdQG92
dave:$2b$12$cYRkKoivTSUk1GwN1F3tROYQmiHM7yhP7fMDs89oEUq7HIw9JVyAe
"""
"""Carol's and dave's passwords are ``right`` too, as ``htpasswd -B -C 12`` writes them."""
BASIC = {"Authorization": f"Basic {base64.b64encode(b'alice:right').decode()}"}


@pytest.fixture(scope="package", autouse=True)
def _many_files() -> Iterator[None]:
    """Let this process open the connections of a crowd."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def daemon(*command: object, port: int, folder: Path) -> Iterator[int]:
    """Run a daemon until the end of the block; return its process id."""
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen([str(each) for each in command], stderr=errors)
    try:
        lab.wait_until(lambda: lab.listens(port) or process.poll() is not None, "a daemon")
        assert process.poll() is None, (folder / "errors").read_text()
        yield process.pid
    finally:
        process.terminate()
        process.wait(lab.TIMEOUT)


@pytest.fixture(scope="package")
def cluster() -> Iterator[lab.Lab]:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        (cluster_lab.master / "lib/users").write_text(USERS)
        yield cluster_lab


@contextlib.contextmanager
def front_ends(
    cluster: lab.Lab, *options: str | Path, tls: bool = False, within: tuple[str, ...] = ()
) -> Iterator[dict[str, clients.Target]]:
    """Run the HTTP front ends of a cluster; ``within`` is a program that starts them."""
    remote, neutron = ports.free(), ports.free()
    where = ["--bind", clients.HOST, "--root", cluster.master, "--port", str(remote), "--neutron-port", str(neutron)]
    command = [*within, lab.BIN / "gantry-rapi", *where, *([] if tls else ["--no-ssl"]), *options]
    context, logs = clients.unverified() if tls else None, cluster.master / "log"
    with daemon(*command, port=remote, folder=logs) as pid:
        lab.wait_until(lambda: lab.listens(neutron), "the Neutron API")
        yield {
            "remote API": clients.Target(remote, pid, logs, "/2/info", BASIC, tls=context),
            "Neutron API": clients.Target(neutron, pid, logs, "/v2.0/networks", BASIC, tls=context),
        }


@pytest.fixture(scope="package")
def plain(cluster: lab.Lab) -> Iterator[dict[str, clients.Target]]:
    with front_ends(cluster, "--header-timeout", "3") as targets:
        yield targets


@pytest.fixture(scope="package")
def encrypted(cluster: lab.Lab) -> Iterator[dict[str, clients.Target]]:
    with front_ends(cluster, tls=True) as targets:
        yield targets


@pytest.fixture(scope="package")
def kubernetes() -> Iterator[clients.Target]:
    with kubernetes_server() as target:
        yield target


@contextlib.contextmanager
def kubernetes_server(*options: str) -> Iterator[clients.Target]:
    """Run a Kubernetes server without a cluster."""
    with tempfile.TemporaryDirectory(prefix="gk") as name:
        folder, port = Path(name), ports.free()
        logs = folder / "log"
        logs.mkdir()
        command = [lab.BIN / "gantry-kube", "serve", "--data", folder / "data", "--port", str(port), "--no-controllers"]
        with daemon(*command, *options, port=port, folder=logs) as pid:
            token = (folder / "data/tokens").read_text().partition(",")[0]
            headers = {"Authorization": f"Bearer {token}"}
            path = "/apis/ipam.metal3.io/v1alpha1/ippools"
            yield clients.Target(port, pid, logs, path, headers, tls=clients.unverified())


@pytest.fixture(scope="package")
def node(cluster: lab.Lab) -> clients.Target:
    """Return the node daemon of the master's machine, with the certificate of its master."""
    machine = cluster.nodes[0]
    assert machine.daemon is not None
    tls = clients.unverified()
    folder = cluster.master / "lib/certs"
    tls.load_cert_chain(folder / "master.pem", folder / "node.key")
    port, pid, logs = machine.port, machine.daemon.pid, machine.root / "log"
    return clients.Target(port, pid, logs, "/version", method="POST", body=b"{}", tls=tls)
