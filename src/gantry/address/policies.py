"""Which free number is handed out: a policy searches a Space from ``first`` to ``last`` and marks nothing.

Who calls it: ``reservations`` and ``pools``, with the policy that a cluster (first free), a claim (random) or a worker
(spread) asks for. "Least recently freed" needs to know what was freed when, so it is no policy here but
a property of the reservations: ``Reservations(oldest_first=True)``.
"""

from collections.abc import Callable

from gantry.address import space

Policy = Callable[[space.Space, int, int], int | None]

FIRST: Policy = space.Space.next_free


def random(below: Callable[[int], int]) -> Policy:
    """Return the policy that picks some free number; ``below(n)`` gives a random number from 0 to n - 1."""

    def pick(numbers: space.Space, first: int, last: int) -> int | None:
        return numbers.wrapped_free(first, last, start=first + below(last - first + 1))

    return pick


def spread(worker: int, *, workers: int) -> Policy:
    """Return the policy of worker 0, 1, ... of ``workers``: each begins in its own slice, so that they do not collide.

    A worker whose slice and everything above it is full goes on from the bottom, so none fails while a number is free.
    """

    def pick(numbers: space.Space, first: int, last: int) -> int | None:
        start = first + (last - first + 1) * worker // workers
        return numbers.wrapped_free(first, last, start=start)

    return pick
