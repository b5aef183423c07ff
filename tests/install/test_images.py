"""The container images: each does its work without root, without capabilities, and on a read-only root file system."""

import base64
import json
import os
import re
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests import ports
from tests.cluster import lab
from tests.install import containers

from gantry import __version__
from gantry.security import authority

pytestmark = containers.NEEDS

MEBIBYTE = 1 << 20
COMPILED = re.compile(r"# code object from '/usr/lib/.*\.py'")
"""What Python says of a module that it compiles."""
LIMIT = 80
"""The limit in MiB of an archive."""
ADDRESS = "127.0.0.1"
PORTS = {"gantry-api": {"5080/tcp", "9696/tcp"}, "gantry-kube": {"6443/tcp", "9440/tcp", "9443/tcp"}}
PROGRAMS = {"gantry-api": "/usr/sbin/gantry-rapi", "gantry-kube": "/usr/sbin/gantry-kube"}
ARGUMENTS = {"gantry-api": ["--bind", "0.0.0.0"], "gantry-kube": ["controllers"]}
OF_THE_BUILDER = (
    "etc/apt/",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "var/lib/apt/",
    "var/cache/apt/",
    "root/.config",
    "root/.pip",
)
"""Beginnings of paths that would show on which machine an image was built."""


@pytest.fixture(scope="module")
def engine() -> Iterator[containers.Engine]:
    with containers.engine() as loaded:
        yield loaded


def members(name: str) -> list[tarfile.TarInfo]:
    """Return the files of the layer of an image."""
    with tarfile.open(containers.archive(name)) as archive:
        index = json.load(_opened(archive, "index.json"))
        manifest = json.load(_opened(archive, _blob(index["manifests"][0])))
        (layer,) = manifest["layers"]
        with tarfile.open(fileobj=_opened(archive, _blob(layer))) as files:
            return files.getmembers()


