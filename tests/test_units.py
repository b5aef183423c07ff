"""The units of systemd in deploy/systemd: their hardening, their programs, and what restarts and limits them."""

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
UNITS = ROOT / "deploy/systemd"
DAEMONS = ["gantry-noded", "gantry-masterd", "gantry-rapi", "gantry-kube@"]

EXPOSURE = {"gantry-masterd": 4.0, "gantry-rapi": 2.5, "gantry-kube@": 2.5, "gantry-watcher": 2.5}
"""The highest rating of ``systemd-analyze security`` that a unit may have; the node daemon's work allows no limit."""

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


class Unit(configparser.RawConfigParser):
    """A unit file; a key that occurs several times has the last value."""

    def __init__(self, name: str) -> None:
        super().__init__(strict=False, delimiters=("=",), comment_prefixes=("#",), interpolation=None)
        self.read(UNITS / name)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def directives(path: Path) -> list[tuple[str, str]]:
    lines = (line.partition("=") for line in path.read_text().splitlines() if re.match(r"[A-Za-z]+=", line))
    return [(key, value) for key, _, value in lines]


@needs_systemd
@pytest.mark.parametrize("name", EXPOSURE)
def test_a_unit_is_hardened_as_far_as_its_rating_says(name: str, tmp_path: Path) -> None:
    # The tool has no instance of a template by itself.
    unit = tmp_path / f"{name.replace('@', '@serve')}.service"
    shutil.copy(UNITS / f"{name}.service", unit)
    tool = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    output = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=120)
    rating = re.search(r"Overall exposure level for \S+: ([0-9.]+)", output.stdout)
    assert rating, output.stderr
    assert float(rating[1]) <= EXPOSURE[name]


@needs_systemd
def test_systemd_reads_each_unit_without_a_complaint(tmp_path: Path) -> None:
    # The programs are not installed here, so each is replaced by one that is.
    for path in UNITS.iterdir():
        if path.suffix in (".service", ".timer", ".target", ".slice"):
            text = re.sub(r"(?<==)([+-]*)/\S+", r"\g<1>/bin/true", path.read_text(), flags=re.ASCII)
            text = re.sub(r"^(Documentation|InaccessiblePaths)=.*\n", "", text, flags=re.MULTILINE)
            (tmp_path / path.name).write_text(text)
    (tmp_path / "gantry-kube@.service").rename(tmp_path / "gantry-kube@serve.service")
    files = sorted(str(path) for path in tmp_path.iterdir())
    # A unit that the operating system provides may be missing in a container.
    tool = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *files]
    output = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=120)
    complaints = [line for line in output.stderr.splitlines() if "gantry" in line and "not found" not in line]
    assert complaints == []


@pytest.mark.parametrize("path", sorted(UNITS.glob("*.service")), ids=lambda path: path.stem)
def test_each_program_of_a_unit_is_one_that_is_installed(path: Path) -> None:
    programs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    words = [value.lstrip("+-").split()[0] for key, value in directives(path) if key.startswith("Exec")]
    named = [word.removeprefix("/usr/sbin/") for word in words if "gantry" in word]
    assert named
    assert set(named) <= set(programs)


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_is_started_again_without_end_and_ended_when_it_hangs(name: str) -> None:
    unit = Unit(f"{name}.service")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["Restart"] == ("on-failure" if name == "gantry-masterd" else "always")
    assert int(unit["Service"]["RestartSec"]) >= 2
    assert int(unit["Service"]["WatchdogSec"]) >= 30
    assert unit["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert unit["Service"]["LimitNOFILE"].endswith("65536")


@pytest.mark.parametrize("name", ["gantry-noded", "gantry-masterd", "gantry-watcher"])
def test_the_folders_that_daemons_share_outlive_each_of_them_and_only_root_lists_them(name: str) -> None:
    service = Unit(f"{name}.service")["Service"]
    assert service["RuntimeDirectoryPreserve"] == "yes"
    modes = [service[f"{folder}DirectoryMode"] for folder in ("Runtime", "State", "Logs")]
    assert modes == ["0711", "0711", "0750"]


@pytest.mark.parametrize("name", ["gantry-rapi", "gantry-kube@"])
def test_a_daemon_with_a_user_of_its_own_owns_no_shared_folder(name: str) -> None:
    service = Unit(f"{name}.service")["Service"]
    assert service["User"] == service["Group"] == name.rstrip("@")
    folders = [value for key, value in service.items() if key in ("RuntimeDirectory", "StateDirectory")]
    assert "gantry" not in folders
    assert f"u {service['User']} " in (UNITS / "gantry.sysusers").read_text()


def test_each_setting_that_the_node_daemon_lacks_has_its_reason() -> None:
    """A setting that other daemons have and the node daemon lacks is named in a comment."""
    hardening = {"Protect", "Private", "Restrict", "NoNew", "Lock", "Memory", "SystemCall"}
    comments = "".join(line for line in (UNITS / "gantry-noded.service").read_text().splitlines() if line[:1] == "#")
    for key, _ in directives(UNITS / "gantry-rapi.service"):
        if any(key.startswith(word) for word in hardening) and key not in UNNAMED:
            assert f"{key}=" in comments, key


UNNAMED = {"SystemCallErrorNumber", "MemoryAccounting"}
"""These loosen nothing by themselves."""
