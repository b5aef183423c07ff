"""Permits: for how long a node may carry out a call that changes something.

    x-gantry-moment: RUN SECONDS                in each answer of a node daemon: its run, and the time of its clock
    x-gantry-permit: RUN NUMBER RUN SECONDS     in a call: the caller's run, the call's number, the end of its permit

A run is a token of one run of a daemon. The end of a permit is a moment of the node daemon's own, monotonic clock: the
caller computes it from the moment in an earlier answer (``rpc.permits``). So a call that was on its way for too long,
because the node slept or the network held it up, is not carried out (``node.permits``): its caller may have given it
up, or have lost the role of the master. While the caller waits for the answer, it extends the permit by
``ExtendPermits``; if it gives the call up, it ends it by ``EndCalls``. A master of an earlier version sends no permits,
and its calls are carried out whenever they arrive.

See explanation/replication.md#permits.
"""

import math
import re
from typing import ClassVar, NamedTuple

from gantry.rpc.calls.base import Call
from gantry.rpc.calls.texts import Line, Token

MOMENT_HEADER = "x-gantry-moment"
PERMIT_HEADER = "x-gantry-permit"

_MOMENT = r"([0-9a-z-]{1,40}) ([0-9]{1,12}\.[0-9]{3})"
_MOMENT_FORM = re.compile(_MOMENT, re.ASCII)
_PERMIT_FORM = re.compile(rf"([0-9a-z-]{{1,40}}) ([0-9]{{1,18}}) {_MOMENT}", re.ASCII)


class Moment(NamedTuple):
    """A time of a node daemon's monotonic clock, in seconds, and the run of that daemon."""

    run: str
    seconds: float

    def later(self, seconds: float) -> "Moment":
        """Return the moment ``seconds`` later, not before the clock's begin."""
        return Moment(self.run, max(0.0, self.seconds + seconds))

    def encode(self) -> str:
        """Return the header, rounded down: a permit may end too early, never too late.

        >>> Moment("a7", 12.3459).encode()
        'a7 12.345'
        """
        return f"{self.run} {math.floor(self.seconds * 1000) / 1000:.3f}"


class Permit(NamedTuple):
    """The permit of a call: the run of its caller's daemon, its number there, and until when the node may act."""

    run: str
    number: int
    until: Moment

    def encode(self) -> str:
        """Return the header.

        >>> Permit("m1", 7, Moment("a7", 12.5)).encode()
        'm1 7 a7 12.500'
        """
        return f"{self.run} {self.number} {self.until.encode()}"


def decode_moment(header: str | None) -> Moment | None:
    """Return the moment in a header; None if there is none, or if it is malformed.

    >>> decode_moment("a7 12.345"), decode_moment("12.345"), decode_moment(None)
    (Moment(run='a7', seconds=12.345), None, None)
    """
    form = _MOMENT_FORM.fullmatch(header or "")
    return Moment(form[1], float(form[2])) if form else None


def decode_permit(header: str) -> Permit | None:
    """Return the permit in a header; None if it is malformed.

    >>> decode_permit("m1 7 a7 12.500")
    Permit(run='m1', number=7, until=Moment(run='a7', seconds=12.5))
    """
    form = _PERMIT_FORM.fullmatch(header)
    return Permit(form[1], int(form[2]), Moment(form[3], float(form[4]))) if form else None


class ExtendPermits(Call[None], frozen=True):
    """Extend the permits of the calls ``numbers`` of the caller's ``run`` until ``until``, a moment (``Moment``).

    The node ignores the numbers of calls that have ended, and a moment of another run of its daemon.
    """

    FENCED: ClassVar[bool] = False  # it names the run of the master daemon, which is secret, and no other call
    LIMIT: ClassVar[float] = 5.0
    run: Token
    numbers: tuple[int, ...]
    until: Line


class EndCalls(Call[None], frozen=True):
    """End the calls ``numbers`` of the caller's ``run`` that are at work; the answer comes when they have ended.

    Their programs are killed, and what they have begun is cleaned up, as when a program fails.
    """

    FENCED: ClassVar[bool] = False  # it names the run of the master daemon, which is secret, and no other call
    LIMIT: ClassVar[float] = 5.0
    run: Token
    numbers: tuple[int, ...]
