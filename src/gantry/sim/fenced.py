"""The check that a node which has obeyed a master obeys no former one, also after a power loss.

It watches the calls from outside: a node that has answered a call of an epoch may not answer a call of a lower epoch
that arrives later.
"""

from collections.abc import Callable

from gantry.rpc import calls
from gantry.runtime import http_interface
from gantry.sim import cluster, story

FENCED = "a node that has obeyed a master obeys no former one"

PROCEDURES = frozenset(
    call.procedure()
    for call in vars(calls).values()
    if isinstance(call, type) and issubclass(call, calls.Call) and call is not calls.Call and call.FENCED
)
LEAVE = calls.NodeLeave.procedure()


class Fenced:
    """Watches the calls to all nodes."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self._highest: dict[str, int] = {}
        self._violation: story.Violation | None = None
        lab.world.network.on_arrival = self._arrives

    def check(self) -> None:
        """Raise the first Violation, if there was any."""
        if self._violation is not None:
            raise self._violation

    def _arrives(self, source: str, target: str, request: http_interface.Request) -> Callable[[bytes], None] | None:
        """Return what looks at the answer to a call of a master; None for any other request."""
        procedure = request.path.removeprefix("/")
        if procedure not in PROCEDURES:
            return None
        epoch, known = int(request.headers.get(calls.EPOCH_HEADER, "0")), self._highest.get(target, 0)

        def answered(answer: bytes) -> None:
            if not answer.startswith(b"[true"):
                return
            if epoch < known and self._violation is None:
                self._violation = story.Violation(
                    FENCED,
                    f"{target} to refuse {source}'s {procedure} of epoch {epoch}",
                    f"it has obeyed epoch {known}",
                )
            self._highest[target] = max(epoch, self._highest.get(target, 0))
            if procedure == LEAVE:
                # A node without a cluster forgets its epochs.
                del self._highest[target]

        return answered
