"""Renders the figures of one run as the reference page, so that nobody copies a figure by hand."""

from collections.abc import Iterable, Mapping

from benchmarks.figure import Figure

RUNS = 3
"""The least number of whole runs that the page is made from."""

HEAD = """# Benchmarks

The figures of whole runs of `make bench`, which wrote this page: `make bench RUNS=3 PAGE=docs/reference/benchmarks.md`.
Each row is the median of the runs' medians, with the smallest and the largest of them, beside what it must reach on two
cores; a figure that misses its limit makes the run fail, unless the limit is a goal. Machines are noisy: compare
figures of the same runs with each other, and trust ratios before figures. What a hypervisor has stolen meanwhile, it
has given to other machines; a tenth of the time is more than a tenth of a figure.

"""


def render(machine: Mapping[str, object], figures: Iterable[Figure]) -> str:
    """Return the page, in Markdown."""
    facts = [f"| {key} | {value} |" for key, value in machine.items()]
    rows = [_row(figure) for figure in figures]
    return HEAD + "\n".join(
        ["| machine | |", "|---|---|", *facts, "", "| benchmark | median | unit | spread | must reach | |"]
        + ["|---|---|---|---|---|---|", *rows, ""]
    )


def _row(figure: Figure) -> str:
    limit = f"{'at least' if figure.at_least else 'at most'} {figure.limit:g}" if figure.limit is not None else ""
    limit += ", a goal" if figure.goal else ""
    verdict = {True: "reached", False: "**missed**", None: ""}[figure.reached]
    return f"| {figure.name} | {figure.median:.4g} | {figure.unit} | {figure.spread} | {limit} | {verdict} |"
