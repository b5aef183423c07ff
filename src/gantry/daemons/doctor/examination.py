"""Runs all checks of the doctor, and prints their results."""

import json
import re
from collections.abc import Sequence

from gantry import errors
from gantry.daemons.doctor import files, network, peers, software
from gantry.daemons.doctor.result import Check, Level, Machine, Result

CHECKS: tuple[Check, ...] = (
    network.host_name,
    network.identity,
    network.address_family,
    software.programs,
    software.accelerator,
    network.bridges,
    network.ports,
    files.configuration,
    files.folders,
    files.free_space,
    files.state,
    files.certificates,
    peers.synchronization,
    peers.nodes,
)
"""All checks, in the order of the report."""


def is_root(machine: Machine) -> bool:
    """Return whether this process may read everything; true where the kernel does not report its user."""
    match = re.search(r"^Uid:\s+\d+\s+(\d+)", machine.text("/proc/self/status"), re.MULTILINE)
    return match is None or match[1] == "0"


async def examine(machine: Machine, checks: Sequence[Check] = CHECKS) -> list[Result]:
    """Return the results of all checks; a check that fails is a result of its own."""
    out: list[Result] = []
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            out += await check(machine)
        except (OSError, ValueError, errors.GantryError) as error:
            text = f"the check '{name}' failed: {str(error) or type(error).__name__}"
            out.append(Result(name, Level.ERROR, text, "repair the file or program that it names, then run it again"))
    return out


def exit_code(results: Sequence[Result]) -> int:
    """Return 1 if something is wrong; a warning is not."""
    return 1 if any(result.level is Level.ERROR for result in results) else 0


def as_text(results: Sequence[Result]) -> str:
    """Return a line for each result, with its remedy below, and a summary."""
    lines: list[str] = []
    for result in results:
        lines.append(f"{result.level:<7}  {result.name}: {result.message}")
        if result.remedy:
            lines.append(f"         -> {result.remedy}")
    counts = {level: sum(result.level is level for result in results) for level in Level}
    lines.append(f"{counts[Level.ERROR]} errors, {counts[Level.WARNING]} warnings, {counts[Level.OK]} checks are fine")
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Result]) -> str:
    """Return the results as a JSON list."""
    rows = [
        {"name": each.name, "level": str(each.level), "message": each.message, "remedy": each.remedy}
        for each in results
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
