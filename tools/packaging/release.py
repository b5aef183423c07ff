"""Releases a version: ``make release VERSION=1.0.0`` runs these steps, with the builds between them.

    python -m tools.packaging.release begin VERSION [--key KEY]     version, changelogs, its state, commit, tag
    python -m tools.packaging.release sign [--key KEY]              SHA256SUMS of dist, and its signature

``KEY`` is the name of a key of GnuPG; the default is GnuPG's own. ``begin`` leaves out what HEAD has of the
release already, commit and tag, so a release that a failed step has cut short continues when the command is repeated.
"""

import argparse
import email.utils
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
HAS_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
SUMS = "SHA256SUMS"
ROOT = Path(__file__).parents[2]


class ReleaseError(Exception):
    """A release cannot begin or continue; the message says what to do."""


def _output(*command: str, checkout: Path) -> str:
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers, which have an order."""
    match = VERSION.fullmatch(version)
    if not match:
        raise ReleaseError(f"VERSION is '{version}', not three numbers as in 1.0.0")
    return tuple(map(int, match.groups()))


def _check_key(key: str) -> None:
    """Refuse a release that nobody could sign."""
    done = subprocess.run(["gpg", "--list-secret-keys", *([key] if key else [])], capture_output=True, check=False)
    if done.returncode or not done.stdout:
        named = f"no secret key '{key}'" if key else "no secret key"
        raise ReleaseError(
            f"GnuPG has {named} to sign the checksums with: name one by KEY=, or make one: gpg --gen-key"
        )


def begin(version: str, key: str, *, checkout: Path) -> None:
    """Write the version and the changelogs, commit them, and tag the commit."""
    _numbers(version)
    _check_key(key)
    tag = f"v{version}"
    if _output("git", "status", "--porcelain", checkout=checkout):
        raise ReleaseError("the checkout has changes that are not committed: git status")
    if tag in _output("git", "tag", "--points-at", "HEAD", checkout=checkout).split():
        return
    if _output("git", "tag", "--list", tag, checkout=checkout):
        raise ReleaseError(f"the tag {tag} is on another commit: git show {tag}")
    subject = f"release: {version}"
    if _output("git", "log", "-1", "--format=%s", checkout=checkout) != subject:
        _write_version(version, checkout)
        _output("git", "commit", "--quiet", "--all", "--message", subject, checkout=checkout)
    signed = ["--local-user", key] if key else []
    _output("git", "tag", "--sign", *signed, "--message", f"Gantry {version}", tag, checkout=checkout)


def _write_version(version: str, checkout: Path) -> None:
    """Write a version that is newer than the last one, and move the notes of changes into the changelog."""
    source = checkout / "src/gantry/__init__.py"
    text = source.read_text()
    former = HAS_VERSION.findall(text)[0]
    if _numbers(version) <= _numbers(former):
        raise ReleaseError(f"version {version} is not newer than {former}")
    source.write_text(HAS_VERSION.sub(f'__version__ = "{version}"', text))
    _add_to_debian(checkout / "debian/changelog", version)
    _output(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, checkout=checkout)
    # Later versions are tested to read what this one writes.
    kept = checkout / "tests/released"
    kept.mkdir(parents=True, exist_ok=True)
    _output(sys.executable, "-m", "tools.released_state", str(kept), checkout=ROOT)
    _output("git", "add", str(kept), checkout=checkout)


def _add_to_debian(changelog: Path, version: str) -> None:
    """Write the version into the changelog of the packages, as its last entry names suite and maintainer."""
    text = changelog.read_text()
    suite = text.split()[2].rstrip(";")
    maintainer = re.findall(r"^ -- (.+?)  ", text, re.MULTILINE)[0]
    now = email.utils.formatdate(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    entry = f"gantry ({version}) {suite}; urgency=medium\n\n  * The changes of each version are in CHANGELOG.md.\n\n"
    changelog.write_text(f"{entry} -- {maintainer}  {now}\n\n{text}")


def sign(folder: Path, key: str) -> None:
    """Write the checksums of all files of a folder, and their signature beside them."""
    _check_key(key)
    files = sorted(path for path in folder.iterdir() if not path.name.startswith(SUMS))
    if not files:
        raise ReleaseError(f"{folder} is empty: make packages")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))
    signer = ["--local-user", key] if key else []
    _output("gpg", "--batch", "--yes", "--armor", "--detach-sign", *signer, SUMS, checkout=folder)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Release a version.")
    parser.add_argument("step", choices=("begin", "sign"))
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("--key", default="", help="the name of a key of GnuPG")
    options = parser.parse_args()
    try:
        if options.step == "begin":
            begin(options.version, options.key, checkout=ROOT)
        else:
            sign(ROOT / "dist", options.key)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
