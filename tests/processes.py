"""Processes that a test has started, as the kernel shows them."""

from pathlib import Path


def children(process: int) -> list[int]:
    """Return the ids of the processes that the main thread of a process has started, and that have not been reaped."""
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
