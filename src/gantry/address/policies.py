"""Policies that choose a free number: a policy searches a Space from ``first`` to ``last`` without changing it.

``reservations`` uses them: first free for a cluster, random for a claim, spread for a worker. "Least recently
released" depends on release times, so it is not a policy but an option of the reservations:
``Reservations(oldest_first=True)``.
"""

from collections.abc import Callable

from gantry.address import space

Policy = Callable[[space.Space, int, int], int | None]

FIRST: Policy = space.Space.next_free


def random(below: Callable[[int], int]) -> Policy:
    """Return the policy that picks a random free number; ``below(n)`` returns a random number from 0 to n - 1."""

    def pick(numbers: space.Space, first: int, last: int) -> int | None:
        return numbers.wrapped_free(first, last, start=first + below(last - first + 1))

    return pick


def spread(worker: int, *, workers: int) -> Policy:
    """Return the policy of worker 0, 1, ... of ``workers``: each begins in its own slice, to avoid collisions.

    If a worker's slice and all above are full, it continues from the bottom, so no worker fails while a number is free.
    """

    def pick(numbers: space.Space, first: int, last: int) -> int | None:
        start = first + (last - first + 1) * worker // workers
        return numbers.wrapped_free(first, last, start=start)

    return pick
