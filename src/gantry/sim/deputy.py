"""The deputy: a user whom an access rule lets do everything, and who submits some jobs in place of root.

The chore ``rights`` appoints the deputy; ``client`` asks who submits a job.
"""

import random
from collections.abc import Mapping

from gantry import errors
from gantry.sim import cluster
from gantry.sim.story import Violation

NAME = "deputy"
SHARE = 0.4
"""The share of jobs that the deputy submits."""
ROOT_ONLY = "only root"
"""How the refusal of an opcode begins that no rule allows."""

ALLOWED = "a user may do what an access rule allows"


class Deputy:
    """The deputy of a run; none until ``is_appointed`` is set."""

    def __init__(self, lab: cluster.SimulatedCluster) -> None:
        self.is_appointed = False
        self._lab = lab
        self._chance: random.Random = lab.world.source("deputies")

    def pick(self) -> Mapping[str, object] | None:
        """Return the deputy as the user of a job, as ``cluster.luxi`` takes it; None if root submits it."""
        return {"name": NAME} if self.is_appointed and self._chance.random() < SHARE else None

    def check(self, user: Mapping[str, object] | None, error: errors.ForbiddenError, *, on: str) -> None:
        """Raise Violation if a master has refused what the deputy asks for, although it has the deputy's rule."""
        daemon = self._lab.daemons.get(on)
        if user != {"name": NAME} or daemon is None or error.message.startswith(ROOT_ONLY):
            return
        if f"user:{NAME}" in daemon.store.snapshot.rules_of:
            raise Violation(ALLOWED, f"{on} obeys {NAME}, administrator of the cluster", error.message)
