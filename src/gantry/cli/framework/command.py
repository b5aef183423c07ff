"""What a command is: the table rows that the programs declare, and what a run of one gets.

Each program's module has ``COMMANDS``; ``main`` finds the row, this module makes the option parser of that row alone,
``completion`` and the help read the same rows. A function of a command takes a ``Call`` and returns an exit code.
Groups of options that many commands share are declared here once, under the letters that users know
(contracts/commands.md#letters-of-options).

An option or argument that is a field of an opcode says so (``field``): its help text, default, bounds and choices come
from the opcode's declaration (``opcode_fields``), ``Call.opcode`` puts its value into the opcode, and an error about
the field names the option.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from gantry.cli import client, errors
from gantry.cli.framework import opcode_fields
from gantry.cli.grammar import syntax
from gantry.cli.output import tables


class Option(NamedTuple):
    """An option; without a metavar it is a flag. ``completes`` names what the shell offers as its value.

    An ``optional`` value may be left out: then it is "yes". ``field`` is the opcode's field that takes the value; a
    ``negated`` flag sets it to false.
    """

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    dest: str = ""
    default: object = None
    choices: tuple[str, ...] = ()
    many: bool = False
    counted: bool = False
    optional: bool = False
    parse: Callable[[str], object] = str
    completes: str = ""
    field: str = ""
    negated: bool = False

    @property
    def target(self) -> str:
        """Return the attribute that holds its value."""
        return self.dest or max(self.names, key=len).lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        """Return whether a value follows."""
        return bool(self.metavar)

    def is_set(self, value: object) -> bool:
        """Return whether a parsed value differs from what the option has when the user does not give it."""
        if self.many or not self.takes_value:
            return bool(value)
        return (type(value), value) != (type(self.default), self.default)


class Argument(NamedTuple):
    """The positional arguments; ``most`` is None for any number. ``field`` is the opcode's field that takes one."""

    metavar: str
    least: int = 1
    most: int | None = 1
    completes: str = ""
    field: str = ""

    @property
    def usage(self) -> str:
        """Return how it is written in the usage line."""
        word = self.metavar + ("..." if self.most is None else "")
        return word if self.least else f"[{word}]"


class Call:
    """One run of a command: its options and arguments, and the connection to the master daemon."""

    def __init__(
        self, program: str, command: "Command", *, options: argparse.Namespace, arguments: Sequence[str]
    ) -> None:
        self.program = program
        self.command = command
        self.options = options
        self.arguments = list(arguments)

    @functools.cached_property
    def client(self) -> client.Client:
        """Return the connection, made when first asked for."""
        return client.Client()

    def option(self, name: str) -> Any:
        """Return an option's value, None when the command does not have the option."""
        return getattr(self.options, name, None)

    def opcode(self, name: str, /, **fields: object) -> dict[str, object]:
        """Return the opcode with the fields that options and arguments set, and ``fields``.

        A field that is left at its default is left out; a field that the opcode does not have is not taken.
        """
        known = opcode_fields.FIELDS[name]
        found: dict[str, object] = {"OP_ID": name}
        for argument, value in zip(self.command.arguments, self.arguments, strict=False):
            if argument.field in known and argument.most == 1:
                found[argument.field] = value
        for option in self.command.options:
            value = getattr(self.options, option.target)
            if option.field in known and option.is_set(value):
                found[option.field] = False if option.negated else value
        return found | fields

    def label(self, field: str) -> str:
        """Return how the user writes a field of an opcode: its option or argument, empty if there is none."""
        for option in self.command.options:
            if option.field == field:
                return max(option.names, key=len)
        return next((argument.metavar for argument in self.command.arguments if argument.field == field), "")


class Command(NamedTuple):
    """A sub-command: ``help`` is one line, ``text`` what its own help says besides. Its name may be several words.

    Of a ``verbatim`` one nothing behind its first argument is an option.
    """

    name: str
    function: Callable[[Call], int]
    help: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    text: str = ""
    verbatim: bool = False


def of(opcode: str, field: str, *names: str, **values: Any) -> Option:
    """Return the option for a field of an opcode: what ``values`` leave open comes from the field's declaration."""
    declared = opcode_fields.field(opcode, field)
    made = Option(names, values.pop("help", declared.help), field=field, **values)
    if declared.kind == "choice" and made.metavar:
        made = made._replace(choices=made.choices or declared.choices)
    if declared.kind == "number" and made.parse is str:
        bounds = functools.partial(syntax.within, least=declared.least, most=declared.most)
        made = made._replace(parse=bounds)
    if declared.kind == "texts" and made.parse is str and not made.many:
        made = made._replace(parse=syntax.words)
    shown = declared.default not in (None, "") and not isinstance(declared.default, bool) and made.default is None
    return made._replace(default=declared.default) if made.metavar and shown else made


