"""The one exception tree: a class per reaction, each with its code on every wire.

A class says how a caller shall react, the message what happened, to which object and who holds it, the
hint what to do. The docstring of a class is its default message. ``luxi`` is the class name that LUXI clients
know and ``code`` the error code that goes with OpPrereqError (contracts/luxi.md#errors); ``status`` is the HTTP
status of the doors and ``exit_code`` that of the commands.
"""

import re
from typing import ClassVar


class GantryError(Exception):
    """The operation failed."""

    luxi: ClassVar[str] = "OpExecError"
    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        self.message = message or (self.__doc__ or "").split("\n")[0]
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def luxi_pair(self) -> tuple[str, list[object]]:
        """Return class name and arguments as LUXI carries a failure (contracts/luxi.md#errors)."""
        if self.luxi == "OpPrereqError":
            return self.luxi, [str(self), self.code]
        return self.luxi, [str(self)]


class PrerequisiteError(GantryError):
    """The request cannot be carried out as things are; nothing was changed."""

    luxi = "OpPrereqError"
    code = "wrong_state"
    status = 409


class InvalidError(PrerequisiteError):
    """A value of the request is not valid."""

    code = "wrong_input"
    status = 400


class ForbiddenError(PrerequisiteError):
    """Only root on the master may do this."""

    code = "forbidden"
    status = 403


class NotFoundError(PrerequisiteError):
    """An object that the request names does not exist."""

    code = "unknown_entity"
    status = 404


class ExistsError(PrerequisiteError):
    """An object of that name exists already."""

    code = "already_exists"


class NotUniqueError(PrerequisiteError):
    """The resource is held by somebody else."""

    code = "resource_not_unique"


class NoRoomError(PrerequisiteError):
    """There is not enough room for the request."""

    code = "insufficient_resources"


class BusyError(PrerequisiteError):
    """The resource is busy for the moment; try again later."""

    code = "temp_insufficient_resources"
    status = 503


class PrunedError(GantryError):
    """The records are not kept any more: start over from the present state."""

    luxi = "PrunedError"
    code = "unknown_entity"
    status = 410


class WrongStateError(PrerequisiteError):
    """The object is in a state that does not allow the request."""


class FencedError(WrongStateError):
    """The call comes from a master that has been replaced."""

    # on the wire between master and node; doors never see it, the master ends
    status = 412


class NotGrantedError(FencedError):
    """The role was granted to another node, or the epoch is another's: the master has to be confirmed again."""

    status = 428


class UnprovenError(WrongStateError):
    """The node has not seen the proof of the master's epoch, and does not obey it without one yet."""

    # on the wire between master and node
    status = 425


class IncompatibleError(WrongStateError):
    """The versions of two daemons are too far apart."""

    # on the wire between master and node
    status = 426


class EnvironmentFaultError(PrerequisiteError):
    """Something outside the cluster's own state stands in the way."""

    code = "environment_error"


class ExecutionError(GantryError):
    """A step of the operation failed after its checks had passed."""


class HooksError(GantryError):
    """A hook script stopped the operation."""

    luxi = "HooksAbort"

    def __init__(self, failures: list[tuple[str, str, str]]) -> None:
        self.failures = failures
        lines = ", ".join(f"{script} on {node}: {output}" for node, script, output in failures)
        super().__init__(f"hooks failed: {lines}")

    def luxi_pair(self) -> tuple[str, list[object]]:
        """Return the failures as one list of ``[node, script, output]``."""
        return self.luxi, [[list(failure) for failure in self.failures]]


class LockError(GantryError):
    """A lock was asked for in the wrong order, or it was removed while the request waited."""

    luxi = "LockError"
    status = 409


class ConfigurationError(GantryError):
    """The stored state is damaged or does not fit together."""

    luxi = "ConfigurationError"
    exit_code = 2


class StorageError(GantryError):
    """The state could not be written."""

    luxi = "StorageError"
    status = 507


class NotMasterError(GantryError):
    """The master does not reach enough master candidates, so it may change nothing."""

    luxi = "NotMasterError"
    code = "temp_insufficient_resources"
    status = 503


class UnacknowledgedError(NotMasterError):
    """The change is stored on the master, but not on enough master candidates: whether it holds is not known."""

    luxi = "UnacknowledgedError"
    status = 504


class JobLostError(GantryError):
    """There is no such job."""

    luxi = "JobLost"
    code = "unknown_entity"
    status = 404


class JobCanceledError(GantryError):
    """The job was canceled."""

    luxi = "JobCanceled"


