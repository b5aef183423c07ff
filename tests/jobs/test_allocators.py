"""Allocator programs on the master: how they are found, called and reported."""

import stat
from pathlib import Path

import pytest

from gantry import errors
from gantry.jobs import allocators
from gantry.runtime.real import RealRuntime

REQUEST = b'{"request": "allocate"}'


class AllocatorFolders:
    """Two folders with programs, and one for requests."""

    def __init__(self, path: Path) -> None:
        self.folders = path / "site", path / "shipped"
        self.scratch = path / "requests"
        for folder in (*self.folders, self.scratch):
            folder.mkdir()
        self.programs = allocators.Programs([str(folder) for folder in self.folders], str(self.scratch))

    def program(self, name: str, script: str, *, folder: int = 0, mode: int = 0o755) -> Path:
        file = self.folders[folder] / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(mode)
        return file

    async def run(self, name: str, *arguments: str) -> bytes:
        try:
            return await self.programs.run(RealRuntime(), name, REQUEST, arguments=arguments)
        finally:
            assert list(self.scratch.iterdir()) == []

    async def failure(self, name: str) -> errors.GantryError:
        with pytest.raises(errors.GantryError) as caught:
            await self.run(name)
        return caught.value


@pytest.fixture
def allocator_folders(tmp_path: Path) -> AllocatorFolders:
    return AllocatorFolders(tmp_path)


async def test_a_program_gets_the_request_in_a_private_file_and_its_output_is_the_answer(
    allocator_folders: AllocatorFolders,
) -> None:
    allocator_folders.program("hail", 'stat -c %a "$1"; cat "$1"; shift; echo " $*"')
    assert await allocator_folders.run("hail", "--seconds", "7") == b"600\n" + REQUEST + b" --seconds 7\n"


async def test_the_first_folder_that_has_a_program_counts(allocator_folders: AllocatorFolders) -> None:
    allocator_folders.program("hail", "echo shipped", folder=1)
    assert await allocator_folders.run("hail") == b"shipped\n"
    allocator_folders.program("hail", "echo site")
    assert await allocator_folders.run("hail") == b"site\n"


@pytest.mark.parametrize("name", ["other", "", "../site/hail", ".hail", "hail "])
async def test_a_name_that_no_folder_has_is_refused_with_the_folders(
    allocator_folders: AllocatorFolders, name: str
) -> None:
    for present in ("hail", ".hail", "hail "):
        allocator_folders.program(present, "echo never")
    error = await allocator_folders.failure(name)
    assert isinstance(error, errors.NotFoundError)
    assert str(error).startswith(f"no such allocator: {name}")
    assert str(allocator_folders.folders[0]) in error.hint
    assert str(allocator_folders.folders[1]) in error.hint


async def test_without_folders_the_error_says_so() -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        await allocators.Programs().run(RealRuntime(), "hail", REQUEST)
    assert "no folder" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("echo no nodes >&2; echo; echo ' left' >&2; echo answer; exit 3", "no nodes left"),
        ("echo answer; exit 3", "answer"),
        ("exit 3", "no output"),
    ],
)
async def test_a_program_that_fails_is_reported_with_what_it_said(
    allocator_folders: AllocatorFolders, script: str, output: str
) -> None:
    allocator_folders.program("hail", script)
    error = await allocator_folders.failure("hail")
    assert isinstance(error, errors.EnvironmentFaultError)
    assert error.message == f"allocator hail failed with exit code 3: {output}"


async def test_a_program_that_cannot_be_run_is_reported_with_the_reason(allocator_folders: AllocatorFolders) -> None:
    file = allocator_folders.program("hail", "echo never", mode=stat.S_IRUSR)
    error = await allocator_folders.failure("hail")
    assert isinstance(error, errors.EnvironmentFaultError)
    assert error.message == f"allocator {file} cannot be run: Permission denied"


async def test_a_program_that_does_not_answer_is_ended(
    allocator_folders: AllocatorFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocators, "TIMEOUT_SECONDS", 0.2)
    allocator_folders.program("hail", "exec sleep 600")
    error = await allocator_folders.failure("hail")
    assert isinstance(error, errors.EnvironmentFaultError)
    assert "allocator hail did not answer within" in error.message


async def test_a_request_that_cannot_be_written_is_reported_with_the_reason(
    allocator_folders: AllocatorFolders,
) -> None:
    allocator_folders.program("hail", "echo never")
    allocator_folders.scratch.rmdir()
    with pytest.raises(
        errors.EnvironmentFaultError, match=r"request to allocator hail cannot be written to .*: No such"
    ):
        await allocator_folders.programs.run(RealRuntime(), "hail", REQUEST)


async def test_a_program_may_remove_its_request(allocator_folders: AllocatorFolders) -> None:
    allocator_folders.program("hail", 'rm "$1"; echo answer')
    assert await allocator_folders.run("hail") == b"answer\n"


async def test_an_answer_counts_even_if_the_request_cannot_be_removed(
    allocator_folders: AllocatorFolders, caplog: pytest.LogCaptureFixture
) -> None:
    allocator_folders.program("hail", 'rm "$1"; mkdir "$1"; echo answer')
    assert await allocator_folders.programs.run(RealRuntime(), "hail", REQUEST) == b"answer\n"
    (record,) = caplog.records
    assert "stays: Is a directory" in record.getMessage()
