"""Reads debian/control and debian/*.install: which packages there are, and which files each holds."""

import fnmatch
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.packaging import tree

DEBIAN = tree.CHECKOUT / "debian"
PAGES = tree.CHECKOUT / "docs/reference/commands"
FOLDED = (f"{tree.CLIENT}/", f"{tree.MODULES}/", "usr/share/gantry/os/")
"""Folders that stand for all files in them."""


@dataclass(frozen=True)
class Package:
    """A package: its synopsis, description, and the names of packages that it depends on and recommends."""

    name: str
    synopsis: str
    description: str
    depends: tuple[str, ...]
    recommends: tuple[str, ...]


def packages() -> list[Package]:
    """Return the packages, in the order of debian/control."""
    stanzas = [_fields(stanza) for stanza in (DEBIAN / "control").read_text().split("\n\n")]
    return [_package(stanza) for stanza in stanzas if "Package" in stanza]


def _fields(stanza: str) -> dict[str, str]:
    lines = re.sub(r"\n ", "\f", stanza.strip()).split("\n")
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _package(stanza: Mapping[str, str]) -> Package:
    synopsis, *lines = stanza["Description"].split("\f")
    *_, last = "\n".join(lines).split("\n.\n")
    return Package(
        stanza["Package"], synopsis, " ".join(last.split()), _names(stanza, "Depends"), _names(stanza, "Recommends")
    )


def _names(stanza: Mapping[str, str], field: str) -> tuple[str, ...]:
    names = [each.split()[0] for each in stanza.get(field, "").split(",") if each.strip()]
    return tuple(sorted({name for name in names if not name.startswith("$")}))


def files() -> list[str]:
    """Return the paths of all files of the packages, without the libraries."""
    with tempfile.TemporaryDirectory() as folder:
        built, target = Path(folder, "built"), Path(folder, "target")
        (built / "man").mkdir(parents=True)
        for name in ("gantry-configuration.5", "gantry-files.5", *(f"{page.stem}.8" for page in PAGES.glob("g*.md"))):
            (built / "man" / name).touch()
        for shell in tree.COMPLETIONS:
            (built / f"completion.{shell}").touch()
        tree.install(target, libraries=None, built=built)
        return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def owners() -> Mapping[str, list[str]]:
    """Return the packages that hold each file; each should have one."""
    claims = [(name, pattern) for name in (each.name for each in packages()) for pattern in _patterns(name)]
    return {
        path: [
            name for name, pattern in claims if fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, f"{pattern}/*")
        ]
        for path in files()
    }


def _patterns(package: str) -> Iterator[str]:
    path = DEBIAN / f"{package}.install"
    yield from path.read_text().split() if path.exists() else ()


def folded(paths: list[str]) -> list[str]:
    """Return paths with one entry for each folder that stands for its files."""
    short = [next((folder for folder in FOLDED if path.startswith(folder)), path) for path in paths]
    return list(dict.fromkeys(short))
