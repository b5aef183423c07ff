"""Programs and KVM, as the doctor sees them."""

import re
from pathlib import Path

from tests.daemons.doctor.conftest import Examined

import gantry
from gantry.daemons.doctor import software


def install_all_but(machine: Examined, *missing: str) -> None:
    for requirement in software.PROGRAMS:
        if requirement.program not in missing:
            machine.write(f"/usr/bin/{requirement.program}")


def test_a_missing_program_has_its_package_and_what_needs_it(machine: Examined) -> None:
    machine.join()
    install_all_but(machine, "socat", "lvs")
    (result,) = machine.examine(software.programs)
    assert (result.level, result.message) == ("error", "the program socat is missing, which kvm needs")
    assert result.remedy == "install it: apt install socat"


def test_only_what_is_enabled_is_needed(machine: Examined) -> None:
    machine.join()
    machine.ssconf(hypervisor_list="fake\n", disk_templates="drbd\n")
    install_all_but(machine, "socat", "qemu-img", "lvs", "drbdsetup")
    assert [result.remedy for result in machine.examine(software.programs)] == [
        "install it: apt install lvm2",
        "install it: apt install drbd-utils",
    ]


def test_a_machine_without_a_cluster_is_examined_for_kvm(machine: Examined) -> None:
    install_all_but(machine, "xl", "lvs", "drbdsetup")
    expected = "all programs that a node, kvm need are installed"
    assert machine.seen(software.programs) == [("ok", expected)]


def test_each_package_that_a_driver_asks_for_is_in_the_table() -> None:
    folder = Path(gantry.__file__).parent / "node"
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    packages = set(re.findall(r'^(?:PACKAGE|UTILITIES) = "([^"]+)"', text, re.MULTILINE))
    known = {requirement.package for requirement in software.PROGRAMS}
    assert packages
    assert {package for package in packages if not any(name.startswith(package) for name in known)} == set()


def test_without_kvm_guests_are_slow(machine: Examined) -> None:
    assert [level for level, _ in machine.seen(software.accelerator)] == ["warning"]
    machine.write("/dev/kvm")
    assert machine.seen(software.accelerator) == [("ok", "/dev/kvm exists")]


def test_kvm_does_not_matter_to_a_cluster_without_it(machine: Examined) -> None:
    machine.join()
    machine.ssconf(hypervisor_list="fake\n")
    assert not machine.seen(software.accelerator)
