"""OS definitions, with scripts that really run."""

import asyncio
import os
import pathlib
from collections.abc import Callable

import pytest
from tests.node import samples

from gantry import errors
from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.node.os import os_definitions
from gantry.rpc import calls
from gantry.runtime import paths

Write = Callable[..., str]


@pytest.fixture
def definitions(folders: paths.Paths) -> os_definitions.Definitions:
    runtime = samples.runtime()
    registry = wiring.registry(
        runtime, folders, accelerators=accelerator_probe.Accelerators(runtime, folders, bootid="")
    )
    return os_definitions.Definitions(runtime, folders, registry=registry)


@pytest.fixture
def write(folders: paths.Paths) -> Write:
    """Return what writes an OS definition: file names with dots replaced, and their content."""

    def make(name: str = "busybox", *, where: str = "", **files: str) -> str:
        folder = f"{where or folders.os_definitions[0]}/{name}"
        os.makedirs(folder)
        for key, content in {"ganeti_api_version": "20\n10\n", **files}.items():
            path = f"{folder}/{key.replace('_list', '.list')}"
            samples.write(path, content, mode=0o755 if content.startswith("#!") else 0o644)
        return folder

    return make


SCRIPT = "#!/bin/sh\n"


def vm(folders: paths.Paths, *, definition: str = "busybox") -> calls.Instance:
    return samples.instance(definition=definition, disks=(samples.disk(folders),), nics=(samples.nic(),))


@pytest.mark.promise("cluster-123")
def test_a_definition_needs_a_create_script_and_a_known_version_and_nothing_else(
    definitions: os_definitions.Definitions, write: Write
) -> None:
    write(create=SCRIPT)
    (definition,) = definitions.diagnose()
    assert (definition.name, definition.problem, definition.scripts, definition.api_versions) == (
        "busybox",
        "",
        ("create",),
        (20, 10),
    )


def test_what_a_definition_declares_is_listed(definitions: os_definitions.Definitions, write: Write) -> None:
    write(
        create=SCRIPT,
        export=SCRIPT,
        variants_list="# all\nsmall\n\nbig\n",
        parameters_list="mirror\t where packages come from\nsize\n",
        hypervisors="kvm\nfake\n",
    )
    definition = definitions.find("busybox")
    assert definition.variants == ("small", "big")
    assert definition.parameters == (("mirror", "where packages come from"), ("size", ""))
    assert definition.hypervisors == ("kvm", "fake")
    assert definition.scripts == ("create", "export")


@pytest.mark.parametrize(
    "files, problem",
    [
        ({}, "the script create is missing"),
        ({"create": "no script"}, "the script create is not executable"),
        ({"create": SCRIPT, "export": "no script"}, "the script export is not executable"),
        (
            {"create": SCRIPT, "ganeti_api_version": "5\n"},
            "ganeti_api_version has none of the supported versions 20, 15, 10",
        ),
    ],
)
async def test_an_invalid_definition_is_listed_with_its_problem_and_not_used(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write, files: dict[str, str], problem: str
) -> None:
    write(**files)
    (definition,) = definitions.diagnose()
    assert definition.problem == problem
    with pytest.raises(errors.WrongStateError, match=problem):
        await definitions.create(vm(folders), reinstall=False, debug=0)


