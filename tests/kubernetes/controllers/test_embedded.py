"""The controllers with the embedded API server, which is killed meanwhile."""

import asyncio

from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api

from gantry.doors import http
from gantry.kubernetes import apiserver as embedded
from gantry.kubernetes.api import definitions, ipam, schema
from gantry.kubernetes.controllers import client
from gantry.runtime import simulated

POOLS = "/apis/ipam.metal3.io/v1alpha1/namespaces/default/ippools"
CLAIMS = "/apis/ipam.metal3.io/v1alpha1/namespaces/default/ipclaims"


async def serve(world: simulated.World) -> None:
    """Run the server on its machine, with the data on its disk, until it is killed."""
    machine = world.machine("api")

    async def run() -> None:
        application = embedded.Application(machine, "/data")
        await application.open()
        await http.Server(machine, application).open("", api.PORT, tls=None)

    await machine.spawn(run())


def here(body: schema.Json) -> schema.Json:
    """Return an object in the namespace that the server has."""
    return {**body, "metadata": {**server.metadata(body), "namespace": "default"}}


async def claims(user: client.Client) -> dict[str, str]:
    """Return the claims and the names of their addresses."""
    listed = (await user.get(CLAIMS))["items"]
    assert isinstance(listed, list)
    objects = [definitions.read(body) for body in listed]
    return {claim.metadata.name: claim.address_name for claim in objects if isinstance(claim, ipam.IPClaim)}


def test_claims_are_bound_and_released_while_the_server_is_killed_again_and_again() -> None:
    async def check(kube: api.SimulatedKubernetes) -> None:
        world = kube.world
        await serve(world)
        kube.start()
        user = kube.client("c1")
        names, source = [f"c{number}" for number in range(12)], world.source("kills")
        await user.send("POST", POOLS, here(server.pool(pools=[{"subnet": "10.0.0.0/28"}])))
        for name in names:
            while True:
                try:
                    await user.send("POST", CLAIMS, here(server.claim(name)))
                    break
                except (client.UnknownError, client.RefusedError) as error:
                    if isinstance(error, client.RefusedError) and error.reason == "AlreadyExists":
                        break
                    await world.clock.sleep(1)
            world.loop.call_later(source.uniform(0, 0.1), world.kill, "api")
            await world.clock.sleep(0.5)
            await serve(world)
        async with asyncio.timeout(600):
            while not all((addresses := await claims(user)).values()):
                await world.clock.sleep(1)
        assert set(addresses) == set(names)
        assert len(set(addresses.values())) == 12
        for name in names:
            await user.send("DELETE", f"{CLAIMS}/{name}")
        async with asyncio.timeout(600):
            while await claims(user):
                await world.clock.sleep(1)
        assert not kube.failures

    with simulated.World(seed=3) as world:
        world.run(check(api.SimulatedKubernetes(world)))
