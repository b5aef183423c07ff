"""A release: the version in all files, a commit and a tag, and checksums that are signed."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import released_state
from tools.packaging import release, tree

KEY = "Release <release@gantry.example>"
NEW = "9.0.0"
NOTES = {
    "changes/release/003.summary.md": "The first\nand the last.\n",
    "changes/install/002.added.md": "Release versions\nof all.\n",
    "changes/networks/001.added.md": "Count addresses.\n",
}
ADDED = """
### Added

#### Networks and addresses

- Count addresses\\.

#### Installation and upgrades

- Release versions
  of all\\."""
WRITTEN = (
    "CHANGELOG.md",
    "README.md",
    "changes/template.md",
    "debian/changelog",
    "pyproject.toml",
    "src/gantry/__init__.py",
)


@pytest.fixture(autouse=True)
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A key of GnuPG, and a name for git's commits."""
    home = tmp_path / "keyring"
    home.mkdir(mode=0o700)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Release")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "release@gantry.example")
    monkeypatch.setenv("GNUPGHOME", str(home))
    make = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", KEY, "ed25519", "sign", "1d"]
    subprocess.run(make, check=True, capture_output=True)
    yield
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of this checkout that a release writes, with notes about changes of two topics."""
    folder = tmp_path / "checkout"
    for name in WRITTEN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree.CHECKOUT / name, folder / name)
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "notes")
    return folder


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_release_is_in_all_files_and_tagged(checkout: Path) -> None:
    release.begin(NEW, KEY, checkout=checkout)
    assert f'__version__ = "{NEW}"' in (checkout / "src/gantry/__init__.py").read_text()
    assert (checkout / "debian/changelog").read_text().startswith(f"gantry ({NEW}) bookworm; urgency=medium\n")
    subprocess.run(["dpkg-parsechangelog", "--show-field", "Version"], cwd=checkout, check=True, capture_output=True)
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {NEW} - .*\n\nThe first\nand the last\.\n{ADDED}$", changelog, re.MULTILINE)
    assert not [name for name in NOTES if (checkout / name).exists()]
    (kept,) = (checkout / "tests/released").iterdir()
    assert {"node1", "node2", "node3"} == released_state.read(kept).disks.keys()
    assert git(checkout, "status", "--porcelain") == ""
    git(checkout, "verify-tag", f"v{NEW}")


@pytest.mark.parametrize("is_tagged", [True, False])
def test_a_release_that_was_cut_short_goes_on(checkout: Path, *, is_tagged: bool) -> None:
    release.begin(NEW, KEY, checkout=checkout)
    head = git(checkout, "rev-parse", "HEAD")
    if not is_tagged:
        git(checkout, "tag", "--delete", f"v{NEW}")
    release.begin(NEW, KEY, checkout=checkout)
    assert git(checkout, "rev-parse", "HEAD") == head
    git(checkout, "verify-tag", f"v{NEW}")


@pytest.mark.parametrize(("version", "problem"), [("1.0", "not three numbers"), ("0.0.1", "is not newer than")])
def test_a_version_that_is_none_or_old_is_refused(checkout: Path, version: str, problem: str) -> None:
    with pytest.raises(release.ReleaseError, match=problem):
        release.begin(version, KEY, checkout=checkout)
    assert git(checkout, "status", "--porcelain") == ""


def test_changes_that_are_not_committed_are_refused(checkout: Path) -> None:
    (checkout / "README.md").write_text("")
    with pytest.raises(release.ReleaseError, match="not committed"):
        release.begin(NEW, KEY, checkout=checkout)


def test_a_tag_on_another_commit_is_refused(checkout: Path) -> None:
    git(checkout, "tag", f"v{NEW}")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "later")
    with pytest.raises(release.ReleaseError, match="on another commit"):
        release.begin(NEW, KEY, checkout=checkout)


def test_without_a_key_nothing_begins(checkout: Path) -> None:
    with pytest.raises(release.ReleaseError, match="no secret key 'nobody'"):
        release.begin(NEW, "nobody", checkout=checkout)
    assert f'"{NEW}"' not in (checkout / "src/gantry/__init__.py").read_text()


def test_checksums_are_those_of_the_files_and_signed(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "gantry_9.0.0_all.deb").write_bytes(os.urandom(100))
    release.sign(dist, KEY)
    release.sign(dist, KEY)
    digest = hashlib.sha256((dist / "gantry_9.0.0_all.deb").read_bytes()).hexdigest()
    assert (dist / "SHA256SUMS").read_text() == f"{digest}  gantry_9.0.0_all.deb\n"
    subprocess.run(["gpg", "--verify", "SHA256SUMS.asc"], cwd=dist, check=True, capture_output=True)


def test_an_empty_folder_has_nothing_to_sign(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    with pytest.raises(release.ReleaseError, match="is empty"):
        release.sign(tmp_path / "dist", KEY)
