"""Exceptions that end a command, each with the text for stderr and the exit code.

Any module of ``cli`` raises them; only ``main`` prints them. Scripts search for the texts of the server's errors
(contracts/commands.md#failure-text). Every other failure is one line that says what happened and what to do.
"""

from collections.abc import Sequence
from typing import ClassVar

FAILED, MISUSE, NO_CLUSTER, NOT_MASTER, NOT_CONFIRMED, UNKNOWN_FIELD, INTERRUPTED, PIPE_CLOSED = (
    1, 2, 5, 11, 13, 14, 130, 141,
)  # fmt: skip
EXIT_CODES = {
    0: "The request was carried out. `--help`, `--version` and `--dry-run` end so too.",
    FAILED: "The command was refused or failed: the error says why. `gnt-cluster verify` found errors, a job or one of "
    "several jobs failed, a node did not answer.",
    MISUSE: "The command line is wrong, and nothing was done: there is no such command or option, the number of "
    "arguments is wrong, or a word is not one of an option's values. Also, as in Ganeti: the stored state is damaged "
    "(`Corrupt configuration file`).",
    NO_CLUSTER: "This machine is not part of a cluster.",
    NOT_MASTER: "This machine is not the master; the error names the master.",
    NOT_CONFIRMED: "The user did not confirm the question, or there was no terminal for it; nothing was done. `-f` "
    "skips the question.",
    UNKNOWN_FIELD: "The list is complete, but it has a column that does not exist.",
    INTERRUPTED: "Ctrl-C ended the command. A job that was submitted continues; the message names it.",
    PIPE_CLOSED: "The program that read the output ended first, as `head` does.",
}
"""The exit codes, each with its kinds of ends; the codes 5 to 14 are Ganeti's, the last two those of shells."""


class CommandError(Exception):
    """The command cannot continue; ``hint`` says what the user can do."""

    heading: ClassVar[str] = "Failure: "

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(message)

    def text(self) -> str:
        """Return the text for stderr."""
        return f"{self.heading}{self.message}; {self.hint}" if self.hint else f"{self.heading}{self.message}"


class MisuseError(CommandError):
    """The command line does not fit the command: unknown words, or too many or few."""

    heading = ""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint, exit_code=MISUSE)


class InvalidError(CommandError):
    """An argument is invalid, and no request was sent. The text has the form of the server's own errors.

    ``key`` is the invalid key inside an option's value, or None.
    """

    heading = "Failure: prerequisites not met for this operation:\nerror type: wrong_input, error details:\n"

    def __init__(self, message: str, *, hint: str = "", key: str | None = None) -> None:
        self.key = key
        super().__init__(message, hint=hint)

    def line(self) -> str:
        """Return the message and the hint without the heading."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class MalformedError(InvalidError):
    """An option's value has a syntax error; the text marks its position and lists the valid forms."""

    def __init__(self, option: str, text: str, *, position: int, problem: str, forms: Sequence[str]) -> None:
        grammar = "\n".join(f"    {form}" for form in forms)
        super().__init__(f"{option}: {problem}\n    {text}\n    {' ' * position}^\nvalid forms:\n{grammar}")


class RefusedError(CommandError):
    """The user did not confirm the operation."""

    heading = ""

    def __init__(self) -> None:
        super().__init__("Operation aborted", exit_code=NOT_CONFIRMED)


class LeftRunningError(CommandError):
    """The user pressed Ctrl-C while a job ran; the job continues."""

    heading = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=INTERRUPTED)


class ConnectionLostError(CommandError):
    """The master daemon closed the connection."""


class ServerError(CommandError):
    """An error that the master daemon returned or a job ended with, by its class name and arguments on LUXI."""

    def __init__(self, name: str, arguments: Sequence[object], *, prefix: str = "") -> None:
        self.name = name
        self.arguments = arguments
        self.prefix = prefix
        super().__init__(
            str(arguments[0]) if arguments else name, exit_code=2 if name == "ConfigurationError" else FAILED
        )

    def text(self) -> str:
        """Return the text of the error's class, after the prefix about the job's earlier opcodes."""
        return f"{self.prefix}{_server_text(self.name, self.arguments, self.message)}"


HEADINGS = {
    "OpExecError": "Failure: command execution error:\n",
    "HooksFailure": "Failure: hooks general failure: ",
    "ParameterError": "Failure: unknown/wrong parameter name ",
    "TypeEnforcementError": "Parameter Error: ",
    "QueryFilterParseError": "Error while parsing query filter: ",
    "ConfigurationError": "Corrupt configuration file: ",
    "JobLost": "Error checking job status: ",
}


def _server_text(name: str, arguments: Sequence[object], message: str) -> str:
    if name == "OpPrereqError":
        code = arguments[1] if len(arguments) > 1 else "unknown"
        return f"Failure: prerequisites not met for this operation:\nerror type: {code}, error details:\n{message}"
    if name == "HooksAbort" and arguments and isinstance(arguments[0], list):
        lines = [f"  node: {node}, script: {script}, output: {output}" for node, script, output in arguments[0]]
        return "\n".join(["Failure: hooks execution failed:", *lines])
    return HEADINGS.get(name, f"Failure: {name}: ") + message
