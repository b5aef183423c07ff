"""How many copies of a change are enough: a policy of the cluster over the master candidates; pure.

``replication`` waits for the copies, ``lease`` for the renewals of a majority, and ``mastership.handover`` asks whether
a change can be acknowledged without candidates that are silent.
"""

from dataclasses import dataclass

from gantry.model import cluster_settings


@dataclass(frozen=True, slots=True)
class Rule:
    """How many copies are enough from record ``serial`` on; ``members`` are the candidates without the master."""

    serial: int
    policy: cluster_settings.Replication
    members: frozenset[str]

    def is_majority(self, holders: int) -> bool:
        """Return whether the master and ``holders`` of the members are more than half of the candidates."""
        return 2 * (1 + holders) > 1 + len(self.members)

    @property
    def needed(self) -> int:
        """Return how many copies are enough, the master's included, as long as the candidates answer."""
        return self.policy.copies_needed(1 + len(self.members))

    def copies_before(self, following: "Rule") -> int | None:
        """Return how many copies on members of ``following`` are enough by this rule for the change to that; or None.

        The change must not be missing to any later master. Whoever becomes one needs more than half of the candidates
        that it knows. If it does not know the change, these are the members here, with the master. So it meets the
        change if that is on a half of them, rounded up. The present master is one of these; it helps nobody to the role
        as long as its daemon runs. Copies of the removed candidate do not count, as it may delete them.
        """
        count = 1 + len(self.members)
        if self.policy.continues_alone:
            return None
        if following.members < self.members and len(self.members - following.members) == 1:
            return count - count // 2
        if following.members == self.members and following.policy.is_weaker(self.policy):
            return count // 2 + 1
        return None
