"""The packages on a bare Debian: they install, their programs run, and they leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.install import machines

pytestmark = machines.NEEDS

COMMANDS = ("gnt-cluster", "gnt-instance", "gantry", "gantry-noded", "gantry-masterd", "gantry-rapi", "gantry-watcher")
MEBIBYTE = 1 << 20
SIZES = {"/usr/lib/gantry /usr/share/gantry": 120, "/usr/lib/gantry/client": 2}
"""The limits in MiB of the folders of all packages, and of the client, with the code compiled on the machine."""


@pytest.fixture(scope="module")
def machine(debian: Path) -> Iterator[machines.Machine]:
    with machines.installed(debian) as node:
        yield node


def test_every_program_runs(machine: machines.Machine) -> None:
    for command in COMMANDS:
        assert machine.run(f"{command} --version").startswith(command)


def test_a_command_says_how_to_begin(machine: machines.Machine) -> None:
    assert "create a cluster with gnt-cluster init" in machine.run("gnt-instance list", check=False)


@pytest.mark.parametrize("folders", SIZES)
def test_packages_are_small(machine: machines.Machine, folders: str) -> None:
    total = machine.run(f"du -cb {folders} | tail -n 1")
    assert int(total.split()[0]) < SIZES[folders] * MEBIBYTE


def test_the_node_daemon_runs_and_the_master_waits_for_a_cluster(machine: machines.Machine) -> None:
    assert machine.run("systemctl is-active gantry-noded").strip() == "active"
    # Skipped, not failed: this machine is no master.
    assert machine.run("systemctl is-active gantry-masterd gantry-rapi", check=False).split() == ["inactive"] * 2
    assert machine.run("systemctl --failed --quiet --no-legend").strip() == ""


@pytest.mark.parametrize("state", ["config.data", "kube/journal"])
def test_purged_packages_leave_the_state_of_a_cluster_or_an_api_server(machine: machines.Machine, state: str) -> None:
    files = f"/var/lib/gantry/{state} /srv/gantry/disk"
    machine.run(f"mkdir -p /var/lib/gantry/kube && touch {files}")
    assert "remain" in machine.run("apt-get purge -qq --yes 'gantry*'")
    assert machine.run(f"ls {files}").split()
    machine.run(f"rm {files}")
    machine.run(f"apt-get install -qq --yes --no-install-recommends {machines.INSTALLED}")


def test_purged_packages_leave_no_file(machine: machines.Machine) -> None:
    machine.run("apt-get purge -qq --yes 'gantry*'")
    remaining = machine.run(
        f"find / -xdev -path /proc -prune -o -path {machines.FOLDER} -prune -o -iname '*gantry*' -print"
    )
    known = ("/etc/apt/sources.list.d/gantry.list", "/var/lib/apt/lists/")
    assert [path for path in remaining.splitlines() if not path.startswith(known)] == []