EVERY = (
    Option(("-d", "--debug"), "Show errors in full; repeat for more detail", counted=True, default=0),
    Option(("--reason",), "Set the reason, which is stored with the job", metavar="TEXT"),
    Option(("-h", "--help"), "Show this help"),
)
SUBMIT = (
    Option(("--submit",), "Submit the job and do not wait for it"),
    Option(("--print-jobid",), "Print the job number on the first line"),
)
DRY_RUN = (Option(("--dry-run",), "Show what would be done, without changing anything"),)
PRIORITIES = {"low": 10, "normal": 0, "high": -10}
PRIORITY = (Option(("--priority",), "Set the priority among waiting jobs", metavar="PRIORITY", choices=(*PRIORITIES,)),)
JOB = (*DRY_RUN, *PRIORITY, *SUBMIT)
FORCE = Option(("-f", "--force"), "Do not ask for confirmation")
FIELDS_QUERY = (
    Option(("--no-headers",), "Omit the column titles"),
    Option(("--separator",), "Separate columns by this text, without padding", metavar="SEP"),
    Option(("--format",), "Set the output format", metavar="FORMAT", choices=tables.FORMATS, default="table"),
)
QUERY = (
    *FIELDS_QUERY,
    Option(("--units",), "Set the unit of sizes; h chooses one for each", metavar="UNIT", choices=tables.UNITS),
    Option(("-o", "--output"), "Set the columns, or +columns to add some; list-fields lists them", metavar="FIELDS"),
    Option(("-v", "--verbose"), "Say why a value is missing"),
)
FILTER = (Option(("-F", "--filter"), "Interpret the argument as a filter, not as a name"),)

NODE = Option(("-n", "--node"), "Node", metavar="NODE", completes="node")
GROUP = of("OP_INSTANCE_CREATE", "group_name", "-g", "--node-group", metavar="GROUP", completes="group")
ALLOCATOR = of("OP_INSTANCE_CREATE", "iallocator", "-I", "--iallocator", metavar="NAME")
BACKEND = Option(
    ("-B", "--backend-parameters"),
    "Set backend parameters, as in memory=1g,vcpus=2",
    "PARAMS",
    parse=syntax.backend,
    field="beparams",
)
OS_PARAMETERS = Option(
    ("-O", "--os-parameters"),
    "Set parameters of the operating system",
    "PARAMS",
    parse=syntax.parameters,
    field="osparams",
)
OS_PRIVATE = Option(
    ("--os-parameters-private",),
    "Set parameters of the operating system that are stored but never shown",
    "PARAMS",
    parse=syntax.parameters,
    field="osparams_private",
)
OS_SECRET = Option(
    ("--os-parameters-secret",),
    "Set parameters of the operating system for this job only; they are not stored",
    "PARAMS",
    parse=syntax.parameters,
    field="osparams_secret",
)
HYPERVISOR_NAMES = ("-H", "--hypervisor-parameters", "--hypervisor")
TAGS = Option(("--tags",), "Tags, separated by commas", "TAGS", parse=syntax.words, default=(), field="tags")
SHUTDOWN_TIMEOUT = of("OP_INSTANCE_REBOOT", "shutdown_timeout", "--shutdown-timeout", metavar="SECONDS")


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return what every option's metavar is tried with; without a width each looks for that of the terminal anew."""
    return argparse.HelpFormatter(prog, width=80)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise errors.MisuseError(f"{self.prog}: {message}", hint=self._nearest(message) or f"see {self.prog} --help")

    def _nearest(self, message: str) -> str:
        """Return a hint with the option that the user may have meant."""
        unknown = message.removeprefix("unrecognized arguments: ").split()
        if not message.startswith("unrecognized arguments: --"):
            return ""
        name = unknown[0].partition("=")[0]
        return nearest(name, [known for action in self._actions for known in action.option_strings])


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a hint with the known word that is most like an unknown one; empty if none is like it."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else ""


