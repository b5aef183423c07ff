"""The entry points of all programs: select the command, run it, and turn failures into exit codes.

The package's entry points are the functions at the end; ``python -m gantry.cli.main gnt-instance list`` does the same
without an installation. Only the module of the program that runs is imported, so that a command starts quickly.
"""

import importlib
import os as system
import sys
from collections.abc import Sequence

from gantry import __version__
from gantry.cli import errors
from gantry.cli.framework import command, ganeti, nearest, refusals
from gantry.cli.output import terminal

PROGRAMS = {
    "gnt-cluster": "cluster",
    "gnt-node": "node",
    "gnt-group": "group",
    "gnt-instance": "instance",
    "gnt-network": "network",
    "gnt-os": "os",
    "gnt-backup": "backup",
    "gnt-job": "job",
    "gnt-debug": "debug",
    "gantry": "gantry",
}
"""Maps a program to the module of ``gantry.cli.programs`` that declares its commands."""


def commands(program: str) -> tuple[Sequence[command.Command], str]:
    """Return the commands of a program, and the description in its help."""
    module = importlib.import_module(f"gantry.cli.programs.{PROGRAMS[program]}")
    declarations: Sequence[command.Command] = module.COMMANDS
    about: str = module.ABOUT
    return declarations, about


def run(program: str, words: Sequence[str]) -> int:
    """Run a program with the words after its name and return the exit code; prints all failures and raises none."""
    if terminal.is_dumb():
        system.environ["NO_COLOR"] = "1"
    try:
        code = _dispatch(program, words)
        sys.stdout.flush()
    except errors.CommandError as failure:
        sys.stdout.flush()
        print(failure.text(), file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        print("Aborted; a job that was already submitted continues, see gnt-job list", file=sys.stderr)
        return errors.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python's flush at exit would report an error.
        system.dup2(system.open(system.devnull, system.O_WRONLY), 1)
        return errors.PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - no caller would report it
        return _internal(error, words)
    return code


def _internal(error: Exception, words: Sequence[str]) -> int:
    if "-d" in words or "--debug" in words:
        import traceback

        traceback.print_exception(error)
        return 1
    print(
        f"internal error: {type(error).__name__}: {error}; run the command with -d for the traceback", file=sys.stderr
    )
    return 1


def _dispatch(program: str, words: Sequence[str]) -> int:
    if program in ganeti.PROGRAMS:
        raise errors.MisuseError(f"{program} does not exist here", hint=ganeti.PROGRAMS[program])
    known, about = commands(program)
    first = words[0] if words else ""
    if first == "--version":
        print(f"{program} (gantry) {__version__}")
        return 0
    if first in ("-h", "--help"):
        print(command.usage(program, known, about=about))
        return 0
    for subcommand in known:
        for name in (subcommand.name, *subcommand.aliases):
            parts = name.split()
            if [*words[: len(parts)]] == parts:
                return _call(program, subcommand, words=words[len(parts) :])
    if group := [subcommand for subcommand in known if subcommand.name.startswith(f"{first} ")]:
        return _group(program, group, words=words)
    if instead := ganeti.COMMANDS.get(program, {}).get(first):
        raise errors.MisuseError(f"{program}: there is no command {first!r} here", hint=instead)
    hint = _nearest(known, words)
    if not hint:
        print(command.usage(program, known, about=about), "\n", sep="", file=sys.stderr)
    problem = f"there is no command {first!r}" if first else "a command is missing"
    raise errors.MisuseError(f"{program}: {problem}", hint=hint or "the commands are listed above")


def _group(program: str, group: Sequence[command.Command], *, words: Sequence[str]) -> int:
    """Show the commands with a common beginning, of which only the beginning was typed."""
    is_help = bool({"-h", "--help"} & {*words})
    start = group[0].name.split()[0]
    hint = "" if is_help else _nearest(group, words)
    if not hint:
        print(
            command.usage(program, group, about=f"The commands of {program} {start}."),
            file=sys.stdout if is_help else sys.stderr,
        )
    if is_help:
        return 0
    typed = " ".join(words)
    raise errors.MisuseError(f"{program}: there is no command {typed!r}", hint=hint or "the commands are listed above")


def _nearest(known: Sequence[command.Command], words: Sequence[str]) -> str:
    """Return a hint with the command, or the beginning of commands, that was meant; empty if no word is similar."""
    names = [name.split() for subcommand in known for name in (subcommand.name, *subcommand.aliases)]
    meant: list[str] = []
    for word in words:
        following = [name[len(meant)] for name in names if name[: len(meant)] == meant and len(name) > len(meant)]
        if not following:
            break
        if not (similar := command.most_similar(word, following)):
            break
        meant.append(similar)
    return f"did you mean {' '.join(meant)}?" if meant != [*words[: len(meant)]] else ""


def _call(program: str, subcommand: command.Command, *, words: Sequence[str]) -> int:
    call = command.parse(program, subcommand, words=[*_from_environment(program, subcommand), *words])
    if call.options.help:
        print(command.help_text(program, subcommand))
        return 0
    try:
        return subcommand.function(call)
    except errors.ServerError as error:
        raise nearest.hinted(refusals.rewritten(error, call.label), call.client) from None
    finally:
        if "client" in call.__dict__:
            call.client.close()


def _from_environment(program: str, subcommand: command.Command) -> list[str]:
    """Return the user's default arguments of ``list`` from a variable such as ``GNT_INSTANCE_LIST="-o +ip"``."""
    variable = f"{program}_{subcommand.name}".upper().replace("-", "_")
    if subcommand.name != "list" or not system.environ.get(variable):
        return []
    import shlex

    try:
        return shlex.split(system.environ[variable])
    except ValueError as error:
        raise errors.InvalidError(f"cannot parse the environment variable {variable}: {error}") from None


def cluster() -> int:
    """Run ``gnt-cluster``."""
    return run("gnt-cluster", sys.argv[1:])


def node() -> int:
    """Run ``gnt-node``."""
    return run("gnt-node", sys.argv[1:])


def group() -> int:
    """Run ``gnt-group``."""
    return run("gnt-group", sys.argv[1:])


def instance() -> int:
    """Run ``gnt-instance``."""
    return run("gnt-instance", sys.argv[1:])


def network() -> int:
    """Run ``gnt-network``."""
    return run("gnt-network", sys.argv[1:])


def os() -> int:
    """Run ``gnt-os``."""
    return run("gnt-os", sys.argv[1:])


def backup() -> int:
    """Run ``gnt-backup``."""
    return run("gnt-backup", sys.argv[1:])


def job() -> int:
    """Run ``gnt-job``."""
    return run("gnt-job", sys.argv[1:])


def debug() -> int:
    """Run ``gnt-debug``."""
    return run("gnt-debug", sys.argv[1:])


def storage() -> int:
    """Run ``gnt-storage``, which only says what serves instead."""
    return run("gnt-storage", sys.argv[1:])


def job_filter() -> int:
    """Run ``gnt-filter``, which only says what serves instead."""
    return run("gnt-filter", sys.argv[1:])


def gantry() -> int:
    """Run ``gantry``."""
    return run("gantry", sys.argv[1:])


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"usage: python -m gantry.cli.main {'|'.join(PROGRAMS)} COMMAND ...")
    sys.exit(run(sys.argv[1], sys.argv[2:]))