def test_the_first_folder_of_the_search_path_wins(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    first, second, _ = folders.os_definitions
    write(create=SCRIPT)
    write(where=second, create=SCRIPT)
    write("other", where=second, create=SCRIPT)
    assert [(definition.name, definition.path) for definition in definitions.diagnose()] == [
        ("busybox", f"{first}/busybox"),
        ("other", f"{second}/other"),
    ]


@pytest.mark.parametrize("name", ["nothing", "", "../etc", ".."])
def test_an_unknown_name_is_not_found(definitions: os_definitions.Definitions, write: Write, name: str) -> None:
    write(create=SCRIPT)
    with pytest.raises(errors.NotFoundError, match="has no OS definition"):
        definitions.find(name)


@pytest.mark.promise("cluster-115", "cluster-116", "cluster-117", "cluster-118")
async def test_the_create_script_runs_with_the_instance_as_its_whole_environment(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    # a shell hides names with a colon from its children, so the script reads what it was started with
    folder = write(create=SCRIPT + "tr '\\0' '\\n' < /proc/$$/environ; pwd; cat; echo told the user >&2\n")
    disk = samples.disk(folders)
    log = await definitions.create(vm(folders), reinstall=False, debug=1)
    assert log.startswith(f"{folders.log}/os/add-busybox-vm1-")
    lines = set(samples.read(log).decode().splitlines())
    assert {
        "OS_API_VERSION=20",
        "INSTANCE_NAME=vm1",
        "HYPERVISOR=kvm",
        "DISK_COUNT=1",
        f"DISK_0_PATH={disk.logical_id[-1]}",
        "DISK_0_ACCESS=rw",
        "DISK_0_ACCESS_LETTER=W",
        "DISK_0_FRONTEND_TYPE=paravirtual",
        "DISK_0_BACKEND_TYPE=file:loop",
        "NIC_COUNT=1",
        "NIC_0_MAC=aa:00:00:00:00:00",
        "NIC_0_IP=192.0.2.7",
        "NIC_0_IP:1=2001:db8::7",
        "NIC_0_BRIDGE=br0",
        "NIC_0_FRONTEND_TYPE=paravirtual",
        "DEBUG_LEVEL=1",
        folder,
        "told the user",
    } <= lines
    assert not any(line.startswith("HOME=") for line in lines)


async def test_a_failing_script_says_what_it_said_and_where_the_rest_is(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT + "seq 1 20; echo no mirror >&2; exit 3\n")
    with pytest.raises(
        errors.ExecutionError, match=r"failed with exit code 3: .*20; no mirror; .*log/os/add"
    ) as caught:
        await definitions.create(vm(folders), reinstall=False, debug=0)
    assert "; 15;" not in str(caught.value)


def text(path: str) -> str:
    return pathlib.Path(path).read_text()


async def test_a_variant_that_the_master_accepted_is_passed_to_the_script(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create="#!/bin/sh\necho variant $OS_VARIANT >&2\n", variants_list="small\n")
    log = await definitions.create(vm(folders, definition="busybox+huge"), reinstall=False, debug=0)
    assert "variant huge" in text(log)


@pytest.mark.promise("cluster-124")
async def test_a_definition_for_other_hypervisors_is_refused(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT, hypervisors="xen-pvm\n")
    with pytest.raises(errors.InvalidError, match=r"does not support hypervisor kvm.*xen-pvm"):
        await definitions.create(vm(folders), reinstall=False, debug=0)


@pytest.mark.promise("cluster-124")
@pytest.mark.parametrize("listed", ["", "kvm\n", "# which\nxen-pvm\n\nkvm\n"])
async def test_a_definition_serves_each_hypervisor_that_it_names_and_without_a_list_any(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write, listed: str
) -> None:
    write(create=SCRIPT + "echo installed\n", hypervisors=listed)
    log = await definitions.create(vm(folders), reinstall=False, debug=0)
    assert b"installed" in samples.read(log)


@pytest.mark.promise("cluster-119")
async def test_the_rename_script_gets_both_names_and_the_folder_of_the_network_files(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT, rename=SCRIPT + 'env; ls "$INSTANCE_SEED"\n')
    lines = set(samples.read(await definitions.rename(vm(folders), old="vm0", debug=0)).decode().splitlines())
    assert {"OLD_INSTANCE_NAME=vm0", "INSTANCE_NAME=vm1", "network-config", "networkd", "interfaces"} <= lines
    assert os.listdir(f"{folders.run}/seeds") == []


async def test_a_definition_without_a_script_refuses_only_what_needs_it(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT)
    await definitions.create(vm(folders), reinstall=False, debug=0)
    await definitions.verify(vm(folders))
    with pytest.raises(errors.WrongStateError, match=r"OS definition busybox in .* has no script rename"):
        await definitions.rename(vm(folders), old="vm0", debug=0)


async def test_a_verify_script_refuses_with_its_words(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT, verify=SCRIPT + '[ "$OSP_MIRROR" = mine ] || { echo "$1: not mine" >&2; exit 1; }\n')
    with pytest.raises(errors.InvalidError, match="OS busybox rejects its parameters: parameters: not mine"):
        await definitions.verify(vm(folders))


async def until_gone(pid: int) -> None:
    """Wait for the end of a child that was killed: it comes when the kernel has time for it."""
    async with asyncio.timeout(60):
        while samples.runtime().processes.alive(pid):  # noqa: ASYNC110 - nobody hears of it
            await asyncio.sleep(0.01)


async def test_a_script_that_hangs_is_killed_with_its_children(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(create=SCRIPT + "sleep 600 & echo $! > pid.new; mv pid.new pid; wait\n")
    seconds = 1
    while "pid" not in os.listdir(folder):  # a busy machine may not come so far in a second
        assert seconds < 100, "the script does not begin"
        monkeypatch.setattr(calls.OsAdd, "LIMIT", float(seconds))
        with pytest.raises(errors.ExecutionError, match=f"timed out after {seconds} s and was killed"):
            await definitions.create(vm(folders), reinstall=False, debug=0)
        seconds *= 3
    await until_gone(int(samples.read(f"{folder}/pid")))


async def test_a_script_that_is_canceled_is_killed_with_its_children(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    folder, whole = write(create=SCRIPT + "sleep 600 & echo $! > pid.new; mv pid.new pid; wait\n"), vm(folders)
    running = asyncio.ensure_future(definitions.create(whole, reinstall=False, debug=0))
    async with asyncio.timeout(60):
        while "pid" not in os.listdir(folder):  # noqa: ASYNC110 - a program makes it
            await asyncio.sleep(0.01)
    await definitions.cancel("another")
    assert not running.done()
    for _ in range(2):
        await definitions.cancel(whole.uuid)
    with pytest.raises(errors.ExecutionError, match=f"the create script of OS busybox for {whole.name} was cancelled"):
        await running
    await until_gone(int(samples.read(f"{folder}/pid")))


async def test_a_call_that_arrives_twice_does_not_run_the_script_beside_itself(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    folder = write(create=SCRIPT + "mkdir busy || touch overlap; sleep 0.3; rmdir busy\n")
    await asyncio.gather(*(definitions.create(vm(folders), reinstall=False, debug=0) for _ in range(2)))
    assert "overlap" not in os.listdir(folder)


async def test_what_a_script_said_moves_no_terminal(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT + "printf 'a\\033[2Jb\\000c' >&2; exit 1\n")
    with pytest.raises(errors.ExecutionError, match=r"exit code 1: a\?\[2Jb\?c"):
        await definitions.create(vm(folders), reinstall=False, debug=0)


async def test_of_a_script_that_prints_megabytes_the_end_is_kept(
    definitions: os_definitions.Definitions, folders: paths.Paths, write: Write
) -> None:
    write(create=SCRIPT + "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1\n")
    with pytest.raises(errors.ExecutionError, match="the end") as caught:
        await definitions.create(vm(folders), reinstall=False, debug=0)
    assert len(str(caught.value)) < 4000
    (log,) = os.listdir(f"{folders.log}/os")
    assert os.stat(f"{folders.log}/os/{log}").st_size < 2 << 20