def parse(program: str, command: Command, *, words: Sequence[str]) -> Call:
    """Make the run of a command from the words behind its name; raises MisuseError, InvalidError."""
    options = (*command.options, *EVERY)
    parser = _Parser(prog=f"{program} {command.name}", add_help=False, formatter_class=_formatter)
    for option in options:
        parser.add_argument(*option.names, **_keywords(option))
    parser.add_argument("arguments", nargs="*")
    split = words.index("--") if "--" in words else len(words)
    if command.verbatim:
        split = _first_argument(words, options)
    rest = words[split + 1 :] if words[split : split + 1] == ["--"] else words[split:]
    namespace = parser.parse_intermixed_args(_joined(words[:split], options))
    call = Call(program, command, options=namespace, arguments=[*namespace.arguments, *rest])
    if not namespace.help:
        _check_count(call)
    return call


def _first_argument(words: Sequence[str], options: Sequence[Option]) -> int:
    """Return where the words stop to be options and their values."""
    names = {name for option in options if option.takes_value for name in option.names}
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "--":
        place += 2 if words[place] in names else 1
    return min(place, len(words))


def _keywords(option: Option) -> dict[str, Any]:
    if option.counted:
        return {"action": "count", "dest": option.target, "default": option.default}
    if not option.takes_value:
        return {"action": "store_true", "dest": option.target}
    parse = functools.partial(_parsed, option)
    keywords: dict[str, Any] = {"dest": option.target, "default": option.default, "type": parse}
    if option.optional:
        keywords |= {"nargs": "?", "const": "yes"}
    if option.choices:
        keywords["choices"] = option.choices
    if option.many:
        keywords |= {"action": "append", "default": option.default or []}
    return keywords


def _parsed(option: Option, text: str) -> object:
    """Parse an option's value; an error names the option."""
    try:
        return option.parse(text)
    except errors.MalformedError:
        raise
    except errors.InvalidError as error:
        name = max(option.names, key=len)
        if any(error.message.startswith(own) for own in option.names):
            raise
        raise errors.InvalidError(f"{name}: {error.message}", hint=error.hint, key=error.key) from None


def _joined(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Tie values to their options, so that one that starts with a dash (``--net -1:add``) is taken for a value."""
    names = {name for option in options if option.takes_value and not option.optional for name in option.names}
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        value = next(rest, None) if word in names else None
        if value is None:
            joined.append(word)
        elif value.startswith("-"):
            joined.append(f"{word}={value}" if word.startswith("--") else f"{word}{value}")
        else:
            joined += [word, value]
    return joined


def _check_count(call: Call) -> None:
    least = sum(argument.least for argument in call.command.arguments)
    most = [argument.most for argument in call.command.arguments]
    given = len(call.arguments)
    if given >= least and (None in most or given <= sum(count or 0 for count in most)):
        return
    wanted = " ".join(argument.usage for argument in call.command.arguments) or "no arguments"
    raise errors.MisuseError(
        f"Error: Command {call.command.name} expects {wanted}; given were {given}",
        hint=f"see {call.program} {call.command.name} --help",
        exit_code=1,
    )


def usage(program: str, commands: Sequence[Command], *, about: str) -> str:
    """Return the help of a program: its commands, one a line."""
    width = max(len(command.name) for command in commands)
    lines = [f"  {command.name:{width}}  {command.help}{_aliases(command)}" for command in commands]
    head = [f"Usage: {program} COMMAND [OPTIONS] [ARGUMENTS]", "", about, "", "Commands:"]
    return "\n".join([*head, *lines, "", f"{program} COMMAND --help shows the options of a command."])


def _aliases(command: Command) -> str:
    return f" (also: {', '.join(command.aliases)})" if command.aliases else ""


def help_text(program: str, command: Command) -> str:
    """Return the help of one command."""
    import textwrap

    arguments = "".join(f" {argument.usage}" for argument in command.arguments)
    lines = [f"Usage: {program} {command.name} [OPTIONS]{arguments}", "", command.help + "."]
    lines += ["", *textwrap.dedent(command.text).strip().splitlines()] if command.text else []
    lines += ["", "Options:"]
    for option in (*command.options, *EVERY):
        lines += _described(option)
    return "\n".join(lines)


def _described(option: Option) -> list[str]:
    import textwrap

    names = ", ".join(option.names) + (f" {option.metavar}" if option.takes_value else "")
    notes = [f"one of {', '.join(option.choices)}"] if option.choices else []
    notes += ["may be given again"] if option.many else []
    if option.takes_value and isinstance(option.default, str | int):
        notes.append(f"default {option.default}")
    text = option.help + (f" ({'; '.join(notes)})" if notes else "")
    wrapped = textwrap.wrap(text, 70)
    return [f"  {names}", *(f"      {line}" for line in wrapped)]
