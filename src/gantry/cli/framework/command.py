"""Declarations of commands and options, the option parser, and the ``Call`` that a command's function receives.

Each program's module declares its commands in ``COMMANDS``. ``main`` selects the command and this module builds the
option parser for that command alone; ``completion`` and the help texts read the same declarations. A command's function
takes a ``Call`` and returns an exit code. Options that many commands share are declared here, under the letters that
users know (contracts/commands.md#letters-of-options).

``field`` binds an option or argument to a field of an opcode: the help text, default, bounds and choices come from the
opcode's declaration (``opcode_fields``), ``Call.opcode`` puts the value into the opcode, and an error about the field
names the option.
"""

import argparse
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from gantry.cli import client, errors
from gantry.cli.framework import ganeti, opcode_fields
from gantry.cli.grammar import syntax
from gantry.cli.output import tables

WIDTH = 80
"""The columns of a help text, which scripts and small terminals read too."""


class Option(NamedTuple):
    """An option; an option without a metavar is a flag.

    ``completes`` is the kind of object whose names the shell offers as value. An ``optional`` value may be omitted and
    is then "yes". ``field`` is the opcode's field that takes the value; a ``negated`` flag sets the field to false.
    ``repeatable`` options may be given several times, and ``counted`` flags count how often.
    """

    names: tuple[str, ...]
    help: str
    metavar: str = ""
    dest: str = ""
    default: object = None
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    counted: bool = False
    optional: bool = False
    parse: Callable[[str], object] = str
    completes: str = ""
    field: str = ""
    negated: bool = False

    @property
    def target(self) -> str:
        """Return the name of the attribute with the parsed value."""
        return self.dest or max(self.names, key=len).lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        """Return whether the option has a value."""
        return bool(self.metavar)

    def is_set(self, value: object) -> bool:
        """Return whether a parsed value differs from the value that the option has when the user omits it."""
        if self.repeatable or not self.takes_value:
            return bool(value)
        return (type(value), value) != (type(self.default), self.default)


class Argument(NamedTuple):
    """A positional argument, which occurs ``minimum`` to ``maximum`` times; None means any number.

    ``field`` is the opcode's field that takes the value.
    """

    metavar: str
    minimum: int = 1
    maximum: int | None = 1
    completes: str = ""
    field: str = ""

    @property
    def usage(self) -> str:
        """Return the argument's text in the usage line."""
        word = self.metavar + ("..." if self.maximum is None else "")
        return word if self.minimum else f"[{word}]"


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
        """Return the connection to the master daemon, which the first access creates."""
        return client.Client()

    def option(self, name: str) -> Any:
        """Return an option's value; None if the command does not have the option."""
        return getattr(self.options, name, None)

    def opcode(self, name: str, /, **fields: object) -> dict[str, object]:
        """Return the opcode with the fields that options and arguments set, and ``fields``.

        Options at their default and fields that the opcode does not have are omitted.
        """
        known = opcode_fields.FIELDS[name]
        op: dict[str, object] = {"OP_ID": name}
        for argument, value in zip(self.command.arguments, self.arguments, strict=False):
            if argument.field in known and argument.maximum == 1:
                op[argument.field] = value
        for option in self.command.options:
            value = getattr(self.options, option.target)
            if option.field in known and option.is_set(value):
                op[option.field] = False if option.negated else value
        return op | fields

    def label(self, field: str) -> str:
        """Return the option or argument that sets a field of an opcode; empty if the command has none."""
        for option in self.command.options:
            if option.field == field:
                return max(option.names, key=len)
        return next((argument.metavar for argument in self.command.arguments if argument.field == field), "")


class Command(NamedTuple):
    """A subcommand, whose name may have several words. ``help`` is one line; ``text`` is added to its own help.

    After the first argument of a ``verbatim`` command, no word is parsed as an option.
    """

    name: str
    function: Callable[[Call], int]
    help: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    aliases: tuple[str, ...] = ()
    text: str = ""
    verbatim: bool = False


