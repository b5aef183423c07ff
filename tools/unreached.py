"""The check for dead modules: each module below ``src/gantry`` is reached by a program.

``make check`` runs it. Programs are the entry points in ``pyproject.toml``, and those in ``OTHER_PROGRAMS``. A program
reaches what it imports, also inside functions and for types only, and what these modules import. A text that is the
name of a module counts as an import of it, and a text that ends with a dot as an import of all modules below, because
``importlib`` takes such texts. Tests, benchmarks and tools are not programs.
"""

import ast
import itertools
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

OTHER_PROGRAMS = {
    "gantry.cli.completion": "debian/rules runs it to write the shells' completions",
    "gantry.kubernetes.api.manifests": "make golden writes deploy/kubernetes/crd with it",
}
"""Modules that something other than an entry point runs, with the reason."""


def entry_points(project: Path) -> set[str]:
    """Return the modules of all entry points that a ``pyproject.toml`` declares."""
    declared = tomllib.loads(project.read_text())["project"]
    groups = [declared["scripts"], *declared["entry-points"].values()]
    return {target.partition(":")[0] for group in groups for target in group.values()}


def modules(source: Path) -> dict[str, Path]:
    """Return the file of each module of the package in a folder, by its dotted name."""
    files = {path.relative_to(source.parent).with_suffix(""): path for path in source.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for name, path in files.items()}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)):
                yield text


def unreached(files: Mapping[str, Path], programs: Iterable[str]) -> list[str]:
    """Return the modules that none of the programs reaches, sorted."""
    reached: set[str] = set()
    names = set(programs)
    while names:
        name = names.pop()
        below = [module for module in files if name.endswith(".") and module.startswith(name)]
        # An import of a module runs the packages around it; the last part may also be a name inside a module.
        parts = itertools.accumulate(name.rstrip(".").split("."), "{}.{}".format)
        fresh = {module for module in (*parts, *below) if module in files} - reached
        reached |= fresh
        names |= {imported for module in fresh for imported in _imports(files[module])}
    return sorted(files.keys() - reached)


def main() -> int:
    dead = unreached(modules(ROOT / "src" / "gantry"), entry_points(ROOT / "pyproject.toml") | OTHER_PROGRAMS.keys())
    for module in dead:
        print(f"{module}: no program imports it; delete it, or name its program in tools/unreached.py", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
