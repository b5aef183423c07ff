"""Configuration files: keys, types, precedence, faults with their lines, and what SIGHUP changes."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from gantry.daemons import kube, node, remote, watcher
from gantry.daemons.options import config_file, master_options
from gantry.runtime import real

DISK = real.RealRuntime().disk
PROGRAMS = (
    node.CONFIGURATION,
    master_options.CONFIGURATION,
    remote.CONFIGURATION,
    kube.CONFIGURATION,
    watcher.CONFIGURATION,
)


def load(root: Path, text: str, *argv: str, program: config_file.Program = node.CONFIGURATION) -> config_file.Settings:
    """Write the file of a program below ``root``, and start the program with arguments."""
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc" / program.file).write_text(text)
    return config_file.load(program, [*argv, "--root", str(root)], DISK)


def faults(tmp_path: Path, text: str | bytes, program: config_file.Program = node.CONFIGURATION) -> list[str]:
    """Return the faults of a file, without its path."""
    path = tmp_path / program.file
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    out = config_file.read(program, str(path), DISK)[1]
    assert all(fault.path == str(path) for fault in out)
    return [f"{fault.line}: {fault.message}" for fault in out]


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    options = load(tmp_path, 'port = 2000\nbind = "192.0.2.1"\nmax-requests = 7\n', "--port", "3000").options
    assert (options.port, options.bind, options.limit_requests) == (3000, "192.0.2.1", 7)
    assert options.limit_connections == node.DEFAULT_LIMITS.connections


def test_a_missing_file_and_a_missing_folder_are_no_error(tmp_path: Path) -> None:
    options = config_file.load(node.CONFIGURATION, ["--root", str(tmp_path)], DISK).options
    assert options == node.command_line().parse_args(["--root", str(tmp_path)])


def test_flags_are_true_or_false(tmp_path: Path) -> None:
    text = "debug = true\nrequire-authentication = false\nkeystone-cache = 5\n"
    options = load(tmp_path, text, program=remote.CONFIGURATION).options
    assert (options.debug, options.require_authentication, options.no_ssl) == (True, False, False)
    assert options.keystone_cache == 5.0
    assert load(tmp_path, text, "--require-authentication", program=remote.CONFIGURATION).options.require_authentication


def test_the_commands_of_a_program_have_a_table_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ROOT", str(tmp_path))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/kube.toml").write_text(
        '[controllers]\nqps = 7\ndebug = true\n\n[serve]\nport = 2000\nname = "a"\n'
    )
    serve = config_file.load(kube.CONFIGURATION, ["serve"], DISK).options
    assert (serve.port, serve.name, serve.debug) == (2000, "a", False)
    controllers = config_file.load(kube.CONFIGURATION, ["controllers"], DISK).options
    assert (controllers.qps, controllers.debug) == (7.0, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prot = 1", "1: 'prot' is not a setting of gantry-noded; did you mean 'port'?"),
        ("# a\n\nmax_requests = 1", "3: 'max_requests' is not a setting of gantry-noded; did you mean 'max-requests'?"),
        ("colour = 1", "1: 'colour' is not a setting of gantry-noded"),
        (
            'root = "/srv"',
            "1: 'root' is not a setting of gantry-noded: it is an option of the command line only",
        ),
        ("port = '1811'", "1: port: '1811' is not a whole number; write it without quotes"),
        ("port = true", "1: port: true is not a whole number; write it without quotes"),
        ("port = 1.5", "1: port: 1.5 is not a whole number; write it without quotes"),
        ("port = 65536", "1: port: '65536' is not a port: write a number up to 65535"),
        ("idle-timeout = 'a'", "1: idle-timeout: 'a' is not a number; write it without quotes"),
        ("idle-timeout = nan", "1: idle-timeout: 'nan' is not a number of seconds above 0 and up to 86400"),
        ("bind = 1", "1: bind: 1 is not a text in quotes"),
        ("bind = ['a',\n'b']", "1: bind: ['a', 'b'] is not a text in quotes"),
        ("debug = 1", "1: debug: 1 is not true or false"),
        ("[debug]\nlevel = 1", "1: debug: a table is not true or false"),
        ("port = 1\nport = 2", "2: Cannot overwrite a value"),
        ("port = 1\nbind = 'a\n", '2: Expected "\'"'),
        ("port = 1\nbind", "2: Expected '=' after a key in a key/value pair"),
        (b"port = 1\nbind = '\xff'\n", "2: the text is not UTF-8"),
    ],
)
def test_a_fault_has_its_line_and_what_to_write_instead(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert faults(tmp_path, text)[:1] == [expected]


def test_every_fault_of_a_file_is_reported_at_the_line_where_its_statement_begins(tmp_path: Path) -> None:
    text = "a = 1\nname = '''\nport = x\n[serve]\n'''\nb = [\n1, # ]\n[2]\n]\n\nport = 'c'\r\nd = 1"
    assert [fault.partition(":")[0] for fault in faults(tmp_path, text)] == ["1", "6", "11", "12"]


def test_faults_of_tables_name_the_table(tmp_path: Path) -> None:
    text = "qps = 1\n[control]\nqps = 1\n[serve]\nqps = 1\npot = 1\n[[controllers]]\nqps = 1\n"
    assert faults(tmp_path, text, kube.CONFIGURATION) == [
        "1: 'qps' is not a setting of gantry-kube; it belongs in [controllers]",
        "2: 'control' is not a setting of gantry-kube; did you mean 'controllers'?",
        "5: 'qps' is not a setting of [serve] of gantry-kube; it belongs in [controllers]",
        "6: 'pot' is not a setting of [serve] of gantry-kube; did you mean 'port'?",
        "7: 'controllers' is a table: write [controllers] on a line of its own, and its settings below",
    ]


def test_choices_are_those_of_the_option(tmp_path: Path) -> None:
    text = 'neutron-auth = "basic"'
    expected = "1: neutron-auth: 'basic' is not one of http_basic, keystone, none"
    assert faults(tmp_path, text, remote.CONFIGURATION) == [expected]


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "node.toml").mkdir()
    reported = config_file.read(node.CONFIGURATION, str(tmp_path / "node.toml"), DISK)[1]
    assert [str(fault) for fault in reported] == [f"{tmp_path}/node.toml: cannot read the file: Is a directory"]


def test_a_daemon_does_not_start_with_a_faulty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        load(tmp_path, "prot = 1\nport = 'a'\n")
    assert capsys.readouterr().err.splitlines() == [
        f"gantry-noded: {tmp_path}/etc/node.toml:1: 'prot' is not a setting of gantry-noded; did you mean 'port'?",
        f"gantry-noded: {tmp_path}/etc/node.toml:2: port: 'a' is not a whole number; write it without quotes",
    ]


@pytest.mark.parametrize(("text", "code"), [("port = 1", 0), ("prot = 1", 1)])
def test_check_reports_the_faults_and_exits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int
) -> None:
    with pytest.raises(SystemExit) as ended:
        load(tmp_path, text, "--check")
    assert ended.value.code == code
    assert bool(capsys.readouterr().err) == bool(code)


def test_help_works_with_a_faulty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        load(tmp_path, "prot = 1", "--help")
    assert "--port" in capsys.readouterr().out


def test_controllers_that_a_server_starts_do_not_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ROOT", str(tmp_path))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/kube.toml").write_text("[controllers]\nburst = 1\n")
    argv = ["controllers", "--attended"]
    options = config_file.load(kube.CONFIGURATION, argv, DISK, uses_file=kube._uses_file).options
    assert options.burst == kube.BURST


class Running:
    """A daemon with settings, which may read its file again."""

    def __init__(self, root: Path, *argv: str) -> None:
        self._path = root / "etc/node.toml"
        self.settings = load(root, "port = 2000\n", *argv)
        self.applied: list[argparse.Namespace] = []

    def reload(self, text: str) -> None:
        self._path.write_text(text)
        self.settings.reload(DISK, self.applied.append)


def logged(caplog: pytest.LogCaptureFixture, level: int) -> Sequence[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_reading_again_changes_what_a_running_daemon_can_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    running.reload("port = 3000\ndebug = true\n")
    assert [(options.debug, options.port) for options in running.applied] == [(True, 2000)]
    assert running.settings.options == running.applied[0]
    path = f"{tmp_path}/etc/node.toml"
    assert logged(caplog, logging.WARNING) == [f"{path}: port changes from 2000 to 3000 when gantry-noded restarts"]
    running.reload("port = 2000\n")
    assert not running.settings.options.debug
    assert len(logged(caplog, logging.WARNING)) == 1


def test_a_faulty_file_is_logged_with_its_line_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path)
    before = running.settings.options
    running.reload("debug = true\nprot = 1\n")
    assert running.settings.options is before
    assert not running.applied
    assert logged(caplog, logging.ERROR) == [
        f"{tmp_path}/etc/node.toml:2: 'prot' is not a setting of gantry-noded; did you mean 'port'?",
        "gantry-noded keeps its settings",
    ]


def test_an_option_of_the_command_line_stays_when_the_file_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(tmp_path, "--port", "4000", "--debug")
    running.reload("port = 3000\ndebug = false\n")
    assert running.settings.options.debug
    assert not logged(caplog, logging.WARNING)


def test_the_watcher_changes_all_its_settings_while_it_runs(tmp_path: Path) -> None:
    keys = config_file.tables(watcher.CONFIGURATION, watcher.command_line())[""]
    assert keys.keys() == watcher.CONFIGURATION.live


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_excluded_and_live_settings_are_options(program: config_file.Program) -> None:
    parser = program.command_line()
    everything = config_file.Program(program.name, program.file, program.command_line)
    options = {name for table in config_file.tables(everything, parser).values() for name in table}
    assert program.excluded <= options
    assert program.live <= options - program.excluded


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_each_default_is_valid_in_a_file(program: config_file.Program) -> None:
    for options in config_file.tables(program, program.command_line()).values():
        for action in options.values():
            assert config_file._converted(action, action.default) == action.default


def test_master_has_no_setting_that_overrides_its_vote() -> None:
    keys = config_file.tables(master_options.CONFIGURATION, master_options.command_line())[""]
    assert not {"no-voting", "yes-do-it", "accept-loss", "from", "root", "version"} & keys.keys()
