"""The program on the real network: a kubeconfig, an API server with TLS and client certificates, a claim."""

import argparse
import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import ports
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api

from gantry import errors, security
from gantry.daemons import kube
from gantry.kubernetes.controllers import kubeconfig as controllers_kubeconfig
from gantry.kubernetes.controllers import metrics
from gantry.runtime import real


def inline(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def kubeconfig(folder: Path, port: int, *, user: dict[str, object], **cluster: object) -> str:
    path = folder / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me", "namespace": "site"}}],
        "clusters": [{"name": "one", "cluster": {"server": f"https://127.0.0.1:{port}", **cluster}}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(json.dumps(config))
    return str(path)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 (what changes tells nobody)
        await asyncio.sleep(0.05)


def options(folder: Path, *more: str) -> argparse.Namespace:
    return kube.command_line().parse_args(
        ["controllers", "--run-folder", str(folder / "run"), "--health-port", "0", *more]
    )


async def test_controllers_bind_a_claim_of_a_server_that_asks_for_a_certificate(tmp_path: Path) -> None:
    runtime, port, health = real.RealRuntime(), ports.free(), ports.free()
    now = runtime.clock.now()
    authority = security.make_authority("test", now)
    key, request = security.make_request("api")
    certificate = security.issue(authority, request, uuid="api", name="api", address="127.0.0.1", now=now)
    (tmp_path / "node.pem").write_bytes(certificate)
    (tmp_path / "node.key").write_bytes(key)
    tls = security.node_server_context(
        str(tmp_path / "node.pem"), str(tmp_path / "node.key"), authority=authority.certificates
    )
    mine = security.issue_master(authority, now)
    path = kubeconfig(
        tmp_path,
        port,
        user={"client-certificate-data": inline(mine.certificate), "client-key-data": inline(mine.key)},
        **{"certificate-authority-data": inline(authority.certificates)},
    )
    served = api.Api()
    listening = await runtime.network.serve_http("127.0.0.1", port, served, tls=tls, body_limit=1 << 20)
    stop = asyncio.Event()
    target = controllers_kubeconfig.from_kubeconfig(runtime, path)
    assert target.namespace == "site"
    arguments = options(tmp_path, "--bind", "127.0.0.1", "--health-port", str(health))
    work = asyncio.ensure_future(kube.control(runtime, target, options=arguments, stop=stop))
    probe = runtime.network.http_client(tls=None)
    try:
        async with asyncio.timeout(60):
            served.known.create(server.pool())
            served.known.create(server.claim("one"))
            served.notify()
            await until(lambda: bool(server.address_of_claim(served.known, "one")))
            answer = await probe.request("GET", "127.0.0.1", health, "/readyz", timeout=60)
            assert answer.status == 200
            answer = await probe.request("GET", "127.0.0.1", health, "/metrics", timeout=60)
            assert b"\ngantry_kube_leader 1.0\n" in answer.body
            stop.set()
            await work
        (lease,) = [body for path, body in served.plain.items() if "leases" in path]
        assert isinstance(lease["spec"], dict)
        assert lease["spec"]["holderIdentity"] == ""
        assert not list((tmp_path / "run").iterdir())
    finally:
        work.cancel()
        await probe.close()
        await listening.close()


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"exec": {"command": "login"}}, {}, "exec"),
        ({"auth-provider": {"name": "x"}}, {}, "auth-provider"),
        ({}, {"proxy-url": "http://proxy"}, "proxy-url"),
        ({}, {"server": "unix:///run/api"}, "not a valid API server URL"),
        ({}, {"certificate-authority-data": "?"}, "base64"),
        ({}, {"certificate-authority": "missing.pem"}, "missing.pem"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, user: dict[str, object], cluster: dict[str, object], message: str
) -> None:
    path = kubeconfig(tmp_path, 1, user=user, **cluster)
    with pytest.raises(errors.ConfigurationError, match=message):
        controllers_kubeconfig.from_kubeconfig(real.RealRuntime(), path)


def test_a_context_is_chosen_by_name(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, 1, user={"token": "secret"})
    with pytest.raises(errors.ConfigurationError, match="available contexts: here"):
        controllers_kubeconfig.from_kubeconfig(real.RealRuntime(), path, context="there")
    assert controllers_kubeconfig.from_kubeconfig(real.RealRuntime(), path, context="here").token == "secret"


def test_files_that_a_kubeconfig_names_lie_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("authority")
    path = kubeconfig(tmp_path, 1, user={"tokenFile": "token"}, **{"certificate-authority": "ca.pem"})
    access = controllers_kubeconfig.from_kubeconfig(real.RealRuntime(), path)
    assert (access.authority, access.token_file) == ("authority", str(tmp_path / "token"))


async def test_a_certificate_that_is_none_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    access = controllers_kubeconfig.Access(host="api", port=1, certificate="no", key="key")
    with pytest.raises(errors.ConfigurationError, match="cannot be used"):
        await controllers_kubeconfig.tls(real.RealRuntime(), access, folder=str(tmp_path / "run"))
    assert not list((tmp_path / "run").iterdir())


def test_a_program_outside_of_a_pod_asks_for_a_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert kube.main(["controllers"]) == 1
    assert "--kubeconfig" in capsys.readouterr().err


def test_the_page_describes_every_option_and_every_metric() -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/kubernetes-controllers.md").read_text()
    defaults = vars(kube.command_line().parse_args(["controllers"]))
    names = {f"--{name.replace('_', '-')}" for name in defaults if name != "run"} - {"--leader-elect"}
    for name in (*names, "--no-leader-elect", *metrics.METRICS):
        assert f"`{name}`" in text, name
