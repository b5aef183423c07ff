"""The calls that look for and run scripts: operating system definitions and hooks."""

from typing import ClassVar, Literal

from gantry.rpc.calls.base import FAST, NORMAL, SLOW, Call, Message
from gantry.rpc.calls.instance import Instance
from gantry.rpc.calls.texts import Line, Name, Text


class OsScript(Message, frozen=True):
    """An operating system definition as one node has it; ``problem`` says why it is not valid."""

    name: str
    path: str
    problem: str = ""
    variants: tuple[str, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    api_versions: tuple[int, ...] = ()
    hypervisors: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


class OsDiagnose(Call[tuple[OsScript, ...]], frozen=True):
    """List the OS definitions of a node."""

    READS: ClassVar[bool] = True


class OsValidate(Call[OsScript], frozen=True):
    """Look one OS definition up, by name without variant; raises NotFoundError."""

    READS: ClassVar[bool] = True
    name: Name


class OsAdd(Call[str], frozen=True):
    """Run an OS definition's create script over an instance's disks; the result is the path of its log."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    reinstall: bool = False
    debug: int = 0


class OsRename(Call[str], frozen=True):
    """Run an OS definition's rename script for an instance that has its new name; the result is the path of its log."""

    LIMIT: ClassVar[float] = SLOW
    instance: Instance
    old: Name
    debug: int = 0


class OsCancel(Call[None], frozen=True):
    """Kill the script of an OS definition that runs over the disks of an instance, named by UUID, if there is one.

    The call that runs the script ends with ExecutionError.
    """

    instance: Name


class OsVerify(Call[None], frozen=True):
    """Have an OS definition's verify script check the instance's OS parameters, where it has one; InvalidError."""

    READS: ClassVar[bool] = True
    LIMIT: ClassVar[float] = FAST
    instance: Instance


class HookResult(Message, frozen=True):
    """The outcome of a hook script: ``skipped``, ``failed`` or ``succeeded``, and the end of its output."""

    script: str
    outcome: Literal["skipped", "failed", "succeeded"]
    output: str = ""


class HooksRun(Call[tuple[HookResult, ...]], frozen=True):
    """Run a node's hook scripts of a path, such as ``instance-add``, in the phase ``pre`` or ``post``."""

    LIMIT: ClassVar[float] = NORMAL
    path: Name
    phase: Literal["pre", "post"]
    environment: dict[Line, Text]
