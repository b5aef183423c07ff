"""Installs the files of all packages below a folder; ``debian/*.install`` says which file belongs to which package.

    python -m tools.packaging.tree [--libraries FOLDER] [--built FOLDER] FOLDER

``--libraries`` is where pip installed the libraries, ``--built`` has the man pages (``man/``) and the completions
(``completion.bash`` and the like). The private path of Python is ``/usr/lib/gantry``; each program is a file of a few
lines that adds this path and calls its function of pyproject.toml. Times and modes do not depend on the machine.
"""

import argparse
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import gantry

CHECKOUT = Path(__file__).parents[2]
PRIVATE = "usr/lib/gantry"
CLIENT, MODULES, LIBRARIES = f"{PRIVATE}/client", f"{PRIVATE}/modules", f"{PRIVATE}/libraries"
DAEMONS = ("gantry-masterd", "gantry-noded", "gantry-rapi", "gantry-kube", "gantry-watcher", "gantry-is-master")
"""Programs that services start; all others are commands."""
SYSTEMD = {".sysusers": "usr/lib/sysusers.d", ".tmpfiles": "usr/lib/tmpfiles.d"}
"""The folders of files of deploy/systemd by their suffix; all others are units."""
UNITS = "lib/systemd/system"
ENTRY_POINTS = ("neutron.ipam_drivers",)
"""Groups of entry points that programs of Debian look for."""
SYSTEM_PACKAGES = "usr/lib/python3/dist-packages"
PROGRAM = """#!/usr/bin/python3 -I
import sys

sys.path[:0] = {path!r}
from {module} import {function}

sys.exit({function}())
"""
PATHS = {"gantry.cli.": [CLIENT], "gantry.ipam.neutron.": [MODULES]}
"""The private path of programs by the beginning of their module; the libraries of the second are Neutron's."""
SHARED = {
    "os": "usr/share/gantry/os",
    "deploy/kubernetes": "usr/share/gantry/kubernetes",
    "deploy/prometheus": "usr/share/gantry/prometheus",
    "deploy/grafana": "usr/share/gantry/grafana",
}
"""Folders of the checkout that are installed as they are; the wheel has them too (pyproject.toml)."""
SOURCES_ONLY = ("__pycache__", "Containerfile")
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/gantry",
    "zsh": "usr/share/zsh/vendor-completions/_gantry",
    "fish": "usr/share/fish/vendor_completions.d/gantry.fish",
}


def project() -> Mapping[str, object]:
    """Return the table ``project`` of pyproject.toml."""
    table: Mapping[str, object] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return table


def programs() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each program."""
    scripts = project()["scripts"]
    assert isinstance(scripts, dict)
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        folder = "usr/sbin" if name in DAEMONS else "usr/bin"
        parts = next((parts for start, parts in PATHS.items() if module.startswith(start)), [MODULES, LIBRARIES])
        yield f"{folder}/{name}", PROGRAM.format(path=[f"/{each}" for each in parts], module=module, function=function)


def metadata() -> Iterator[tuple[str, str]]:
    """Yield the files that make the driver for neutron-server visible to Debian's Python."""
    folder = f"{SYSTEM_PACKAGES}/gantry-{gantry.__version__}.dist-info"
    points = project()["entry-points"]
    assert isinstance(points, dict)
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points[group].items()) for group in ENTRY_POINTS
    ]
    yield f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: gantry\nVersion: {gantry.__version__}\n"
    yield f"{folder}/entry_points.txt", "\n".join(groups)
    yield f"{SYSTEM_PACKAGES}/gantry.pth", f"/{MODULES}\n"


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*SOURCES_ONLY), dirs_exist_ok=True)


def _write(target: Path, text: str, *, mode: int = 0o644) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def install(target: Path, *, libraries: Path | None, built: Path | None) -> None:
    """Install all files below ``target``."""
    source = CHECKOUT / "src/gantry"
    _copy(source, target / MODULES / "gantry")
    shutil.rmtree(target / MODULES / "gantry/cli")
    _copy(source / "cli", target / CLIENT / "gantry/cli")
    shutil.copy(source / "__init__.py", target / CLIENT / "gantry/__init__.py")
    for path, text in programs():
        _write(target / path, text, mode=0o755)
    for path, text in metadata():
        _write(target / path, text)
    for name, path in SHARED.items():
        _copy(CHECKOUT / name, target / path)
    _write(target / "etc/logrotate.d/gantry", (CHECKOUT / "deploy/logrotate/gantry").read_text())
    for settings in sorted((CHECKOUT / "deploy/etc").glob("*.toml")):
        _write(target / f"etc/gantry/{settings.name}", settings.read_text())
    for file in sorted((CHECKOUT / "deploy/systemd").iterdir()):
        folder = SYSTEMD.get(file.suffix)
        _write(target / (f"{folder}/{file.stem}.conf" if folder else f"{UNITS}/{file.name}"), file.read_text())
    if libraries:
        _copy(libraries, target / LIBRARIES)
        shutil.rmtree(target / LIBRARIES / "bin", ignore_errors=True)
    if built:
        for page in sorted((built / "man").glob("*.[58]")):
            _write(target / f"usr/share/man/man{page.suffix[1:]}/{page.name}", page.read_text())
        for shell, path in COMPLETIONS.items():
            _write(target / path, (built / f"completion.{shell}").read_text())
        for path, _ in programs():
            # bash looks for a completion by the name of the command.
            name = Path(path).name
            if name.startswith("gnt-"):
                (target / COMPLETIONS["bash"]).with_name(name).symlink_to("gantry")


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Install the files of all packages below a folder.")
    parser.add_argument("--libraries", type=Path, help="folder in which pip installed the libraries")
    parser.add_argument("--built", type=Path, help="folder with the man pages and the completions")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    install(options.folder, libraries=options.libraries, built=options.built)


if __name__ == "__main__":
    main()
