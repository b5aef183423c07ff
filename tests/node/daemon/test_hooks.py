"""Hook scripts of a node, with scripts that really run."""

import os
from collections.abc import Callable

import pytest
from tests.node import samples

from gantry import errors
from gantry.node.daemon import hooks
from gantry.rpc import calls
from gantry.runtime import paths

Write = Callable[..., str]
CALL = calls.HooksRun(path="instance-add", phase="pre", environment={"GANETI_INSTANCE_NAME": "vm1"})


@pytest.fixture
def scripts(folders: paths.Paths) -> hooks.Hooks:
    return hooks.Hooks(samples.runtime(), folders)


@pytest.fixture
def write(folders: paths.Paths) -> Write:
    def make(name: str, commands: str, *, where: str = "instance-add-pre.d", mode: int = 0o755) -> str:
        folder = f"{folders.etc}/hooks/{where}"
        os.makedirs(folder, exist_ok=True)
        samples.write(f"{folder}/{name}", f"#!/bin/sh\n{commands}\n", mode=mode)
        return f"{folder}/{name}"

    return make


async def test_a_node_without_hooks_runs_none(scripts: hooks.Hooks) -> None:
    assert await scripts.run(CALL) == ()


async def test_scripts_run_by_name_one_after_the_other_and_all_of_them(
    scripts: hooks.Hooks, folders: paths.Paths, write: Write
) -> None:
    trail = f"{folders.run}/trail"
    for name in ("20-second", "10-first", "30_Third"):
        write(name, f"echo {name} >> {trail}; echo {name}")
    write("15-refuses", "echo no room; echo at all >&2; exit 3")
    results = await scripts.run(CALL)
    assert [(result.script, result.outcome, result.output) for result in results] == [
        ("10-first", "succeeded", "10-first"),
        ("15-refuses", "failed", "no room\nat all"),
        ("20-second", "succeeded", "20-second"),
        ("30_Third", "succeeded", "30_Third"),
    ]
    assert samples.read(trail).decode().split() == ["10-first", "20-second", "30_Third"]


async def test_what_is_no_script_by_the_rules_of_run_parts_is_skipped(
    scripts: hooks.Hooks, folders: paths.Paths, write: Write
) -> None:
    write("10-data", "exit 1", mode=0o644)
    folder = write("README.txt", "exit 1").rpartition("/")[0]
    write("20-old~", "exit 1")
    os.mkdir(f"{folder}/folder")
    os.symlink("/nonexistent", f"{folder}/dangling")
    write("other", "exit 1", where="instance-add-post.d")
    results = await scripts.run(CALL)
    assert {result.script for result in results} == {"10-data", "README.txt", "20-old~", "folder", "dangling"}
    assert {result.outcome for result in results} == {"skipped"}


async def test_a_script_has_the_given_environment_and_nothing_else(
    scripts: hooks.Hooks, folders: paths.Paths, write: Write
) -> None:
    write("env", "tr '\\0' '\\n' < /proc/$$/environ; pwd; cat; tty > /dev/null || echo no terminal")
    (results,) = await scripts.run(CALL)
    assert set(results.output.splitlines()) == {
        "PATH=/sbin:/bin:/usr/sbin:/usr/bin",
        f"GANETI_DATA_DIR={folders.lib}",
        "GANETI_INSTANCE_NAME=vm1",
        "/",
        "no terminal",
    }


async def test_of_much_output_the_end_is_kept(scripts: hooks.Hooks, write: Write) -> None:
    write("talks", "seq 1 100000")
    (results,) = await scripts.run(CALL)
    assert len(results.output) < hooks.OUTPUT_LIMIT + 10
    assert results.output.startswith("... ")
    assert results.output.endswith("\n100000")


async def test_a_script_that_hangs_is_stopped_and_those_after_it_have_failed_too(
    scripts: hooks.Hooks, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "TIMEOUT_SECONDS", 0.3)
    write("10-hangs", "sleep 60")
    write("20-late", "exit 0")
    results = await scripts.run(CALL)
    assert [result.outcome for result in results] == ["failed", "failed"]
    assert "timed out: killed after" in results[0].output
    assert "not run: " in results[1].output


async def test_a_file_that_cannot_be_run_has_failed(scripts: hooks.Hooks, write: Write) -> None:
    samples.write(write("broken", ""), "#!/nonexistent/interpreter\n", mode=0o755)
    (results,) = await scripts.run(CALL)
    assert results.outcome == "failed"
    assert "cannot be run: [Errno 2] No such file or directory" in results.output


@pytest.mark.parametrize("value", ["a\0b", "x" * (1 << 22)])
async def test_a_value_that_no_environment_can_hold_does_not_get_round_a_script(
    scripts: hooks.Hooks, write: Write, value: str
) -> None:
    write("10-check", "exit 0")
    (results,) = await scripts.run(calls.HooksRun(path="instance-add", phase="pre", environment={"GANETI_TAGS": value}))
    assert results.outcome == "failed"
    assert "cannot be run" in results.output


@pytest.mark.parametrize("path", ["../etc", "instance_add", "", "a/b"])
async def test_a_path_leads_nowhere_but_to_hooks(scripts: hooks.Hooks, path: str) -> None:
    with pytest.raises(errors.InvalidError, match="is not a valid hooks path"):
        await scripts.run(calls.HooksRun(path=path, phase="pre", environment={}))
