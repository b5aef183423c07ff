"""The webhook port: TLS, renewal of the certificate, errors of a certificate."""

import argparse
import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import ports
from tests.kubernetes import webhooks
from tests.kubernetes.apiserver.test_webhook import reviewed
from tests.kubernetes.claims import server

from gantry import errors, security
from gantry.daemons import certificate_files, kube, webhook
from gantry.kubernetes.controllers import client, controllers, kubeconfig, metrics, rate_limit, reflector
from gantry.runtime import real

TIMEOUT_SECONDS = 60


def options(folder: Path, port: int) -> argparse.Namespace:
    return kube.command_line().parse_args(
        ["controllers", "--bind", webhooks.ADDRESS, "--webhook-cert-dir", str(folder), "--webhook-port", str(port)]
    )


@pytest.fixture
async def idle() -> AsyncIterator[controllers.Controllers]:
    """Controllers with an empty cache."""
    runtime, counts = real.RealRuntime(), metrics.Metrics()
    limit = rate_limit.RateLimit(runtime.clock, per_second=1.0, burst=1)
    api_client = client.Client(runtime, kubeconfig.Access(host="x", port=1, is_tls=False), limit=limit, counts=counts)
    yield controllers.Controllers(runtime, api_client, scope=reflector.Scope(), counts=counts)
    await api_client.close()


@contextlib.asynccontextmanager
async def serving(folder: Path, port: int, serving_controllers: controllers.Controllers) -> AsyncIterator[None]:
    work = asyncio.ensure_future(webhook.serve(real.RealRuntime(), options(folder, port), serving_controllers))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.wait({work})


async def allowed(port: int, authority: bytes, body: bytes) -> object:
    """Send a request that trusts a certificate authority; None if TLS fails or nothing listens yet."""
    context = security.outside_client_context(authority=authority.decode())
    http = real.RealRuntime().network.http_client(tls=context)
    try:
        answer = await http.request("POST", webhooks.ADDRESS, port, "/validate", body=body, timeout=60)
        return json.loads(answer.body)["response"]["allowed"]
    except (OSError, ssl.SSLError):
        return None
    finally:
        await http.close()


async def until_trusted(port: int, authority: bytes, body: bytes) -> None:
    while await allowed(port, authority, body) is None:  # noqa: ASYNC110 (a process of our own would tell nobody)
        await asyncio.sleep(0.05)


async def test_reviews_are_answered_and_a_renewed_certificate_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    idle: controllers.Controllers,
) -> None:
    monkeypatch.setattr(certificate_files, "CHECK_SECONDS", 0.05)
    port, first = ports.free(), webhooks.certificate(tmp_path)
    claim = {"uid": "u", "operation": "CREATE", "kind": {"group": "ipam.metal3.io", "kind": "IPClaim"}}
    good, bad = (json.dumps(reviewed({**claim, "object": server.claim("c", of=of)})).encode() for of in ("pool-1", ""))
    async with asyncio.timeout(TIMEOUT_SECONDS), serving(tmp_path, port, idle):
        await until_trusted(port, first, good)
        assert await allowed(port, first, bad) is False
        (tmp_path / "tls.crt").write_text("half of it")
        while "cannot be used" not in caplog.text:  # noqa: ASYNC110 (the log tells nobody)
            await asyncio.sleep(0.05)
        assert await allowed(port, first, good) is True
        second = webhooks.certificate(tmp_path)
        await until_trusted(port, second, good)
        assert await allowed(port, first, good) is None


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_certificate_that_cannot_be_used_ends_the_program_with_its_folder(
    tmp_path: Path, content: str | None, idle: controllers.Controllers
) -> None:
    if content:
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).write_text(content)
    with pytest.raises(errors.ConfigurationError, match=tmp_path.name):
        await webhook.serve(real.RealRuntime(), options(tmp_path, 0), idle)
