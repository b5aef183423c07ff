"""gantry-simulate: runs scenarios by seed; ``gantry simulate`` starts it.

    gantry-simulate --seed 7                the story of one seed
    gantry-simulate --seeds 0-9999          many seeds, on all processors; only those that fail are listed
    gantry-simulate --seeds 0-9 --schedule sleeping-node
                                            the same schedule in each run, in place of that which the seed draws

The exit code is 1 if a seed broke a promise. Stories are the same in every process if ``PYTHONHASHSEED`` is set, as
``gantry simulate`` and ``make simulate`` do: the order of sets of names in Python depends on it.
"""

import argparse
import concurrent.futures
import functools
import gc
import os
import sys
from collections.abc import Sequence

from gantry import __version__, option_parser
from gantry.sim import built, scenario
from gantry.sim.schedules import table

COLLECT_EVERY = 100_000
"""New objects between two garbage collections: a scenario creates many, and frees all of them at its end."""

BATCH_SIZE = 1024
"""Number of seeds that are submitted to the processes at a time; at the end of a batch, processes wait for the last."""

MAX_LISTED = 20
"""Number of failed seeds that are listed at the end."""


def show(seed: int, *, schedule: str = "") -> int:
    """Print the story of a seed; return the exit code."""
    result = scenario.run(seed, schedule=schedule)
    sys.stdout.write(result.story)
    return 1 if result.broken else 0


def run_many(seeds: range, *, processes: int, every: int, schedule: str = "") -> int:
    """Run seeds and print the progress after each ``every`` of them; return the exit code."""
    broken: dict[int, str] = {}
    done = jobs = 0
    seconds = 0.0
    # The processes are forked, so they have the prebuilt clusters.
    built.prepare(seeds)
    brief = functools.partial(_brief, schedule=schedule)
    with concurrent.futures.ProcessPoolExecutor(processes, initializer=_begin) as pool:
        for first in range(seeds.start, seeds.stop, BATCH_SIZE):
            part = range(first, min(first + BATCH_SIZE, seeds.stop))
            for result in pool.map(brief, part):
                done, jobs, seconds = done + 1, jobs + result.jobs, seconds + result.seconds
                if result.broken:
                    broken[result.seed] = result.broken
                    print(f"seed {result.seed}: {result.broken}", flush=True)
                if done % every == 0 or done == len(seeds):
                    print(f"{done} of {len(seeds)} seeds, {jobs} jobs, {seconds / 3600:.0f} hours", flush=True)
    if broken:
        named = ", ".join(map(str, list(broken)[:MAX_LISTED])) + (", ..." if len(broken) > MAX_LISTED else "")
        command = f"gantry simulate --seed{f' --schedule {schedule}' if schedule else ''}"
        print(f"{len(broken)} of {len(seeds)} seeds broke a promise: {named}; {command} shows the story")
        return 1
    print(f"{len(seeds)} seeds, no promise was broken")
    return 0


def _begin() -> None:
    gc.set_threshold(COLLECT_EVERY)
    # What was there before the fork is never garbage.
    gc.freeze()


def _brief(seed: int, *, schedule: str) -> scenario.Result:
    result = scenario.run(seed, schedule=schedule)
    # A story is larger than all other fields, and ``--seed`` can print it again.
    return scenario.Result(seed, result.broken, "", result.jobs, result.seconds)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"the range {text} is empty")
    return seeds


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the arguments, which is also the source of the reference page."""
    parser = option_parser.Parser(prog="gantry-simulate", description="Simulate clusters with faults, from seeds.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, metavar="N", help="run this seed and print its story")
    what.add_argument("--seeds", type=_range, metavar="FIRST-LAST", help="run these seeds and list those that fail")
    parser.add_argument("--schedule", choices=table.SCHEDULES, default="", help="play this schedule in each run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="run N seeds at once")
    parser.add_argument("--every", type=int, default=100, metavar="N", help="print the progress after each N seeds")
    parser.add_argument("--version", action="version", version=f"gantry-simulate {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    options = command_line().parse_args(argv)
    if options.seeds is None:
        return show(options.seed, schedule=options.schedule)
    return run_many(
        options.seeds,
        processes=max(1, options.processes),
        every=max(1, options.every),
        schedule=options.schedule,
    )


if __name__ == "__main__":
    sys.exit(main())
