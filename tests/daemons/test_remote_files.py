"""The files of a remote API with a user of its own: who may read them, and its certificate."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

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


def test_without_the_group_nothing_is_done(folders: paths.Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "number", {}.get)
    Path(folders.users).write_text("alice")
    before = rights(folders.users)
    asyncio.run(keep(folders))
    assert rights(folders.users) == before
    assert not Path(folders.issued_remote_certificate).exists()