def field_option(opcode: str, field: str, *names: str, **values: Any) -> Option:
    """Return the option for a field of an opcode; attributes not in ``values`` come from the field's declaration."""
    declaration = opcode_fields.field(opcode, field)
    option = Option(names, values.pop("help", declaration.help), field=field, **values)
    if declaration.kind == "choice" and option.metavar:
        option = option._replace(choices=option.choices or declaration.choices)
    if declaration.kind == "number" and option.parse is str:
        bounded = functools.partial(syntax.within, minimum=declaration.minimum, maximum=declaration.maximum)
        option = option._replace(parse=bounded)
    if declaration.kind == "texts" and option.parse is str and not option.repeatable:
        option = option._replace(parse=syntax.words)
    has_default = declaration.default not in (None, "") and not isinstance(declaration.default, bool)
    if option.metavar and has_default and option.default is None:
        option = option._replace(default=declaration.default)
    return option


def accepted(*names: str, because: str, metavar: str = "", idle: tuple[str, ...] = ()) -> Option:
    """Return an option that scripts for Ganeti pass and that has nothing to do here; ``because`` says why.

    Of an option with ``idle`` values, any other value requests a feature that does not exist, and is refused.
    """

    def check(text: str) -> str:
        if idle and text not in idle:
            raise errors.InvalidError(f"{text!r} is not available: {because}", hint=f"valid: {', '.join(idle)}")
        return text

    return Option(names, f"Accepted for older scripts; {because}", metavar, parse=check)


