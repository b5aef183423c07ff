"""The target of a call, and the answers of a call to several nodes, for the layers above RPC."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gantry import errors

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Target:
    """A node to call; a call to an ``offline`` node fails at once (contracts/cluster-design.md#node-flags)."""

    uuid: str
    name: str
    address: str
    port: int
    offline: bool = False


@dataclass(frozen=True, slots=True)
class Answer(Generic[Result]):
    """The answer of one of several nodes: a value or an error; ``offline`` when the node was not called."""

    target: Target
    value: Result | None = None
    error: errors.GantryError | None = None
    offline: bool = False
