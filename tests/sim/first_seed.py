"""The search for a seed that finds a mistake: it begins with one that is known to.

After the program has changed, that seed may find nothing; then all seeds are tried, which takes minutes, and a warning
names the seed that the table of the mistake should begin with.
"""

import warnings
from collections.abc import Callable, Iterator

import pytest

from gantry.sim import built, scenario

SEEDS = 300

Patch = Callable[[pytest.MonkeyPatch], None]


def broken_promises(mistake: Patch, first: int, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make the mistake, and yield the promise that each seed sees broken, the ``first`` one before all; "" for none."""
    for kind in built.KINDS:
        # Built once in a process, before the mistake, because later tests use these clusters too.
        built.lab(0, kind).world.close()
    mistake(patch)
    yield scenario.run(first).broken
    for seed in range(SEEDS):
        if seed == first:
            continue
        broken = scenario.run(seed).broken
        if broken:
            warnings.warn(f"{mistake.__name__}: not seed {first} but seed {seed} sees broken: {broken}", stacklevel=2)
        yield broken
