"""The pages of contracts have what the code has of the same tables: names, numbers, codes."""

import re
from collections.abc import Iterator

from tests.docs import pages

from gantry import errors
from gantry.address import segments
from gantry.cli.output import tables
from gantry.model import fields, job, parameters

CONTRACTS = pages.DOCS / "reference/contracts"
OWN_CODES = {
    "ENODEJOIN",
    "ENODEORPHANFILE",
    "ECLUSTERJOURNAL",
    "ENETWORKPOOL",
    "EINSTANCECONFLICT",
    "EINSTANCEDEVICES",
    "EINSTANCEUNWANTED",
    "EWEBHOOK",
}
OWN_PARAMETERS = {"accel", "firmware", "firmware_path"}
"""What no release of Ganeti has."""


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the tables below a heading, the code marks removed."""
    section = (CONTRACTS / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, f"{page} has no heading {heading}"
    lines = re.findall(r"^\| (.*) \|$", section, flags=re.MULTILINE)
    return [[cell.strip().strip("`") for cell in line.split(" | ")] for line in lines]


def words(page: str) -> set[str]:
    """Return what a page says in code."""
    return set(re.findall(r"`([^`\n]+)`", (CONTRACTS / page).read_text()))


def test_every_error_has_a_code_and_a_class_that_clients_know() -> None:
    codes = {row[0] for row in rows("luxi.md", "Errors")}
    known = words("luxi.md")
    for kind in _subclasses(errors.GantryError):
        code, name = kind.code, kind.luxi
        assert not code or code in codes, kind
        assert name in known, kind


def _subclasses(kind: type[errors.GantryError]) -> Iterator[type[errors.GantryError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _subclasses(below)


def test_the_statuses_of_jobs_are_those_of_the_page() -> None:
    described = {row[0]: row[2] == "yes" for row in rows("jobs.md", "Status") if len(row) == 3 and row[0] != "status"}
    assert described == {status.value: status in job.FINAL for status in job.Status}


def test_the_statuses_of_values_and_their_marks_are_those_of_the_page() -> None:
    described = {int(row[0]): (row[2], row[3]) for row in rows("query.md", "Value status") if row[0].isdigit()}
    assert set(described) == {int(status) for status in fields.ResultStatus}
    assert {number: marks for number, marks in described.items() if number} == tables.MISSING


def test_every_code_of_verify_is_on_the_page() -> None:
    sources = (path.read_text() for path in (pages.CHECKOUT / "src").rglob("*.py"))
    used = {
        code for text in sources for code in re.findall(r'"(E(?:CLUSTER|GROUP|INSTANCE|NETWORK|NODE)[A-Z]+)"', text)
    }
    assert len(used) > 10
    assert used - OWN_CODES <= words("commands.md")


def test_every_folder_of_hooks_is_on_the_page() -> None:
    written = {path.stem for path in (pages.CHECKOUT / "tests/golden/hooks").glob("*.txt")}
    folders = {name for name in written if not name.startswith("nic-")}
    assert len(folders) > 30
    assert folders <= words("hooks.md")


def test_the_ids_of_segments_are_those_of_the_page() -> None:
    described = {}
    for name, ids, *_ in rows("segment-ranges.md", "Types"):
        if match := re.fullmatch(r"(\d+) to (?:2\^(\d+) - 1|(\d+))", ids):
            described[name] = (int(match[1]), 2 ** int(match[2]) - 1 if match[2] else int(match[3]))
    assert described == {name: (limit.first, limit.last) for name, limit in segments.LIMITS.items()}


def test_every_hypervisor_parameter_but_our_own_is_on_the_page() -> None:
    known = words("hypervisor-parameters.md")
    for hypervisor, declared in parameters.HYPERVISORS.items():
        assert set(declared) - OWN_PARAMETERS <= known, hypervisor


def test_the_parameters_that_only_the_cluster_can_set_are_those_of_the_page() -> None:
    text = (CONTRACTS / "hypervisor-parameters.md").read_text()
    alone = text.partition("## Parameters of the cluster alone\n")[2].partition("\n## ")[0]
    described = set(re.findall(r"`(\w+)`", alone)) - {"xen_cmd"}
    every = [item for declared in parameters.HYPERVISORS.values() for item in declared.items()]
    assert described == {name for name, parameter in every if parameter.cluster_wide}


def test_every_default_parameter_is_on_the_page() -> None:
    known = words("configuration.md")
    assert set(parameters.BACKEND) <= known
    assert set(parameters.NIC) <= known
    for template, declared in parameters.DISK.items():
        assert set(declared) <= known, template
