"""Files and folders of a machine, as the doctor sees them."""

import pytest
from tests.daemons.doctor.conftest import Examined

from gantry import security
from gantry.daemons.doctor import files
from gantry.state.files import checkpoint

DAY = 86_400.0


def test_folders_and_secrets_of_root_alone_are_fine(machine: Examined) -> None:
    machine.write("/etc/gantry/node.toml")
    machine.write("/var/lib/gantry/users")
    assert [level for level, _ in machine.seen(files.folders)] == ["ok"]


@pytest.mark.parametrize(
    ("path", "mode", "remedy"),
    [
        ("/var/lib/gantry/certs/node.key", 0o640, "chmod 0600"),
        ("/var/lib/gantry/certs/node.pem", 0o666, "chmod 0644"),
        ("/var/lib/gantry/users", 0o644, "chmod 0640"),
        ("/etc/gantry/authority-secret", 0o604, "chmod 0600"),
    ],
)
def test_a_file_that_others_can_use_is_an_error(machine: Examined, path: str, mode: int, remedy: str) -> None:
    machine.world.run(machine.runtime.disk.make_directory(machine.folders.certificates, mode=0o700))
    machine.write(path, mode=mode)
    (result,) = machine.examine(files.folders)
    assert result.message == f"{path} has the mode {mode:04o}, so users other than root can use it"
    assert (result.level, result.remedy) == ("error", f"{remedy} {path}")


@pytest.mark.parametrize(
    ("capacity", "level"), [(2 << 30, "ok"), (900 << 20, "warning"), (50 << 20, "error"), (None, "ok")]
)
def test_little_free_space_is_reported(machine: Examined, capacity: int | None, level: str) -> None:
    machine.write("/var/lib/gantry/x")
    machine.runtime.disk.capacity = capacity
    assert [seen for seen, _ in machine.seen(files.free_space)] == [level] * 3


@pytest.mark.parametrize(
    ("days", "level", "text"),
    [
        (1, "ok", f"days old and ends in {security.NODE_DAYS - 1} days"),
        (security.NODE_DAYS - 20, "warning", "ends in 20 days"),
        (security.NODE_DAYS + 3, "error", "ended 3 days ago"),
        (-30, "error", "is valid only in"),
    ],
)
def test_age_and_end_of_a_certificate(machine: Examined, days: float, level: str, text: str) -> None:
    now = machine.runtime.clock.now() - days * DAY
    authority = security.make_authority("cl", now)
    _, request = security.make_request("n1")
    certificate = security.issue(
        authority, request, uuid=machine.runtime.random.uuid(), name="n1", address="192.0.2.1", now=now,
        days=security.NODE_DAYS,
    )  # fmt: skip
    machine.write(f"{machine.folders.certificates}/node.pem", certificate)
    ((seen, message),) = machine.seen(files.certificates)
    assert (seen, text in message) == (level, True), message


def test_a_file_that_is_not_a_certificate_is_an_error(machine: Examined) -> None:
    machine.write(machine.folders.remote_certificate, "x")
    assert machine.seen(files.certificates) == [("error", "/var/lib/gantry/rapi.pem is not a certificate")]


def test_the_state_of_another_cluster_is_an_error(machine: Examined) -> None:
    machine.write(machine.folders.config, f'{{"version": {checkpoint.VERSION}}}')
    machine.ssconf(cluster_name="cl")
    expected = "this machine belongs to no cluster, but has the state of another one: /var/lib/gantry/config.data, "
    assert machine.seen(files.state) == [("error", f"{expected}/var/lib/gantry/ssconf")]


@pytest.mark.parametrize(
    ("content", "level", "text"),
    [
        (f'{{"version": {checkpoint.VERSION + 1}}}', "error", "has the format"),
        ('{"version": 2160000}', "warning", "has the older format 2160000"),
        (f'{{"version": {checkpoint.VERSION}, "nodes": {{}}}}', "ok", "no state of another cluster or version"),
        ("{", "error", "is not valid JSON"),
    ],
)
def test_the_format_of_the_state(machine: Examined, content: str, level: str, text: str) -> None:
    machine.join()
    machine.write(machine.folders.config, content)
    ((seen, message),) = machine.seen(files.state)
    assert (seen, text in message) == (level, True), message


def test_faults_of_configuration_files_are_errors(machine: Examined) -> None:
    assert machine.seen(files.configuration) == [("ok", "/etc/gantry: no file, so the defaults apply")]
    machine.write("/etc/gantry/node.toml", "prot = 1\n")
    machine.write("/etc/gantry/nodes.toml", "")
    assert machine.seen(files.configuration) == [
        ("error", "/etc/gantry/node.toml:1: 'prot' is not a setting of gantry-noded; did you mean 'port'?"),
        ("error", "/etc/gantry/nodes.toml: no daemon reads this file; did you mean node.toml?"),
    ]
