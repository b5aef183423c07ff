"""The check for long files: a module below ``src/gantry`` has at most 400 lines, or a reason in ``REASONS``.

``make check`` runs it. A longer module usually has two reasons to exist: split it, and give each half a name that says
its one reason. A module that has one reason, and would only be harder to read in two, is listed with that reason. A
listed module that has become shorter is reported too.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 400

REASONS = {
    "cli/framework/command.py": "what a command is: its declaration, its parser and its help read each other",
    "cli/framework/opcode_fields.py": "made by tools/opcode_fields.py",
    "daemons/master.py": "starts and stops the master daemon: each step depends on those before it",
    "kubernetes/claims/cache.py": "one cache with its indexes, which every change keeps in step",
    "mastership/role.py": "the way to the role and its defence make one claim and end by one vote",
    "node/hypervisors/kvm/driver.py": "one class, which answers each method of the hypervisor's interface",
    "node/membership/replica.py": "one replica: each call reads and replaces the same cached contents under one lock",
    "operations/instance/create.py": "one logical unit, with the choice of nodes and the draft that only it uses",
    "rpc/calls/__init__.py": "the names of all calls and messages, each imported and offered, and nothing else",
    "sim/faults.py": "the table of faults, each with its beginning and its end",
    "state/store/transaction.py": "the one place where the state changes: commit, group and journal share its order",
}
"""Modules with more lines, by their path below ``src/gantry``, each with the one reason that it has."""


def faults(source: Path, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each module that is too long without a reason, and for each reason that no module needs."""
    lengths = {path.relative_to(source).as_posix(): path.read_text().count("\n") for path in source.rglob("*.py")}
    for name, lines in sorted(lengths.items()):
        if lines > LIMIT and name not in reasons:
            yield f"{name} has {lines} lines: split it, or give its reason in tools/long_files.py"
    for name in reasons:
        if lengths.get(name, 0) <= LIMIT:
            yield f"{name} has {lengths.get(name, 0)} lines: remove its reason from tools/long_files.py"


def main() -> int:
    """Print what to change; return the exit code."""
    messages = list(faults(ROOT / "src" / "gantry", REASONS))
    for message in messages:
        print(message, file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
