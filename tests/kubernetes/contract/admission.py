"""The admission webhook for a server without built-in rules."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests import ports
from tests.cluster import lab
from tests.kubernetes import webhooks
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends, programs

from gantry.kubernetes.api import schema

POOLS = "/apis/ipam.metal3.io/v1alpha1/namespaces/default/ippools"


@contextlib.contextmanager
def controllers(backend: backends.Backend, folder: Path, *options: str) -> Iterator[None]:
    """Run controllers, and provide the admission rules, on either server.

    It is one program: beside that of ``installed``, another would serve only half of the claims.
    """
    if backends.is_embedded(backend):
        with programs.controllers(backend.kubeconfig, folder, *options):
            yield
        return
    with installed(backend, folder, *options):
        yield


@contextlib.contextmanager
def installed(backend: backends.Backend, folder: Path, *options: str) -> Iterator[None]:
    """Provide the admission rules, on either server: on a real one, controllers with these options have the webhook."""
    if backends.is_embedded(backend):
        yield
        return
    port, authority = ports.free(), webhooks.certificate(folder)
    webhook = ("--webhook-cert-dir", str(folder), "--webhook-port", str(port))
    with programs.controllers(backend.kubeconfig, folder, *webhook, *options):
        asyncio.run(_install(backend, folder, webhooks.configuration(port, authority)))
        try:
            yield
        finally:
            asyncio.run(_remove(backend, folder))


async def _install(backend: backends.Backend, folder: Path, configuration: schema.Json) -> None:
    """Install the webhook configuration, and wait until it is effective."""
    entrance = await backends.entrance(backend, folder)
    async with entrance.session() as session, asyncio.timeout(lab.TIMEOUT):
        server = api.Caller(entrance.base, session)
        await server.add(webhooks.PATH, configuration)
        bad = api.pool(pools=[{"start": "10.0.0.9", "end": "10.0.0.1"}])
        while (await server.say("POST", f"{POOLS}?dryRun=All", bad)).status == 201:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _remove(backend: backends.Backend, folder: Path) -> None:
    entrance = await backends.entrance(backend, folder)
    async with entrance.session() as session:
        server = api.Caller(entrance.base, session)
        for name in (await server.get(webhooks.PATH)).names:
            await server.delete(f"{webhooks.PATH}/{name}")
