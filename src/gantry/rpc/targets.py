"""Where a call goes, and what comes back of a call to many: what the floors above know of the RPC layer."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from gantry import errors

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Target:
    """A node to call; one that is ``offline`` is answered for at once (contracts/cluster-design.md#node-flags)."""

    uuid: str
    name: str
    address: str
    port: int
    offline: bool = False


@dataclass(frozen=True, slots=True)
class Answer(Generic[Result]):
    """What one of many nodes answered: a value or an error; ``offline`` when it was not asked at all."""

    target: Target
    value: Result | None = None
    error: errors.GantryError | None = None
    offline: bool = False
