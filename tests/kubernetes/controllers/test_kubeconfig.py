"""The API server and the rotating token of a pod."""

from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.kubernetes.controllers import client, kubeconfig, metrics, rate_limit
from gantry.runtime import http_interface, interface, simulated


@pytest.fixture
def world() -> Iterator[simulated.World]:
    with simulated.World(seed=1) as new_world:
        yield new_world


async def mounted(machine: interface.Runtime, token: str) -> None:
    await machine.disk.make_directory(kubeconfig.SERVICE_ACCOUNT_FOLDER)
    for name, text in (("ca.crt", "authority"), ("namespace", "site\n"), ("token", token)):
        await machine.disk.write(f"{kubeconfig.SERVICE_ACCOUNT_FOLDER}/{name}", text.encode())


def test_a_pod_finds_its_server_by_environment_and_files(world: simulated.World) -> None:
    machine = world.machine("pod")
    world.run(mounted(machine, "one"))
    config = kubeconfig.in_cluster(machine, host="10.96.0.1", port="443")
    assert (config.host, config.port, config.authority, config.namespace) == ("10.96.0.1", 443, "authority", "site")


def test_outside_of_a_pod_there_is_no_such_server(world: simulated.World) -> None:
    with pytest.raises(errors.ConfigurationError, match="not running in a pod"):
        kubeconfig.in_cluster(world.machine("pod"), host="", port="")


def test_a_token_that_changes_is_shown_within_two_minutes_and_paths_have_the_prefix(world: simulated.World) -> None:
    headers: list[tuple[str, str]] = []

    async def handler(request: http_interface.Request) -> http_interface.Response:
        headers.append((request.path, request.headers["authorization"]))
        return http_interface.Response(200, b"{}")

    async def check() -> None:
        machine = world.machine("pod")
        await mounted(machine, "one\n")
        await world.machine("api").network.serve_http("", 80, handler, tls=None, body_limit=100)
        target = kubeconfig.Access(
            host="api", port=80, prefix="/k8s", token_file=f"{kubeconfig.SERVICE_ACCOUNT_FOLDER}/token"
        )
        limit = rate_limit.RateLimit(machine.clock, per_second=10, burst=10)
        asking = client.Client(machine, target, tls=None, limit=limit, counts=metrics.Metrics())
        await asking.get("/api")
        await mounted(machine, "two\n")
        await world.clock.sleep(120)
        await asking.get("/api")

    world.run(check())
    assert headers == [("/k8s/api", "Bearer one"), ("/k8s/api", "Bearer two")]


def test_a_silent_or_broken_answer_is_distinguished_from_a_refusal(world: simulated.World) -> None:
    async def check() -> None:
        machine = world.machine("pod")
        limit = rate_limit.RateLimit(machine.clock, per_second=10, burst=10)
        target = kubeconfig.Access(host="nobody", port=80)
        asking = client.Client(machine, target, tls=None, limit=limit, counts=metrics.Metrics())
        with pytest.raises(client.UnknownError, match="nobody"):
            await asking.get("/api")

        async def refuses(request: http_interface.Request) -> http_interface.Response:
            body = b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not you"}'
            return http_interface.Response(403, body)

        await machine.network.serve_http("", 80, refuses, tls=None, body_limit=100)
        target = kubeconfig.Access(host="localhost", port=80)
        asking = client.Client(machine, target, tls=None, limit=limit, counts=metrics.Metrics())
        with pytest.raises(client.RefusedError, match="403 Forbidden: not you"):
            await asking.get("/api")

    world.run(check())
