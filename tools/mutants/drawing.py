"""Draws mutations by a seed, so that the same ones are drawn while the code around them changes.

Each mutation has a rank, a hash of the seed and of what names the mutation. The draw takes of each line the mutation
of the lowest rank, and of these the lowest. So each line that can be mutated is as likely as any other, and a change
of the product changes the draw only by the mutations that appear in it and vanish from it.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tools.mutants import areas, mutations


def draw(sources: dict[str, bytes], number: int, seed: int) -> list[mutations.Mutation]:
    """Return mutations of files, given as texts by path; fewer than ``number`` if there are fewer lines to mutate."""
    by_line: dict[tuple[str, int], list[mutations.Mutation]] = {}
    for path, source in sources.items():
        for mutation in mutations.mutations(path, source):
            by_line.setdefault((path, mutation.line), []).append(mutation)
    ranked = sorted(
        (_first(candidates, seed) for candidates in by_line.values()), key=lambda mutation: rank(mutation, seed)
    )
    return _usable(ranked, sources, number)


def _first(candidates: Iterable[mutations.Mutation], seed: int) -> mutations.Mutation:
    return min(candidates, key=lambda mutation: rank(mutation, seed))


def _usable(ranked: list[mutations.Mutation], sources: dict[str, bytes], number: int) -> list[mutations.Mutation]:
    usable: list[mutations.Mutation] = []
    for mutation in ranked:
        if len(usable) == number:
            break
        if mutations.compiles(mutation.apply(sources[mutation.path])):
            usable.append(mutation)
    return usable


def rank(mutation: mutations.Mutation, seed: int) -> bytes:
    """Return the place of a mutation in the order of a seed."""
    return hashlib.sha256("\0".join([str(seed), *mutation.key, str(mutation.number)]).encode()).digest()


def sources(root: Path) -> dict[str, bytes]:
    """Return the texts of all modules that are mutated, by path below the checkout."""
    files = sorted(file for folder in areas.FOLDERS for file in (root / folder).rglob("*.py"))
    paths = {str(file.relative_to(root)): file for file in files}
    return {path: file.read_bytes() for path, file in paths.items() if not path.startswith(areas.LEFT_OUT)}
