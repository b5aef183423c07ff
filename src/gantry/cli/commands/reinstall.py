"""The commands of ``gnt-instance`` that reinstall and rename instances, and that create instances from a file."""

import json
import sys
from collections.abc import Mapping

from gantry.cli import client, errors
from gantry.cli.commands import creation, selection
from gantry.cli.framework import command, submit
from gantry.cli.output import terminal


def reinstall(call: command.Call) -> int:
    """Reinstall the operating system of instances."""
    options = call.options
    if options.select_os and options.os_type:
        raise errors.InvalidError("-o and --select-os exclude each other")
    names = selection.instances(call, verb="reinstallation")
    system = _selected_os(call) if options.select_os else options.os_type
    if not (options.force or options.dry_run):
        terminal.confirm(
            "This reinstalls the operating system; all data on the disks of these instances is lost:", names=names
        )
    os_field = {"os_type": system} if system else {}
    ops = [(name, call.opcode(REINSTALL, instance_name=name, **os_field)) for name in names]
    return submit.carry_out_many(call, ops)


def _selected_os(call: command.Call) -> str:
    """List the operating systems and return the one that the user selects by number."""
    op = call.opcode("OP_OS_DIAGNOSE", output_fields=["offered"], names=[])
    names = [str(name) for (offered,) in client.expect(submit.query(call, op), list) for name in offered]
    if not names:
        raise errors.CommandError(
            "there is no valid operating system to install", hint="gnt-os diagnose shows the problems"
        )
    for number, name in enumerate(names):
        print(f"{number:3}: {name}", file=sys.stderr)
    print("Number of the operating system: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if not answer.isdecimal() or int(answer) >= len(names):
        raise errors.InvalidError(f"{answer!r} is not a number from 0 to {len(names) - 1}")
    return names[int(answer)]


def rename(call: command.Call) -> int:
    """Rename an instance."""
    return submit.carry_out(call, call.opcode("OP_INSTANCE_RENAME"))


def batch_create(call: command.Call) -> int:
    """Create the instances that a file describes, each by a job; all jobs are submitted at once."""
    allocator = call.options.iallocator
    ops = [_creation(entry, index, allocator) for index, entry in enumerate(_read_entries(call.arguments[0]))]
    return submit.carry_out_many(call, [(str(op["instance_name"]), op) for op in ops])


def _read_entries(path: str) -> list[object]:
    """Read the file, or standard input for ``-``: a list of instances, or a dictionary by name."""
    try:
        if path == "-":
            entries = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                entries = json.load(file)
    except OSError as error:
        raise errors.InvalidError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise errors.InvalidError(f"{path} is not JSON: {error}") from None
    if isinstance(entries, dict):
        entries = [{"instance_name": name, **client.expect(entry, dict)} for name, entry in entries.items()]
    if not isinstance(entries, list) or not entries:
        raise errors.InvalidError(
            f"{path} does not contain a list of instances", hint="see gnt-instance batch-create --help"
        )
    return entries


def _creation(entry: object, index: int, allocator: str | None) -> Mapping[str, object]:
    """Return the opcode of an entry; ``allocator`` places the instance if the entry does not say where it goes."""
    if not isinstance(entry, dict) or not (name := entry.get("instance_name", entry.get("name"))):
        raise errors.InvalidError(f"entry {index} of the file has no instance_name")
    fields = {key: value for key, value in entry.items() if key != "name"}
    if allocator and not fields.get("pnode"):
        fields.setdefault("iallocator", allocator)
    return {"mode": "create", "disks": [], "nics": [], **fields, "OP_ID": "OP_INSTANCE_CREATE", "instance_name": name}


REINSTALL = "OP_INSTANCE_REINSTALL"
SYSTEM = (
    command.field_option(
        REINSTALL, "os_type", "-o", "--os-type", help="Install another operating system", metavar="OS", completes="os"
    ),
    command.Option(("--select-os",), "Choose the operating system from a list"),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.OS_SECRET,
    command.field_option(REINSTALL, "force_variant", "--force-variant"),
)
BATCH_TEXT = """
    The file is a JSON list; an entry has the fields of OP_INSTANCE_CREATE:
      [{"instance_name": "web1", "disk_template": "file", "disks": [{"size": "1g"}],
        "nics": [{"network": "net1", "ip": "pool"}], "os_type": "busybox"}]
"""
COMMANDS = (
    command.Command(
        "reinstall",
        reinstall,
        "Reinstall the operating system of stopped instances",
        selection.ARGUMENTS,
        (command.FORCE, *selection.OPTIONS, *SYSTEM, *command.JOB),
    ),
    command.Command(
        "rename",
        rename,
        "Rename a stopped instance",
        (
            command.Argument("INSTANCE", completes="instance", field="instance_name"),
            command.Argument("NEW-NAME", field="new_name"),
        ),
        (
            command.FORCE,
            *creation.UNCHECKED,
            *command.JOB,
        ),
    ),
    command.Command(
        "batch-create",
        batch_create,
        "Create the instances that a file describes",
        (command.Argument("FILE", completes="file"),),
        (command.ALLOCATOR, *command.JOB),
        text=BATCH_TEXT,
    ),
)
