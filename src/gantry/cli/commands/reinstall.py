"""The commands of ``gnt-instance`` that give an instance another system or name, and that make many at once."""

import json
import sys
from collections.abc import Mapping

from gantry.cli import client, errors
from gantry.cli.commands import selection
from gantry.cli.framework import command, submit
from gantry.cli.output import terminal


def reinstall(call: command.Call) -> int:
    """Install instances again."""
    options = call.options
    if options.select_os and options.os_type:
        raise errors.InvalidError("-o and --select-os exclude each other")
    names = selection.instances(call, verb="reinstallation")
    system = _chosen(call) if options.select_os else options.os_type
    if not (options.force or options.dry_run):
        terminal.confirm("This installs an operating system again; all that is on these disks is lost:", names=names)
    op: dict[str, object] = {
        "OP_ID": "OP_INSTANCE_REINSTALL",
        "osparams": options.os_parameters or {},
        "force_variant": options.force_variant,
    } | ({"os_type": system} if system else {})
    for name in ("private", "secret"):
        if given := getattr(options, f"os_parameters_{name}"):
            op[f"osparams_{name}"] = given
    return submit.carry_out_many(call, [(name, op | {"instance_name": name}) for name in names])


def _chosen(call: command.Call) -> str:
    """Show the operating systems and return the one whose number is typed."""
    op = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": ["offered"], "names": []}
    names = [str(name) for (offered,) in client.expect(submit.ask(call, op), list) for name in offered]
    if not names:
        raise errors.CommandError("no operating system can be installed", hint="gnt-os diagnose says why")
    for number, name in enumerate(names):
        print(f"{number:3}: {name}", file=sys.stderr)
    print("Number of the operating system: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if not answer.isdecimal() or int(answer) >= len(names):
        raise errors.InvalidError(f"{answer!r} is no number from 0 to {len(names) - 1}")
    return names[int(answer)]


def rename(call: command.Call) -> int:
    """Rename an instance."""
    old, new = call.arguments
    return submit.carry_out(call, {"OP_ID": "OP_INSTANCE_RENAME", "instance_name": old, "new_name": new})


def batch_create(call: command.Call) -> int:
    """Create the instances that a file describes, a job each, all at once."""
    ops = [_creation(one, index) for index, one in enumerate(_described(call.arguments[0]))]
    return submit.carry_out_many(call, [(str(op["instance_name"]), op) for op in ops])


def _described(path: str) -> list[object]:
    """Read the file, or standard input for ``-``: a list of instances, or a dictionary by name."""
    try:
        if path == "-":
            found = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
    except OSError as error:
        raise errors.InvalidError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise errors.InvalidError(f"{path} is not JSON: {error}") from None
    if isinstance(found, dict):
        found = [{"instance_name": name, **client.expect(one, dict)} for name, one in found.items()]
    if not isinstance(found, list) or not found:
        raise errors.InvalidError(f"{path} holds no list of instances", hint="see gnt-instance batch-create --help")
    return found


def _creation(one: object, index: int) -> Mapping[str, object]:
    if not isinstance(one, dict) or not (name := one.get("instance_name", one.get("name"))):
        raise errors.InvalidError(f"entry {index} of the file has no instance_name")
    rest = {key: value for key, value in one.items() if key != "name"}
    return {"mode": "create", "disks": [], "nics": [], **rest, "OP_ID": "OP_INSTANCE_CREATE", "instance_name": name}


SYSTEM = (
    command.Option(("-o", "--os-type"), "Another operating system", "OS", completes="os"),
    command.Option(("--select-os",), "Choose the operating system from a list"),
    command.OS_PARAMETERS,
    command.OS_PRIVATE,
    command.OS_SECRET,
    command.Option(("--force-variant",), "Take a variant that the operating system does not list"),
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
        "Install the operating system of stopped instances again",
        selection.ARGUMENTS,
        (command.FORCE, *selection.OPTIONS, *SYSTEM, *command.JOB),
    ),
    command.Command(
        "rename",
        rename,
        "Give a stopped instance another name",
        (command.Argument("INSTANCE", completes="instance"), command.Argument("NEW-NAME")),
        (
            command.FORCE,
            command.Option(("--no-ip-check",), "For older scripts: no address is looked up anyway"),
            command.Option(("--no-name-check",), "For older scripts: no name is looked up anyway"),
            *command.JOB,
        ),
    ),
    command.Command(
        "batch-create",
        batch_create,
        "Create the instances that a file describes",
        (command.Argument("FILE"),),
        command.JOB,
        text=BATCH_TEXT,
    ),
)
