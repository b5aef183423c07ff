import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from tests.node import samples

from gantry import errors
from gantry.node.daemon import wiring
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.runtime import commands, paths
from gantry.runtime.real import RealRuntime
from gantry.runtime.real import disk as real_disk
from gantry.runtime.real import processes as real_processes

Outcome = commands.Completed | OSError

VERSION = commands.Completed(0, b"QEMU emulator version 7.2\nCopyright\n", b"")
RAN = commands.Completed(accelerator_probe.EXIT, accelerator_probe.MARKER, b"")


class Processes(real_processes.Processes):
    """A QEMU with the behaviour that a test sets; other programs fail."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome
        self.version: Outcome = VERSION
        self.probes = 0
        self.probed = asyncio.Event()

    async def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        timeout: float = 60.0,
        tracked: bool = False,
    ) -> commands.Completed:
        if accelerator_probe.QEMU not in arguments:
            return commands.Completed(1, b"", b"")
        outcome = self.version if "--version" in arguments else self.outcome
        if "--version" not in arguments:
            self.probes += 1
            self.probed.set()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome


class Disk(real_disk.Disk):
    """A disk with or without /dev/kvm."""

    device = True

    def exists(self, path: str) -> bool:
        return self.device if path == accelerator_probe.DEVICE else super().exists(path)


class Machine:
    def __init__(self, folders: paths.Paths, outcome: Outcome = RAN, *, device: bool = True) -> None:
        self.folders = folders
        self.runtime = RealRuntime("node1")
        self.processes = Processes(outcome)
        self.runtime.processes = self.processes
        self.runtime.disk = Disk()
        self.runtime.disk.device = device

    def accelerators(self, *, bootid: str = "b1") -> accelerator_probe.Accelerators:
        return accelerator_probe.Accelerators(self.runtime, self.folders, bootid=bootid)


async def test_kvm_is_chosen_where_a_guest_ran_with_it(folders: paths.Paths) -> None:
    assert await Machine(folders).accelerators().choose("auto") == "kvm"


@pytest.mark.parametrize(
    "outcome, reason",
    [
        (TimeoutError(), "a guest with kvm did not run within 5 s"),
        (commands.Completed(0, b"", b""), "QEMU ended with 0"),
        (commands.Completed(accelerator_probe.EXIT, b"GANTRY-6", b""), "QEMU ended with 33"),
        (
            commands.Completed(1, accelerator_probe.MARKER, b"x\nCould not access KVM\n"),
            "did not run: Could not access KVM",
        ),
    ],
)
async def test_a_device_that_opens_is_no_proof(folders: paths.Paths, outcome: Outcome, reason: str) -> None:
    accelerators = Machine(folders, outcome).accelerators()
    assert await accelerators.choose("auto") == "tcg"
    assert reason in (await accelerators.current()).reason
    with pytest.raises(errors.HypervisorError, match=f"accel=kvm cannot be used on node node1: .*{reason}"):
        await accelerators.choose("kvm")


async def test_without_the_device_nothing_is_tried(folders: paths.Paths) -> None:
    machine = Machine(folders, device=False)
    assert (await machine.accelerators().current()).reason == "there is no /dev/kvm"
    assert machine.processes.probes == 0


async def test_without_qemu_no_guest_can_run(folders: paths.Paths) -> None:
    machine = Machine(folders)
    machine.processes.version = FileNotFoundError(2, "No such file")
    with pytest.raises(errors.HypervisorError, match="cannot run guests: qemu-system-x86_64 is not installed"):
        await machine.accelerators().choose("auto")
    assert await machine.accelerators().choose("tcg") == "tcg"


async def test_the_answer_is_kept_until_the_machine_boots_or_qemu_changes(folders: paths.Paths) -> None:
    machine = Machine(folders)
    for _ in range(2):
        await machine.accelerators().current()
    assert machine.processes.probes == 1
    await machine.accelerators(bootid="b2").current()
    assert machine.processes.probes == 2
    machine.processes.version = commands.Completed(0, b"QEMU emulator version 8\n", b"")
    await machine.accelerators(bootid="b2").current()
    assert machine.processes.probes == 3


async def test_a_new_probe_can_be_asked_for(folders: paths.Paths) -> None:
    machine = Machine(folders, TimeoutError())
    accelerators = machine.accelerators()
    assert (await accelerators.current()).accelerator == "tcg"
    path = f"{folders.lib}/accelerator.json"
    kept = msgspec.json.decode(samples.read(path), type=accelerator_probe.Result)
    older = msgspec.structs.replace(kept, time=kept.time - 2 * accelerator_probe.MIN_PROBE_INTERVAL_SECONDS)
    samples.write(path, msgspec.json.encode(older).decode())
    machine.processes.outcome = RAN
    assert (await accelerators.current(again=True)).accelerator == "kvm"
    assert machine.processes.probes == 2


@pytest.mark.parametrize(("enabled", "probes"), [("fake\nkvm\n", 1), ("fake\n", 0), ("", 0)])
async def test_a_node_daemon_finds_out_by_itself_where_its_cluster_has_kvm(
    folders: paths.Paths, enabled: str, probes: int
) -> None:
    machine = Machine(folders)
    os.mkdir(folders.ssconf)
    samples.write(f"{folders.ssconf}/ssconf_hypervisor_list", enabled)
    ready = asyncio.Event()
    agent = wiring.node(machine.runtime, folders, software="test")
    serving = asyncio.create_task(agent.run("127.0.0.1", 0, ready=ready.set))
    try:
        async with asyncio.timeout(60):
            await ready.wait()
            if probes:
                await machine.processes.probed.wait()
    finally:
        serving.cancel()
        await asyncio.wait([serving])
    assert machine.processes.probes == probes


async def test_a_file_that_cannot_be_read_counts_as_none(folders: paths.Paths) -> None:
    samples.write(f"{folders.lib}/accelerator.json", "{")
    assert await Machine(folders).accelerators().choose("auto") == "kvm"


@pytest.mark.real
@pytest.mark.skipif(shutil.which(accelerator_probe.QEMU) is None, reason=f"{accelerator_probe.QEMU} is not installed")
async def test_the_boot_sector_gets_through_where_guests_run(folders: paths.Paths) -> None:
    accelerators = accelerator_probe.Accelerators(samples.runtime(), folders, bootid="")
    assert await accelerators.try_out("tcg") == ""
    assert len(accelerator_probe.SECTOR) == 512


@pytest.mark.skipif(shutil.which("as") is None or shutil.which("ld") is None, reason="no assembler")
async def test_the_boot_sector_is_what_its_source_says(folders: paths.Paths) -> None:
    source = os.path.join(os.path.dirname(accelerator_probe.__file__), "probe.S")
    run = samples.runtime().processes.run
    assembled, linked = f"{folders.run}/p.o", f"{folders.run}/p.bin"
    assert (await run(["as", "--64", "-o", assembled, source])).code == 0
    link = ["ld", "-m", "elf_x86_64", "-Ttext", "0x7c00", "--oformat", "binary", "-o", linked, assembled]
    assert (await run(link)).code == 0
    assert samples.read(linked) == accelerator_probe.SECTOR
