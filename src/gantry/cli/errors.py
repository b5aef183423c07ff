"""What ends a command: one exception per reaction, each with the text for stderr and the exit code.

Anything in the room raises them, ``main`` alone prints them. The texts of the server's errors are those that scripts
look for (contracts/commands.md#failure-text); every other failure is one line: what happened, what to do.
"""

from collections.abc import Sequence
from typing import ClassVar


class CommandError(Exception):
    """The command cannot go on; ``hint`` says what to do about it."""

    heading: ClassVar[str] = "Failure: "

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(message)

    def text(self) -> str:
        """Return what stderr shows."""
        return f"{self.heading}{self.message}; {self.hint}" if self.hint else f"{self.heading}{self.message}"


class MisuseError(CommandError):
    """Words that the command does not take; for options the exit code is 2, as option parsers have it."""

    heading = ""

    def __init__(self, message: str, *, hint: str, exit_code: int = 2) -> None:
        super().__init__(message, hint=hint, exit_code=exit_code)


class InvalidError(CommandError):
    """An argument cannot be understood; it looks like the server's own refusal, nothing was sent.

    ``key`` is the key of an option's value that it is about, if it is about one.
    """

    heading = "Failure: prerequisites not met for this operation:\nerror type: wrong_input, error details:\n"

    def __init__(self, message: str, *, hint: str = "", key: str | None = None) -> None:
        self.key = key
        super().__init__(message, hint=hint)

    def line(self) -> str:
        """Return what happened and what to do, without the heading."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class MalformedError(InvalidError):
    """An option's value does not follow its grammar: shows it with a mark under the place, and the forms there are."""

    def __init__(self, option: str, text: str, *, at: int, what: str, forms: Sequence[str]) -> None:
        grammar = "\n".join(f"    {form}" for form in forms)
        super().__init__(f"{option}: {what}\n    {text}\n    {' ' * at}^\nwrite\n{grammar}")


class RefusedError(CommandError):
    """Somebody was asked whether to go on and did not say yes."""

    heading = ""

    def __init__(self, *, exit_code: int = 1) -> None:
        super().__init__("Operation aborted", exit_code=exit_code)


class LeftRunningError(CommandError):
    """Ctrl-C while a job ran: the job goes on."""

    heading = ""


class ConnectionLostError(CommandError):
    """The master daemon hung up."""


class ServerError(CommandError):
    """An error that the master daemon answered, or that a job ended with: class name and arguments of LUXI."""

    def __init__(self, name: str, arguments: Sequence[object], *, prefix: str = "") -> None:
        self.name = name
        self.arguments = arguments
        self.prefix = prefix
        super().__init__(str(arguments[0]) if arguments else name, exit_code=2 if name == "ConfigurationError" else 1)

    def text(self) -> str:
        """Return the text of the class, with whether an earlier opcode of the job had been carried out."""
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
