"""The clock, and the other nodes' clocks and versions, as the doctor sees them."""

from collections.abc import Mapping, Sequence

import pytest
from tests.daemons.doctor.conftest import Examined

import gantry
from gantry.daemons.doctor import peers
from gantry.daemons.doctor.result import Machine, Result
from gantry.rpc import calls
from gantry.runtime import http_interface


@pytest.mark.parametrize(("output", "level"), [("yes\n", "ok"), ("no\n", "warning"), (None, "warning")])
def test_a_clock_that_nothing_synchronizes_is_reported(machine: Examined, output: str | None, level: str) -> None:
    if output is not None:
        machine.install("timedatectl", output)
    assert [seen for seen, _ in machine.seen(peers.synchronization)] == [level]


def examine(machine: Examined, headers: Mapping[str, str] | None) -> Sequence[Result]:
    """Examine node n2, which refuses the call with these headers, or is down."""
    second = machine.world.machine("n2")

    async def answer(request: http_interface.Request) -> http_interface.Response:
        assert request.path == "/version"
        return http_interface.Response(400, b"", headers=headers or {})

    async def run() -> Sequence[Result]:
        if headers is not None:
            await second.network.serve_http("n2", 1811, answer, tls=None, body_limit=1000)
        client = machine.runtime.network.http_client(tls=None)
        return await peers.examine(Machine(machine.runtime, machine.folders), client, {"n2": ("n2", 1811)})

    results = machine.world.run(run())
    assert all(bool(result.remedy) == (result.level != "ok") for result in results)
    return results


def test_a_node_of_the_same_version_and_time_is_fine(machine: Examined) -> None:
    now = machine.runtime.clock.now()
    headers = {calls.SOFTWARE_HEADER: gantry.__version__, calls.TIME_HEADER: f"{now:.3f}"}
    (result,) = examine(machine, headers)
    assert (result.level, result.message) == ("ok", "node n2 answers, with the same version and time")


@pytest.mark.parametrize(("seconds", "text"), [(86_400, "86400.0 s ahead of"), (-90, "90.0 s behind")])
def test_a_clock_that_differs_is_an_error(machine: Examined, seconds: float, text: str) -> None:
    headers = {
        calls.SOFTWARE_HEADER: gantry.__version__,
        calls.TIME_HEADER: f"{machine.runtime.clock.now() + seconds:.3f}",
    }
    (result,) = examine(machine, headers)
    assert result.level == "error"
    assert f"the clock of node n2 is {text} this one" in result.message


@pytest.mark.parametrize(("headers", "version"), [({}, "of an older version"), ({calls.SOFTWARE_HEADER: "9.0"}, "9.0")])
def test_another_version_is_a_warning(machine: Examined, headers: Mapping[str, str], version: str) -> None:
    (result,) = examine(machine, headers)
    assert result.level == "warning"
    assert result.message == f"node n2 runs Gantry {version}, this machine {gantry.__version__}"


def test_a_node_that_cannot_be_reached_is_a_warning(machine: Examined) -> None:
    (result,) = examine(machine, None)
    assert result.level == "warning"
    assert result.message.startswith("node n2 at n2 port 1811 cannot be reached")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("9.0", ("warning", f"the master n2 runs Gantry 9.0, this machine {gantry.__version__}")),
        (gantry.__version__, ("ok", "the same version as the master n2; run gantry doctor there to compare clocks and "
                              "versions of all nodes")),
    ],
)  # fmt: skip
def test_a_node_that_is_not_the_master_compares_its_version_only(
    machine: Examined, version: str, expected: tuple[str, str]
) -> None:
    machine.join()
    machine.ssconf(master_node="n2\n", release_version=f"{version}\n")
    assert machine.seen(peers.nodes) == [expected]


def test_a_machine_without_a_cluster_asks_no_node(machine: Examined) -> None:
    assert not machine.seen(peers.nodes)
