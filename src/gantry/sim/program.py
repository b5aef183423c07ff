"""gantry-simulate: runs scenarios by seed; ``gantry simulate`` starts it.

    gantry-simulate --seed 7                the story of one seed
    gantry-simulate --seeds 0-9999          many seeds, on all processors; only those that fail are named

The exit code is 1 when a promise was broken. Stories are the same in every process with ``PYTHONHASHSEED`` set, which
``gantry simulate`` and ``make simulate`` do: the order of sets of names in Python depends on it.
"""

import argparse
import concurrent.futures
import gc
import os
import sys
from collections.abc import Sequence

from gantry import __version__
from gantry.sim import scenario

COLLECT_EVERY = 100_000
"""New objects between two rounds of the garbage collector: a scenario makes many and lets them all go at its end."""

AHEAD = 64
"""Seeds that are handed to the processes before the first of them has ended."""

SHOWN = 20
"""How many seeds that fail are named at the end."""


def show(seed: int) -> int:
    """Print the story of a seed; return the exit code."""
    result = scenario.run(seed)
    sys.stdout.write(result.story)
    return 1 if result.broken else 0


def run_many(seeds: range, *, processes: int, every: int) -> int:
    """Run seeds and say how it goes after each ``every`` of them; return the exit code."""
    broken: dict[int, str] = {}
    done = jobs = 0
    seconds = 0.0
    with concurrent.futures.ProcessPoolExecutor(processes, initializer=_begin) as pool:
        for first in range(seeds.start, seeds.stop, AHEAD):
            part = range(first, min(first + AHEAD, seeds.stop))
            for result in pool.map(_brief, part):
                done, jobs, seconds = done + 1, jobs + result.jobs, seconds + result.seconds
                if result.broken:
                    broken[result.seed] = result.broken
                    print(f"seed {result.seed}: {result.broken}", flush=True)
                if done % every == 0 or done == len(seeds):
                    print(f"{done} of {len(seeds)} seeds, {jobs} jobs, {seconds / 3600:.0f} hours", flush=True)
    if broken:
        named = ", ".join(map(str, list(broken)[:SHOWN])) + (", ..." if len(broken) > SHOWN else "")
        print(f"{len(broken)} of {len(seeds)} seeds broke a promise: {named}; gantry simulate --seed shows the story")
        return 1
    print(f"{len(seeds)} seeds, no promise was broken")
    return 0


def _begin() -> None:
    gc.set_threshold(COLLECT_EVERY)


def _brief(seed: int) -> scenario.Result:
    result = scenario.run(seed)
    # A story takes more room than all the rest, and can be had again.
    return scenario.Result(seed, result.broken, "", result.jobs, result.seconds)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        found = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST") from None
    if not found:
        raise argparse.ArgumentTypeError(f"there is no seed in {text}")
    return found


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments; the reference page is made from it too."""
    parser = argparse.ArgumentParser(prog="gantry-simulate", description="Simulates clusters under faults, by seed.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, metavar="N", help="run this seed and print its story")
    what.add_argument("--seeds", type=_range, metavar="FIRST-LAST", help="run these seeds and name those that fail")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once")
    parser.add_argument("--every", type=int, default=100, metavar="N", help="say after each N seeds how it goes")
    parser.add_argument("--version", action="version", version=f"gantry-simulate {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    options = command_line().parse_args(argv)
    if options.seeds is None:
        return show(options.seed)
    return run_many(options.seeds, processes=max(1, options.processes), every=max(1, options.every))


if __name__ == "__main__":
    sys.exit(main())
