"""What the contract suite runs on: an API server as a process, the embedded one or a real one."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp
from tests.kubernetes import server_process

from gantry.kubernetes.controllers import kubeconfig
from gantry.runtime import real


class Backend(Protocol):
    """A server that can be killed and restarted; ``version`` is its Kubernetes release."""

    @property
    def kubeconfig(self) -> Path: ...
    @property
    def version(self) -> tuple[int, int]: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def python(self, script: Path) -> dict[str, object]: ...


def is_embedded(backend: Backend) -> bool:
    """Return whether a backend has the admission rules built in."""
    return isinstance(backend, server_process.ServerProcess)


@dataclass(frozen=True)
class Entrance:
    """Address and credentials of a backend."""

    base: str
    headers: dict[str, str]
    tls: ssl.SSLContext | None
    version: tuple[int, int]

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=self.tls or True, limit=0)
        async with aiohttp.ClientSession(headers=self.headers, connector=connector) as session:
            yield session


async def entrance(backend: Backend, folder: Path) -> Entrance:
    """Read the kubeconfig of a backend; ``folder`` is for temporary files."""
    runtime = real.RealRuntime()
    config = kubeconfig.from_kubeconfig(runtime, str(backend.kubeconfig))
    headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
    scheme = "https" if config.is_tls else "http"
    tls = await kubeconfig.tls(runtime, config, folder=str(folder))
    return Entrance(f"{scheme}://{config.host}:{config.port}{config.prefix}", headers, tls, backend.version)
