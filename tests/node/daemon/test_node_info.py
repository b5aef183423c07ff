import re
from typing import cast

import pytest
from tests.node import samples

from gantry import errors, security
from gantry.node import drivers
from gantry.node.daemon import node_info, wiring
from gantry.node.hypervisors.kvm import accelerator_probe
from gantry.node.hypervisors.xen import requirements
from gantry.node.membership import ssconf
from gantry.rpc import calls
from gantry.runtime import commands, paths, simulated
from gantry.runtime.simulated import processes

MEMORY = b"MemTotal:       2048000 kB\nMemFree:         100000 kB\nMemAvailable:    1024000 kB\n"
PROCESSORS = b"processor\t: 0\nphysical id\t: 0\nflags\t: a b\n\nprocessor\t: 1\nphysical id\t: 1\n"


def test_the_kernels_values_are_reported() -> None:
    where = paths.Paths.below("/g")
    with simulated.World(seed=1) as world:
        machine = world.machine("node1")

        async def look() -> tuple[calls.NodeStatus, calls.NodeStatus]:
            for path, content in {
                node_info.MEMORY: MEMORY,
                node_info.PROCESSORS: PROCESSORS,
                node_info.BOOT_ID: b"b-1\n",
            }.items():
                await machine.disk.make_directory(path.rpartition("/")[0])
                await machine.disk.write(path, content)
            await machine.disk.make_directory(where.lib)
            accelerators = accelerator_probe.Accelerators(machine, where, bootid="")
            registry = wiring.registry(machine, where, accelerators=accelerators)
            plain, probing = [
                await node_info.status(machine.disk, registry, accelerators=accelerators, request=request)
                for request in (calls.NodeInfo(), calls.NodeInfo(probe=True))
            ]
            return plain, probing

        report, probed = world.run(look())
    assert (report.memory_total, report.memory_free, report.memory_node) == (2000, 1000, 1000)
    assert (report.cpu_total, report.cpu_sockets, report.bootid) == (2, 2, "b-1")
    assert [(unit.kind, unit.path) for unit in report.storage] == [("file", where.file_storage)]
    assert (report.accelerator_reason, probed.accelerator_reason) == ("", "qemu-system-x86_64 is not installed")


def test_memory_is_what_the_hypervisor_has_that_the_kernel_runs_on() -> None:
    where = paths.Paths.below("/g")
    output = b"host                   : node1\ntotal_memory           : 16383\nfree_memory            : 9000\n"

    async def xl(call: processes.Invocation) -> commands.Completed:
        assert list(call.arguments) == ["xl", "info"]
        return commands.Completed(0, output, b"")

    with simulated.World(seed=1) as world:
        machine = world.machine("node1")
        machine.processes.programs["xl"] = xl

        async def look(hypervisor: bytes) -> tuple[int, int]:
            for path, content in ((node_info.MEMORY, MEMORY), (requirements.HYPERVISOR_TYPE, hypervisor)):
                await machine.disk.make_directory(path.rpartition("/")[0])
                await machine.disk.write(path, content)
            accelerators = accelerator_probe.Accelerators(machine, where, bootid="")
            registry = wiring.registry(machine, where, accelerators=accelerators)
            status = await node_info.status(
                machine.disk, registry, accelerators=accelerators, request=calls.NodeInfo(storage=())
            )
            return status.memory_total, status.memory_free

        assert world.run(look(b"xen\n")) == (16383, 9000)
        assert world.run(look(b"other\n")) == (2000, 1000)


class _NoBridge:
    """A NIC driver on a node without bridges."""

    async def validate(self, nic: calls.Nic) -> None:
        raise errors.EnvironmentFaultError(f"NIC {nic.index}: node node1 has no bridge {nic.link}")


class _Registry:
    def nic(self, mode: str) -> _NoBridge:
        assert mode == "bridged"
        return _NoBridge()


async def test_a_missing_bridge_is_reported_for_its_network() -> None:
    request = calls.NodeVerify(bridges=("br9",), nics=(samples.nic(link="br8"),))
    registry = cast("drivers.Registry", _Registry())
    assert await node_info.missing_bridges(registry, request) == [
        "node node1 has no bridge br9",
        "network net1: node node1 has no bridge br8",
    ]


@pytest.mark.real
async def test_verification_names_what_is_wrong_and_nothing_else(folders: paths.Paths, namespace: str) -> None:
    runtime = samples.runtime(namespace=namespace)
    registry = wiring.registry(
        runtime, folders, accelerators=accelerator_probe.Accelerators(runtime, folders, bootid="")
    )
    files = ssconf.Files(runtime.disk, folders)
    await files.write({"master_node": "node1"})
    now = runtime.clock.now()
    good = calls.NodeVerify(
        hypervisors=("fake",), bridges=("br0",), ssconf={"master_node": calls.digest_of("node1")}, now=now
    )
    bad = calls.NodeVerify(
        hypervisors=("fake", "vax"),
        bridges=("br0", "br9"),
        nics=(samples.nic(link="br8"),),
        ssconf={"master_node": calls.digest_of("n2")},
        now=now - 1000,
    )
    report = await node_info.verify(runtime, registry, files=files, lib=folders.lib, request=good)
    assert set(report) == {"hypervisor", "bridges", "filelist", "time", "storage", "certificates"}
    assert not any(report.values())
    report = await node_info.verify(runtime, registry, files=files, lib=folders.lib, request=bad)
    assert [len(complaints) for complaints in report.values()] == [1, 2, 1, 1, 0, 0]
    assert "no hypervisor vax" in report["hypervisor"][0]
    assert "no bridge br9" in report["bridges"][0]
    assert "no bridge br8" in report["bridges"][1]
    assert "ssconf_master_node" in report["filelist"][0]
    off = re.search(r"the node's clock is \+(\d+) s off", report["time"][0])
    assert off
    # Time passed while the rest was looked at.
    assert 1000 <= int(off[1]) <= round(1000 + runtime.clock.now() - now)


@pytest.mark.parametrize(
    ("days", "complaint"),
    [(-1.0, "has ended"), (29.0, "ends in 29 days"), (31.0, ""), (None, "is not a certificate")],
)
@pytest.mark.parametrize("name", ["certs/node.pem", "rapi.pem", "certs/authority.pem"])
def test_certificates_are_reported_before_they_end(name: str, days: float | None, complaint: str) -> None:
    where = paths.Paths.below("/g")
    with simulated.World(seed=1) as world:
        machine = world.machine("node1")

        async def verified(*, authority: bool) -> list[str]:
            path = f"{where.lib}/{name}"
            await machine.disk.make_directory(path.rpartition("/")[0])
            now = machine.clock.now()
            lasting = 86400.0 * ((days or 0.0) + 0.4 - security.AUTHORITY_DAYS)
            content = b"rubbish" if days is None else security.make_bootstrap("node1", now + lasting).certificate
            await machine.disk.write(path, content)
            accelerators = accelerator_probe.Accelerators(machine, where, bootid="")
            registry = wiring.registry(machine, where, accelerators=accelerators)
            request = calls.NodeVerify(certificate_seconds=30 * 86400.0, authority=authority, storage=())
            files = ssconf.Files(machine.disk, where)
            report = await node_info.verify(machine, registry, files=files, lib=where.lib, request=request)
            return report["certificates"]

        complaints = world.run(verified(authority=True))
        assert bool(complaints) is bool(complaint)
        assert complaint in "".join(complaints)
        assert bool(world.run(verified(authority=False))) is (bool(complaint) and "authority" not in name)