COMMON = (
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
FIELD_LISTS = {
    "instance": "gnt-instance",
    "node": "gnt-node",
    "group": "gnt-group",
    "network": "gnt-network",
    "job": "gnt-job",
    "export": "gnt-backup",
}
"""The program whose command ``list-fields`` prints the fields of a resource."""
FILTER = (Option(("-F", "--filter"), "Interpret the argument as a filter, not as a name"),)

NODE = Option(("-n", "--node"), "Node", metavar="NODE", completes="node")
GROUP = field_option("OP_INSTANCE_CREATE", "group_name", "-g", "--node-group", metavar="GROUP", completes="group")
ALLOCATOR = field_option("OP_INSTANCE_CREATE", "iallocator", "-I", "--iallocator", metavar="NAME")
BACKEND = Option(
    ("-B", "--backend-parameters"),
    "Set backend parameters, as in memory=1g,vcpus=2",
    "PARAMS",
    parse=syntax.backend,
    field="beparams",
    completes="backend-parameter",
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
ROMAN = accepted("--roman", because="numbers are always decimal")
SHUTDOWN_TIMEOUT = field_option("OP_INSTANCE_REBOOT", "shutdown_timeout", "--shutdown-timeout", metavar="SECONDS")


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return the formatter with which argparse checks each metavar; the fixed width saves a look at the terminal."""
    return argparse.HelpFormatter(prog, width=80)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        for word in message.removeprefix("unrecognized arguments: ").split():
            name = word.partition("=")[0]
            if instead := ganeti.REFUSED.get(self.prog, {}).get(name):
                raise errors.MisuseError(f"{self.prog}: Ganeti's option {name} does not exist here", hint=instead)
        raise errors.MisuseError(f"{self.prog}: {message}", hint=self._nearest(message) or f"see {self.prog} --help")

    def _nearest(self, message: str) -> str:
        """Return a hint with the known option that is most similar to an unknown one; may be empty."""
        unknown = message.removeprefix("unrecognized arguments: ").split()
        if not message.startswith("unrecognized arguments: --"):
            return ""
        name = unknown[0].partition("=")[0]
        similar = most_similar(name, [known for action in self._actions for known in action.option_strings])
        return f"did you mean {similar}?" if similar else ""


def most_similar(word: str, known: Sequence[str]) -> str:
    """Return the known word that is most similar, first of all one with the same letters; empty if none is similar."""
    import difflib

    close = difflib.get_close_matches(word, known, n=3, cutoff=0.7)
    return min(close, key=lambda name: sorted(name) != sorted(word), default="")


def parse(program: str, command: Command, *, words: Sequence[str]) -> Call:
    """Parse the words after a command's name; raises MisuseError, InvalidError."""
    options = (*command.options, *COMMON)
    parser = _Parser(prog=f"{program} {command.name}", add_help=False, formatter_class=_formatter)
    for option in options:
        parser.add_argument(*option.names, **_keywords(option))
    parser.add_argument("arguments", nargs="*")
    split = words.index("--") if "--" in words else len(words)
    if command.verbatim:
        split = _first_argument(words, options)
    literal = words[split + 1 :] if words[split : split + 1] == ["--"] else words[split:]
    namespace = parser.parse_intermixed_args(_joined(words[:split], options))
    call = Call(program, command, options=namespace, arguments=[*namespace.arguments, *literal])
    if not namespace.help:
        _check_count(call)
    return call


def _first_argument(words: Sequence[str], options: Sequence[Option]) -> int:
    """Return the index of the first word that is not an option or an option's value."""
    names = {name for option in options if option.takes_value for name in option.names}
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        index += 2 if words[index] in names else 1
    return min(index, len(words))


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
    if option.repeatable:
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
    """Join values to their options, so that argparse accepts a value that begins with a dash (``--net -1:add``)."""
    names = {name for option in options if option.takes_value and not option.optional for name in option.names}
    joined: list[str] = []
    following = iter(words)
    for word in following:
        value = next(following, None) if word in names else None
        if value is None:
            joined.append(word)
        elif value.startswith("-"):
            joined.append(f"{word}={value}" if word.startswith("--") else f"{word}{value}")
        else:
            joined += [word, value]
    return joined


def _check_count(call: Call) -> None:
    minimum = sum(argument.minimum for argument in call.command.arguments)
    maxima = [argument.maximum for argument in call.command.arguments]
    count = len(call.arguments)
    if count >= minimum and (None in maxima or count <= sum(number or 0 for number in maxima)):
        return
    expected = " ".join(argument.usage for argument in call.command.arguments) or "no arguments"
    raise errors.MisuseError(
        f"Error: Command {call.command.name} expects {expected}, but got {_counted(count)}",
        hint=f"see {call.program} {call.command.name} --help",
    )


def _counted(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def usage(program: str, commands: Sequence[Command], *, about: str) -> str:
    """Return the help of a program: its commands, one per line."""
    width = max(len(command.name) for command in commands)
    lines = list[str]()
    for command in commands:
        text = f"{command.help}{_aliases(command)}"
        lines += _wrapped(text, WIDTH, f"  {command.name:{width}}  ", further=" " * (width + 4))
    head = [f"Usage: {program} COMMAND [OPTIONS] [ARGUMENTS]", "", *_wrapped(about), "", "Commands:"]
    return "\n".join([*head, *lines, "", f"{program} COMMAND --help shows the options of a command."])


def _aliases(command: Command) -> str:
    return f" (also: {', '.join(command.aliases)})" if command.aliases else ""


def help_text(program: str, command: Command) -> str:
    """Return the help of one command."""
    import textwrap

    arguments = "".join(f" {argument.usage}" for argument in command.arguments)
    lines = [f"Usage: {program} {command.name} [OPTIONS]{arguments}", "", *_wrapped(command.help + ".")]
    lines += ["", *_filled(textwrap.dedent(command.text).strip().splitlines())] if command.text else []
    lines += ["", "Options:"]
    for option in (*command.options, *COMMON):
        lines += _described(option)
    return "\n".join(lines)


def _filled(lines: Iterable[str]) -> Iterator[str]:
    """Yield a text with its paragraphs filled; indented lines stay, and long commands continue after a backslash."""
    for is_indented, group in itertools.groupby(lines, key=lambda line: line.startswith(" ") or not line):
        if not is_indented:
            yield from _wrapped(" ".join(group))
            continue
        for line in group:
            indent = line[: len(line) - len(line.lstrip())]
            if len(line) <= WIDTH:
                yield line
                continue
            # An option stays beside its value.
            words = re.sub(r"(?<= )(--?[\w-]+) (?!-)", lambda match: f"{match[1]}\0", line.lstrip())
            parts = [part.replace("\0", " ") for part in _wrapped(words, WIDTH - 2, indent, further=f"{indent}    ")]
            yield from (f"{part} \\" for part in parts[:-1])
            yield parts[-1]


def _wrapped(text: str, width: int = WIDTH, indent: str = "", *, further: str = "") -> list[str]:
    import textwrap

    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def _described(option: Option) -> list[str]:
    names = ", ".join(option.names) + (f" {option.metavar}" if option.takes_value else "")
    notes = [f"one of {', '.join(option.choices)}"] if option.choices else []
    notes += ["may be repeated"] if option.repeatable else []
    if option.takes_value and isinstance(option.default, str | int):
        notes.append(f"default {option.default}")
    text = option.help + (f" ({'; '.join(notes)})" if notes else "")
    return [f"  {names}", *_wrapped(text, 76, " " * 6, further=" " * 6)]
