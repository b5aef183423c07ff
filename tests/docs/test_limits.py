"""The page of limits has each option with the default of each daemon."""

import argparse
import re

import pytest
from tests.docs import pages

from gantry.daemons import apiserver, node, remote
from gantry.daemons.options import limit_options, master_options
from gantry.doors import http
from gantry.doors.http import attempts, users
from gantry.doors.rapi import console_stream
from gantry.kubernetes import apiserver as kubernetes_server
from gantry.node.daemon import console_streams
from gantry.node.daemon import server as node_server
from gantry.rpc import call_queue
from gantry.runtime import http_interface, limits, repeated_logs
from gantry.runtime.real import connections, entrances, unix_server

PAGE = (pages.DOCS / "reference/limits.md").read_text()


def _rows(section: str) -> dict[str, list[str]]:
    """Return the rows of the options of a section, without their meaning."""
    (text,) = [part for part in PAGE.split("\n## ") if part.startswith(section)]
    rows = [[cell.strip() for cell in row.split("|")[1:-2]] for row in re.findall(r"^\| `--.*$", text, re.MULTILINE)]
    return {option.strip("`"): defaults for option, *defaults in rows}


def test_each_option_of_the_http_servers_is_on_the_page_with_its_defaults() -> None:
    daemons = [remote.DEFAULT_LIMITS, node.DEFAULT_LIMITS, apiserver.DEFAULT_LIMITS]
    assert _rows("Servers of HTTP") == {
        option.flag: [limit_options.stated(getattr(defaults, field)) for defaults in daemons]
        for field, option in limit_options.HTTP.items()
    }


def test_each_option_of_luxi_is_on_the_page_with_its_default() -> None:
    assert _rows("LUXI") == {
        option.flag: [limit_options.stated(getattr(master_options.DEFAULT_LIMITS, field))]
        for field, option in limit_options.UNIX.items()
    }


def test_the_numbers_that_are_no_options_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    mib = 1 << 20
    for sentence in (
        f"idle for {connections.DISPLACEABLE_IDLE_SECONDS:.0f} s",
        f"Up to {limits.ARRIVALS:,} connections may wait",
        f"At most {connections.HANDSHAKES} TLS handshakes",
        f"nothing for {connections.SILENCE_TIMEOUT_SECONDS:g} s, "
        f"or for {connections.SHORT_SILENCE_TIMEOUT_SECONDS:g} s during the body",
        f"waited for {connections.TURN_SECONDS:g} s while none may have to make room, or for "
        f"{connections.MAX_TURN_SECONDS:g} s in any case, is answered with a refusal, {connections.COURTESY} of them",
        f"younger than {unix_server.FIRST_TIMEOUT_SECONDS:g} s",
        f"are answered with a refusal, {limits.UnixLimits().refused} at a time",
        f"at most {call_queue.JOB_SLOTS} calls of jobs and {call_queue.QUERY_SLOTS} of queries",
        f"without an answer after {call_queue.LONG_SECONDS:g} s",
        f"up to {call_queue.MAX_LONG} of them",
        f"{http.BODY_LIMIT // mib} MiB at the remote API",
        f"{kubernetes_server.MAX_BODY_BYTES // mib} MiB at `gantry-kube serve`",
        f"{node_server.BODY_LIMIT // mib} MiB at a node",
        f"of a stranger {limits.STRANGER_BODY_BYTES >> 10} KiB, at a node without a cluster "
        f"{node_server.STRANGER_BODY_LIMIT // mib} MiB",
        f"more than {limits.HEADER_BYTES >> 10} KiB",
        f"{attempts.BURST} are checked at once, then {attempts.PER_SECOND:.0f} in a second",
        f"Up to {attempts.WAITING} may wait, and {attempts.WAITING_IN_ALL} of all users",
        f"after {users.WRONG_PASSWORD_SECONDS:.0f} s, {users.MAX_DELAYED} at a time",
        f"wrong password is answered after {users.WRONG_PASSWORD_SECONDS:.0f} s",
        f"{repeated_logs.BURST} of each cause are written in {repeated_logs.WINDOW_SECONDS:.0f} s",
        f"At most {console_stream.MOST} consoles are open at a time, {console_stream.MOST_OF_USER} of one user, "
        f"and at a node {console_streams.MOST}",
        f"{console_stream.WINDOW_BYTES >> 10} KiB of it are on the way",
        f"closed after {console_stream.IDLE_SECONDS / 60:.0f} minutes without anything typed",
        f"{http_interface.SOCKET_MESSAGE_BYTES >> 10} KiB in one message",
        f"within {console_streams.CLIENT_TIMEOUT_SECONDS:.0f} s, one of {entrances.STRANGERS} connections",
        f"{http.STRANGER_LINES} lines in {repeated_logs.WINDOW_SECONDS:.0f} s",
    ):
        assert sentence in text, sentence


def test_options_become_limits() -> None:
    parser = argparse.ArgumentParser()
    limit_options.add_http(parser, limits.HttpLimits())
    options = parser.parse_args(["--max-connections", "7", "--header-timeout", "1.5"])
    assert limit_options.http_limits(options) == limits.HttpLimits(connections=7, header_seconds=1.5)


@pytest.mark.parametrize("value", ["0", "-1", "1e9", "9" * 4400, "many", "nan"])
@pytest.mark.parametrize("flag", ["--max-connections", "--header-timeout"])
def test_a_limit_must_be_a_number_that_makes_sense(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    limit_options.add_http(parser, limits.HttpLimits())
    with pytest.raises(SystemExit):
        parser.parse_args([f"{flag}={value}"])
    assert f"argument {flag}: " in capsys.readouterr().err
