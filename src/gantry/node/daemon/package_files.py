"""What dpkg, apt and systemd print about Gantry's packages, and the words for them; pure (``packages`` runs them)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

NAMES = (
    *("gantry", "gantry-api", "gantry-client", "gantry-common"),
    *("gantry-ipam", "gantry-kube", "gantry-master", "gantry-node"),
)
"""All binary packages of ``debian/control``."""

CODE = "gantry-common"
"""The package with the modules of the daemons."""

FORMAT = "${Package}\t${Version}\t${db:Status-Status}\n"
"""For dpkg-query(1)."""

ABSENT = ("not-installed", "config-files")
INSTALLED = "installed"


class Package(NamedTuple):
    """A package that is installed, or was left in the middle of that: ``status`` as in dpkg-query(1)."""

    name: str
    version: str
    status: str


def parse(listed: str) -> tuple[Package, ...]:
    """Return the packages in the output of dpkg-query, without those that are not installed."""
    rows = [line.split("\t") for line in listed.splitlines()]
    listed_packages = [Package(*row) for row in rows if len(row) == 3]
    return tuple(package for package in listed_packages if package.name in NAMES and package.status not in ABSENT)


def version(packages: Sequence[Package]) -> str:
    """Return the version that all packages have, configured; empty if there is none."""
    versions = {package.version for package in packages}
    is_whole = len(versions) == 1 and all(package.status == INSTALLED for package in packages)
    return versions.pop() if is_whole else ""


def unpacked(packages: Sequence[Package]) -> str:
    """Return the version of the code on the disk, which a daemon gets that starts while packages are configured."""
    return next((package.version for package in packages if package.name == CODE), "")


def fault(packages: Sequence[Package]) -> str:
    """Return which packages there are, unless they are all of one version and configured.

    >>> fault([Package("gantry-node", "1.0", "installed"), Package("gantry-common", "1.1", "unpacked")])
    'gantry-node 1.0, gantry-common 1.1 (unpacked)'
    """
    if not packages or version(packages):
        return ""
    states = [("" if package.status == INSTALLED else f" ({package.status})") for package in packages]
    return ", ".join(
        f"{package.name} {package.version}{state}" for package, state in zip(packages, states, strict=True)
    )


def arguments(names: Iterable[str], package_version: str) -> list[str]:
    """Return the words for apt: each package with the version.

    >>> arguments(["gantry-node"], "1.1")
    ['gantry-node=1.1']
    """
    return [f"{name}={package_version}" for name in names]


def offered(listed: str) -> set[tuple[str, str]]:
    """Return name and version of the packages in the output of ``apt-cache madison``: those that can be downloaded.

    >>> sorted(offered("gantry-node | 1.1 | file:/srv ./ Packages"))
    [('gantry-node', '1.1')]
    """
    rows = [[part.strip() for part in line.split("|")] for line in listed.splitlines()]
    return {(row[0], row[1]) for row in rows if len(row) > 1}


def fields(description: str) -> dict[str, str]:
    """Return the fields of the first package in the output of ``apt-cache show``."""
    lines = description.partition("\n\n")[0].splitlines()
    pairs = [line.partition(":") for line in lines if line and not line[0].isspace()]
    return {name: value.strip() for name, separator, value in pairs if separator}


def properties(block: str) -> dict[str, str]:
    """Return the properties of a unit in the output of ``systemctl show``."""
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
