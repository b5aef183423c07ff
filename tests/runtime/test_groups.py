"""Which groups may use a UNIX socket and a file, with real users, groups and access lists."""

import asyncio
import grp
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gantry.runtime import bytestream
from gantry.runtime.real import RealRuntime, groups

READERS, ADMINISTRATORS, ANOTHER_USER, USER = 54321, 54322, 54323, 54324

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(autouse=True)
def machine_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has two groups; the kernel knows their numbers only."""
    known = {"readers": READERS, "administrators": ADMINISTRATORS}
    monkeypatch.setattr(groups, "number", known.get)


def test_a_group_has_the_number_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    own = grp.getgrgid(os.getgid())
    assert groups.number(own.gr_name) == own.gr_gid
    assert groups.number("no:such:group") is None


CONNECT = """
import os, socket, sys
os.setgroups([{groups}])
os.setgid({group})
os.setuid({user})
connection = socket.socket(socket.AF_UNIX)
try:
    connection.connect("socket")
except PermissionError:
    sys.exit(3)
connection.recv(1)
"""


async def connect(folder: Path, names: Sequence[str], *, group: int, more: Sequence[int]) -> list[bool | None] | None:
    """Return what the server sees of a client's groups, None if it may not connect."""
    os.chmod(folder, 0o755)
    seen: list[bool | None] = []
    runtime = RealRuntime()

    async def handler(reader: bytestream.Reader, writer: bytestream.Writer) -> None:
        seen.extend(runtime.network.is_member(writer, name) for name in ("readers", "administrators", "missing"))
        writer.close()

    server = await runtime.network.serve_unix(str(folder / "socket"), handler, mode=0o660, limit=100, groups=names)
    code = CONNECT.format(groups=", ".join(map(str, more)), group=group, user=USER)
    try:
        ran = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], timeout=60, cwd=folder, check=False)
        assert ran.returncode in (0, 3)
        return None if ran.returncode else seen
    finally:
        await server.close()


@only_root
@pytest.mark.parametrize(
    ("group", "more", "expected"),
    [
        (ANOTHER_USER, [], None),
        (READERS, [], [True, False, None]),
        (ANOTHER_USER, [READERS], [True, False, None]),
        (ANOTHER_USER, [ADMINISTRATORS], [False, True, None]),
        (READERS, [ANOTHER_USER, ADMINISTRATORS], [True, True, None]),
        # More groups than an option of a socket holds; this user is not in the machine's database.
        (ADMINISTRATORS, list(range(60000, 60300)), [False, True, None]),
    ],
)
async def test_members_of_the_groups_connect_and_the_kernel_says_of_which(
    tmp_path: Path, group: int, more: list[int], expected: list[bool | None] | None
) -> None:
    names = ("readers", "administrators", "missing")
    assert await connect(tmp_path, names, group=group, more=more) == expected


@only_root
async def test_without_such_groups_only_the_owner_and_its_group_connect(tmp_path: Path) -> None:
    assert await connect(tmp_path, ("missing",), group=READERS, more=[ADMINISTRATORS]) is None
    assert await connect(tmp_path, (), group=0, more=[]) == [False, False, None]


@only_root
@pytest.mark.parametrize("names", [("readers", "administrators"), ("missing", "administrators", "readers")])
async def test_without_access_lists_the_group_with_the_lowest_number_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str]
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    assert await connect(tmp_path, names, group=READERS, more=[]) == [True, False, None]
    assert await connect(tmp_path, names, group=ADMINISTRATORS, more=[]) is None


@only_root
def test_a_shared_file_is_readable_by_the_group_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "users"
    assert groups.share(str(path), "readers") is False
    path.write_text("alice")
    path.chmod(0o604)
    assert groups.share(str(path), "missing") is False
    assert groups.share(str(path), "readers") is True
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, READERS, 0o640)
    assert groups.share(str(path), "readers") is False


@only_root
@pytest.mark.parametrize(("group", "mode"), [(READERS, 0o600), (READERS, 0o644), (ADMINISTRATORS, 0o640)])
def test_a_file_of_the_group_with_another_mode_or_of_another_group_is_changed(
    tmp_path: Path, group: int, mode: int
) -> None:
    path = tmp_path / "users"
    path.touch()
    os.chown(path, 0, group)
    path.chmod(mode)
    assert groups.share(str(path), "readers") is True
    assert (path.stat().st_gid, path.stat().st_mode & 0o777) == (READERS, 0o640)
