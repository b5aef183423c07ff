"""The OS definition debootstrap, as far as it needs no packages: what it refuses before it begins."""

import os
import pathlib
import subprocess

import pytest

DEFINITION = pathlib.Path(__file__).parents[2] / "os" / "debootstrap"
GOOD = {
    "OSP_NETWORK": "ifupdown",
    "OSP_PACKAGES": "vim, less libstdc++6",
    "OSP_NAMESERVERS": "192.0.2.53 2001:db8::53",
    "OSP_SSH_KEY": "ssh-ed25519 AAAA me",
}


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DEFINITION / script, *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("parameters", [GOOD, {}])
def test_parameters_that_it_knows_are_accepted(parameters: dict[str, str]) -> None:
    done = run("verify", "parameters", **parameters)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"OSP_NETWORK": "netplan"}, "network is 'netplan'"),
        ({"OSP_PACKAGES": "vim; reboot"}, "not a list of names"),
        ({"OSP_NAMESERVERS": "dns.example"}, "not a list of addresses"),
        ({"OSP_SSH_KEY": "secret"}, "no public key"),
    ],
)
def test_a_parameter_that_it_cannot_use_is_named(wrong: dict[str, str], message: str) -> None:
    done = run("verify", "parameters", **GOOD | wrong)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_disk_that_is_too_small_is_left_alone(tmp_path: pathlib.Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"mine")
    done = run(
        "create", INSTANCE_NAME="web1", OS_VARIANT="bookworm", DISK_0_PATH=str(disk), DISK_0_SIZE="100", NIC_COUNT="0",
        INSTANCE_SEED=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 1
    assert "needs at least 512 MiB" in done.stderr
    assert disk.read_bytes() == b"mine"


def test_every_script_is_executable_and_every_parameter_has_a_text() -> None:
    for script in ("create", "rename", "verify"):
        assert os.access(DEFINITION / script, os.X_OK)
    for line in (DEFINITION / "parameters.list").read_text().splitlines():
        assert len(line.split(None, 1)) == 2