def _blob(descriptor: dict[str, str]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _opened(archive: tarfile.TarFile, path: str) -> "tarfile.ExFileObject":
    opened = archive.extractfile(path)
    assert isinstance(opened, tarfile.ExFileObject)
    return opened


def answer(
    url: str, *, context: ssl.SSLContext | None = None, user: str = "", body: object = None
) -> tuple[int, bytes]:
    """Return the status and the body of an answer; ``user`` is the value of the header Authorization."""
    request = urllib.request.Request(url, data=json.dumps(body).encode() if body else None)
    request.add_header("Content-Type", "application/json")
    if user:
        request.add_header("Authorization", user)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def await_ports(container: containers.Container, *listened: int) -> None:
    """Wait until a container listens on its ports; fail with its log if it ends."""

    def is_ready() -> bool:
        container.check_running()
        return all(map(lab.listens, listened))

    lab.wait_until(is_ready, "the ports of the container")


def check_harmless(container: containers.Container) -> None:
    """Check that the process has no rights and cannot change the image."""
    container.check_running()
    status = container.status
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(containers.USER)}
    assert {status[name].strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert status["NoNewPrivs"] == "1"
    for folder in ("/", "/etc/gantry", "/usr/lib/gantry"):
        written = container.run("touch", f"{folder}/written")
        assert (written.returncode != 0, "Read-only file system" in written.stderr) == (True, True)


@pytest.mark.parametrize("name", containers.NAMES)
def test_an_image_says_what_it_is(engine: containers.Engine, name: str) -> None:
    image = engine.inspect(name)
    assert image["User"] == f"{containers.USER}:{containers.USER}"
    assert (image["Entrypoint"], image["Cmd"]) == ([PROGRAMS[name]], ARGUMENTS[name])
    ports_of_image, labels = image["ExposedPorts"], image["Labels"]
    assert isinstance(ports_of_image, dict)
    assert isinstance(labels, dict)
    assert set(ports_of_image) == PORTS[name]
    of_image = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert (of_image["title"], of_image["version"]) == (name, __version__)
    assert set(of_image) == {"title", "version", "description", "created", "vendor"}


@pytest.mark.parametrize("name", containers.NAMES)
def test_an_image_is_small_and_has_one_time(name: str) -> None:
    assert containers.archive(name).stat().st_size < LIMIT * MEBIBYTE
    assert len({member.mtime for member in members(name)}) == 1


@pytest.mark.parametrize("name", containers.NAMES)
def test_an_image_has_neither_files_of_the_builder_nor_programs_that_gain_rights(name: str) -> None:
    files = members(name)
    assert [each.name for each in files if each.name.startswith(OF_THE_BUILDER)] == []
    assert [each.name for each in files if each.isfile() and each.mode & 0o6000] == []
    assert "usr/lib/systemd/systemd" not in {each.name for each in files}


@pytest.mark.parametrize("name", containers.NAMES)
def test_a_start_compiles_nothing(engine: containers.Engine, name: str) -> None:
    ran = engine.run(name, "-v", "-I", PROGRAMS[name], "--version", options=("--entrypoint=/usr/bin/python3",))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [Path(PROGRAMS[name]).name, __version__]
    assert [line for line in ran.stderr.splitlines() if COMPILED.match(line)] == []


def test_the_controllers_allocate_addresses_and_answer_probes(engine: containers.Engine, tmp_path: Path) -> None:
    data = tmp_path / "kube"
    data.mkdir()
    os.chown(data, containers.USER, containers.USER)
    port, health = ports.free(), ports.free()
    mounted = f"--volume={data}:/var/lib/gantry/kube"
    serving = ("serve", f"--port={port}", "--no-controllers")
    with engine.started("gantry-kube", *serving, options=(mounted,)) as server:
        await_ports(server, port)
        check_harmless(server)
        controlling = ("controllers", "--kubeconfig=/var/lib/gantry/kube/kubeconfig", f"--health-port={health}")
        with engine.started("gantry-kube", *controlling, options=(f"{mounted}:ro",)) as running:
            await_ports(running, health)
            claim(data, port)
            for probe in ("livez", "readyz"):
                assert answer(f"http://{ADDRESS}:{health}/{probe}")[0] == 200
            check_harmless(running)
            assert running.stop() == 0
        assert server.stop() == 0


def claim(data: Path, port: int) -> None:
    """Create a pool and a claim, and wait for the claim's address."""
    token = yaml.safe_load((data / "kubeconfig").read_text())["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cafile=data / "ca.pem")
    base = f"https://{ADDRESS}:{port}/apis/ipam.metal3.io/v1alpha1/namespaces/default"

    def ask(path: str, body: object = None) -> dict[str, object]:
        status, read = answer(f"{base}/{path}", context=trusted, user=f"Bearer {token}", body=body)
        assert status in (200, 201), read
        return dict(json.loads(read))

    pool = {"namePrefix": "lab", "pools": [{"subnet": "192.0.2.0/24"}]}
    for kind, spec in (("IPPool", pool), ("IPClaim", {"pool": {"name": "one"}})):
        head = {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "one"}}
        ask(f"{kind.lower()}s", {**head, "spec": spec})
    lab.wait_until(lambda: "address" in json.dumps(ask("ipclaims/one").get("status", {})), "the address of the claim")
    assert ask("ipaddresses/lab-192-0-2-1")["spec"]


def test_the_remote_api_answers_with_the_mounted_certificate(engine: containers.Engine, tmp_path: Path) -> None:
    own = authority.make_authority("images.example", time.time())
    key, request = authority.make_request("localhost")
    certificate = authority.issue(own, request, uuid="images", name="localhost", address=ADDRESS, now=time.time())
    (tmp_path / "rapi.pem").write_bytes(key + certificate)
    (tmp_path / "users").write_text("monitor s3cret read\n")
    (tmp_path / "authority.pem").write_bytes(own.certificates)
    for name in ("rapi.pem", "users"):
        (tmp_path / name).chmod(0o600)
        os.chown(tmp_path / name, containers.USER, containers.USER)
    files = tuple(f"--volume={tmp_path}/{name}:/var/lib/gantry/{name}:ro" for name in ("rapi.pem", "users"))
    port, networking = ports.free(), ports.free()
    arguments = (f"--bind={ADDRESS}", f"--port={port}", f"--neutron-port={networking}")
    trusted = ssl.create_default_context(cafile=tmp_path / "authority.pem")
    user = f"Basic {base64.b64encode(b'monitor:s3cret').decode()}"
    with engine.started("gantry-api", *arguments, options=files) as running:
        await_ports(running, port, networking)
        status, body = answer(f"https://{ADDRESS}:{port}/2/info", context=trusted, user=user)
        assert (status, json.loads(body)["code"]) == (502, 502)
        assert answer(f"https://{ADDRESS}:{port}/2/info", context=trusted)[0] == 401
        assert b"gantry_up 0.0" in answer(f"https://{ADDRESS}:{port}/metrics", context=trusted, user=user)[1]
        assert answer(f"https://{ADDRESS}:{networking}/", context=trusted)[0] == 200
        check_harmless(running)
        # Nobody rotates files in a container: both logs go to its output.
        assert f"the remote API listens on {ADDRESS} port {port}" in running.log
        assert '"GET /2/info HTTP/1.1" 502' in running.log
        assert running.stop() == 0


def test_the_tables_of_a_database_are_made(engine: containers.Engine, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, containers.USER, containers.USER)
    options = ("--entrypoint=/usr/bin/gantry-ipam", f"--volume={data}:/var/lib/gantry")
    url = "sqlite:///var/lib/gantry/ipam.db"
    assert engine.run("gantry-api", "check", url, options=options).returncode != 0
    prepared = engine.run("gantry-api", "prepare", url, options=options)
    assert (prepared.returncode, prepared.stderr) == (0, "")
    checked = engine.run("gantry-api", "check", url, options=options)
    assert (checked.returncode, checked.stdout) == (
        0,
        "the database /var/lib/gantry/ipam.db can be used by this version\n",
    )
    assert (data / "ipam.db").stat().st_uid == containers.USER
    unknown = engine.run("gantry-api", "check", "postgresql:///nowhere?host=/nowhere", options=options)
    assert "connection" in unknown.stderr
