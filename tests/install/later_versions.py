"""Later versions of the packages, made of those in ``dist`` without a build: another number, and perhaps a fault."""

import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.install import machines

Change = Callable[[Path], None]
"""Changes the unpacked files of a package."""


def current() -> str:
    """Return the version of the packages in ``dist``."""
    (package,) = machines.PACKAGES.glob("gantry_*.deb")
    return _field(package, "Version")


def make(folder: Path, version: str, change: Change = lambda files: None) -> None:
    """Write all packages with another version into a folder."""
    for package in sorted(machines.PACKAGES.glob("gantry*.deb")):
        with tempfile.TemporaryDirectory() as unpacked:
            files = Path(unpacked)
            subprocess.run(["dpkg-deb", "--raw-extract", package, files], check=True)
            _renumber(files, current(), version)
            change(files)
            architecture = _field(package, "Architecture")
            target = folder / f"{_field(package, 'Package')}_{version}_{architecture}.deb"
            subprocess.run(
                ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", files, target],
                check=True,
                stdout=subprocess.DEVNULL,
            )


def _field(package: Path, name: str) -> str:
    field = subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True, text=True)
    return field.stdout.strip()


def _renumber(files: Path, before: str, after: str) -> None:
    control = files / "DEBIAN/control"
    text = re.sub(rf"^Version: {re.escape(before)}$", f"Version: {after}", control.read_text(), flags=re.MULTILINE)
    control.write_text(text.replace(f"(= {before})", f"(= {after})"))
    for source in files.glob("usr/lib/gantry/*/gantry/__init__.py"):
        source.write_text(source.read_text().replace(f'"{before}"', f'"{after}"'))


def without_node_daemon(files: Path) -> None:
    """Replace the node daemon by a program that fails."""
    program = files / "usr/sbin/gantry-noded"
    if program.exists():
        program.write_text("#!/bin/sh\necho 'gantry-noded: this version is broken' >&2\nexit 1\n")
