"""The files of a remote API with a user of its own: who may read them, and its certificate."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from cryptography import x509

from gantry import security
from gantry.daemons import remote_files
from gantry.mastership import identity
from gantry.runtime import paths
from gantry.runtime.real import RealRuntime, groups
from gantry.state.store import transaction

GROUP = 54321

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another group")

NODE = SimpleNamespace(name="node1.example", primary_ip="192.0.2.1")
STORE = cast(
    "transaction.Store",
    SimpleNamespace(
        durable=SimpleNamespace(
            nodes={"uuid1": NODE}, the_cluster=SimpleNamespace(name="cluster.example", master_node="uuid1")
        )
    ),
)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> paths.Paths:
    monkeypatch.setattr(groups, "number", {"gantry-rapi": GROUP}.get)
    monkeypatch.setattr(remote_files, "CHECK_SECONDS", 0.01)
    own = paths.Paths.below(str(tmp_path))
    Path(own.lib).mkdir()
    asyncio.run(identity.create(RealRuntime(), own, "cluster.example"))
    return own


async def keep(folders: paths.Paths, *, seconds: float = 0.3) -> None:
    task = asyncio.ensure_future(remote_files.keep(RealRuntime(), folders, STORE))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])


def rights(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_gid, status.st_mode & 0o777


def test_the_master_issues_a_certificate_that_only_the_remote_api_and_root_read(folders: paths.Paths) -> None:
    asyncio.run(keep(folders))
    assert rights(folders.issued_remote_certificate) == (GROUP, 0o640)
    content = Path(folders.issued_remote_certificate).read_bytes()
    assert b"BEGIN CERTIFICATE" in content
    assert b"PRIVATE KEY" in content
    path = folders.issued_remote_certificate
    security.bootstrap_server_context(path, path)


def test_a_certificate_of_the_administrator_is_used_and_made_readable(folders: paths.Paths) -> None:
    for path in (folders.remote_certificate, folders.users):
        Path(path).write_text("content")
        Path(path).chmod(0o600)
    asyncio.run(keep(folders))
    assert not Path(folders.issued_remote_certificate).exists()
    assert rights(folders.remote_certificate) == rights(folders.users) == (GROUP, 0o640)


def test_keys_of_the_cluster_and_the_node_stay_roots(folders: paths.Paths) -> None:
    key = f"{folders.certificates}/node.key"
    Path(key).write_text("key")
    Path(key).chmod(0o600)
    asyncio.run(keep(folders))
    for path in (key, f"{folders.certificates}/authority.key"):
        assert rights(path) == (os.getgid(), 0o600)


def test_without_the_group_the_files_are_roots(folders: paths.Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "number", {}.get)
    Path(folders.users).write_text("alice")
    before = rights(folders.users)
    asyncio.run(keep(folders))
    assert rights(folders.users) == before
    assert rights(folders.issued_remote_certificate) == (os.getgid(), 0o600)


def test_the_certificate_of_the_remote_api_names_the_machine_and_localhost(folders: paths.Paths) -> None:
    asyncio.run(keep(folders))
    certificate = x509.load_pem_x509_certificate(Path(folders.issued_remote_certificate).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [
        "192.0.2.1", "node1.example", "cluster.example", "localhost", "127.0.0.1", "::1",
    ]  # fmt: skip


class _Clock:
    """A clock whose sleeps do some work, each its own; the next one ends the task."""

    def __init__(self, *work: Callable[[], object]) -> None:
        self._work = iter(work)
        self.seconds = 0.0

    def now(self) -> float:
        return RealRuntime().clock.now()

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        for work in self._work:
            work()
            return
        raise asyncio.CancelledError


def test_the_certificate_is_issued_again_every_day_and_when_the_authorities_change(folders: paths.Paths) -> None:
    issued, trusted = Path(folders.issued_remote_certificate), Path(f"{folders.certificates}/authority.pem")
    seen: list[bytes] = []
    other = security.make_authority("cluster.example", RealRuntime().clock.now())
    runtime = RealRuntime()

    def look() -> None:
        seen.append(issued.read_bytes())

    def change() -> None:
        look()
        trusted.write_bytes(trusted.read_bytes() + other.certificates)

    def wait() -> None:
        look()
        clock.seconds += remote_files.ISSUE_SECONDS

    clock = _Clock(look, change, wait, look)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(remote_files.keep(cast("RealRuntime", _With(runtime, clock)), folders, STORE))
    first, second, third, fourth = seen
    assert first == second
    assert len({second, third, fourth}) == 3


class _With:
    """A runtime with another clock."""

    def __init__(self, runtime: RealRuntime, clock: _Clock) -> None:
        self.disk, self.random, self.clock = runtime.disk, runtime.random, clock