class QueueDrainedError(GantryError):
    """The job queue is drained and takes no new jobs."""

    luxi = "JobQueueDrainError"
    status = 503


class QueueFullError(GantryError):
    """The job queue is full."""

    luxi = "JobQueueFull"
    status = 503


class ProtocolError(GantryError):
    """A message does not follow the protocol."""

    luxi = "LuxiError"
    status = 400


class UnknownCallerError(ProtocolError):
    """The caller's certificate is not one that the node knows.

    ``obeyed`` has the epoch that the node obeys, and the UUID of its master; 0 and empty if the node has said none.
    """

    # on the wire between master and node; the master introduces itself
    status = 403

    def __init__(self, message: str = "", *, hint: str = "", obeyed: tuple[int, str] = (0, "")) -> None:
        super().__init__(message, hint=hint)
        self.obeyed = obeyed


class FilterError(GantryError):
    """A query filter cannot be read."""

    luxi = "QueryFilterParseError"
    status = 400


class RemoteError(GantryError):
    """A node did not answer, or answered with a failure."""

    luxi = "RemoteError"
    status = 502


class HypervisorError(GantryError):
    """The hypervisor refused or failed."""

    luxi = "HypervisorError"


class BlockDeviceError(GantryError):
    """A disk could not be made, found or removed."""

    luxi = "BlockDeviceError"


class InternalError(GantryError):
    """A bug: the code met a case that its author excluded."""

    luxi = "ProgrammerError"


_AT = re.compile(r" - at `(?:key` in `)?\$\.?(?P<path>[^`]*)`$")
_ITEM = re.compile(r"^\[(\d+)\]\.?")
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a text",
}
_PLAIN = (
    (re.compile(r"Expected `str` of length >= 1$"), "must not be empty"),
    (re.compile(r"Expected `str` of length >= (\d+)$"), r"must have at least \1 characters"),
    (re.compile(r"Expected `str` of length <= (\d+)$"), r"must have at most \1 characters"),
    (re.compile(r"Expected `array` of length >= (\d+)$"), r"needs at least \1 values"),
    (re.compile(r"Expected `array` of length <= (\d+)$"), r"takes at most \1 values"),
    (re.compile(r"Expected `(?:int|float)` >= (\S+)$"), r"must be at least \1"),
    (re.compile(r"Expected `(?:int|float)` <= (\S+)$"), r"must be at most \1"),
    (re.compile(r"Invalid (?:enum )?value '(.*)'$", re.S), r"'\1' is not a valid value"),
    (re.compile(r"Expected (a .*)$"), r"must be \1"),
)
_EXPECTED = re.compile(r"Expected `([^`]*)`(?:, got `([^`]*)`)?$")


def readable(message: str) -> str:
    """Return a message of the decoder about a value in plain words, with the client's path of the value in front.

    >>> readable("Expected `int` <= 4094 - at `$.ranges[0].maximum`")
    'ranges[0].maximum: must be at most 4094'
    >>> readable("Expected `array`, got `str` - at `$[1]`")
    'item 2: must be a list, not a text'
    """
    match = _AT.search(message)
    path = match["path"].replace("[...]", "") if match else ""
    path = _ITEM.sub(lambda item: f"item {int(item[1]) + 1} ", path).rstrip()
    problem = _problem(message[: match.start()] if match else message)
    return f"{path}: {problem}" if path else problem


def _problem(message: str) -> str:
    for pattern, words in _PLAIN:
        if pattern.match(message):
            return pattern.sub(words, message)
    expected = _EXPECTED.match(message)
    if expected is None:
        return message
    types = " or ".join(_KINDS.get(kind, kind) for kind in expected[1].split(" | "))
    return f"must be {types}, not {_KINDS.get(expected[2], expected[2])}" if expected[2] else f"must be {types}"


def _tree(root: type[GantryError]) -> list[type[GantryError]]:
    return [root] + [leaf for child in root.__subclasses__() for leaf in _tree(child)]


def from_luxi(name: str, arguments: list[object]) -> GantryError:
    """Rebuild the error that ``luxi_pair`` wrote; a name that is not known gives a RemoteError.

    >>> from_luxi("OpPrereqError", ["no such network: net1", "unknown_entity"])
    NotFoundError('no such network: net1')
    """
    text = str(arguments[0]) if arguments else ""
    code = arguments[1] if len(arguments) > 1 else None
    known = [cls for cls in _tree(GantryError) if cls.luxi == name and cls is not HooksError]
    exact = [cls for cls in known if name != "OpPrereqError" or (cls.code == code and cls is not PrerequisiteError)]
    return (exact or known)[0](text) if known else RemoteError(f"{name}: {text}")
