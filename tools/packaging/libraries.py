"""Prints the libraries that come with the packages: those of pyproject.toml, with the extras that daemons can use."""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = ("postgresql", "pkcs11", "traces")
OF_DEBIAN = ("pyyaml",)
"""Libraries that are new enough in Debian; debian/control names their packages."""


def requirements() -> list[str]:
    """Return the requirements, as pip reads them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = [each for extra in EXTRAS for each in project["optional-dependencies"][extra]]
    return [each for each in (*project["dependencies"], *extras) if not each.startswith(OF_DEBIAN)]


if __name__ == "__main__":
    print("\n".join(requirements()))
