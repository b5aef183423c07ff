"""The Neutron API under hostile requests: no 500, no traceback, memory back to where it was."""

import contextlib
import functools
import json
from collections.abc import Iterator

import msgspec
import pytest
from tests.doors.neutron import talk
from tests.fuzz import doors, hostile, http
from tools.reference import neutron_openapi

from gantry.daemons import remote
from gantry.doors import http as web
from gantry.runtime import http_interface
from gantry.sim import cluster

HEADERS = ("content-type", "authorization", "x-auth-token", "host", "x-forwarded-proto", "x-forwarded-host", "accept")
LOGINS = (
    {},
    *([http.basic("admin:secret")] * 12),
    http.basic("anna:secret"),
    http.basic("rita:secret"),
    http.basic("anna:wrong"),
    {"x-auth-token": "AAAA"},
)


IDS = tuple(f"{number}0000000-0000-0000-0000-000000000000" for number in range(1, 6))
NETWORK, SUBNET, PORT, POOL, RANGE = IDS
"""The ids that messages are drawn with; ``restore`` returns those of the objects."""

KNOWN = (
    *IDS,
    *IDS,
    "net1",
    "green",
    "192.0.2.9",
    "198.51.100.0/24",
    "2001:db8::/64",
    "aa:00:00:00:00:09",
    "vlan",
    "vxlan",
    "physnet1",
    "4",
    "6",
    "asc",
    "id",
    "name",
    "true",
    "tag1",
    "agent",
    "admin",
    "secret",
)
NAMES = {
    "networks": (NETWORK,),
    "subnets": (SUBNET,),
    "ports": (PORT,),
    "subnetpools": (POOL,),
    "network_segment_ranges": (RANGE,),
    "network-ip-availabilities": (NETWORK,),
    "extensions": ("agent",),
    "tags": ("tag1", "tag2"),
}
FITTING = {
    "network_id": (NETWORK,),
    "subnet_id": (SUBNET,),
    "subnetpool_id": (POOL,),
    "ip_version": (4, 6),
    "cidr": ("198.51.100.0/24",),
    "ip_address": ("192.0.2.9", "192.0.2.10"),
    "mac_address": ("aa:00:00:00:00:09",),
    "start": ("192.0.2.20",),
    "end": ("192.0.2.30",),
    "prefixes": (["203.0.113.0/24"],),
    "network_type": ("vlan", "vxlan"),
    "minimum": (5, 2000),
    "maximum": (6, 3000),
    "physical_network": ("physnet1", "physnet2"),
    "gateway_ip": ("198.51.100.1",),
    "provider:network_type": ("vlan", "vxlan"),
    "project_id": ("green",),
    "device_owner": ("a:b",),
    "prefixlen": (28,),
}


async def _say(server: web.Server, method: str, path: str, body: object = None) -> hostile.Json:
    sent = b"" if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **LOGINS[1]}
    answer = await server.answer(http_interface.Request(method, path, sent, headers))
    return msgspec.json.decode(answer.body, type=hostile.Json) if answer.status < 300 else {}


async def restore(server: web.Server, ids: dict[str, str]) -> dict[str, str]:
    """Create a network, a subnet, a port, a subnet pool and a segment range where there is none, and return the ids."""
    for drawn, path, values in (
        (NETWORK, talk.NETWORKS, {"name": "net1"}),
        (SUBNET, talk.SUBNETS, {"network_id": NETWORK, "ip_version": 4, "cidr": "192.0.2.0/24"}),
        (PORT, talk.PORTS, {"network_id": NETWORK}),
        (POOL, talk.POOLS, {"name": "pool", "prefixes": ["203.0.113.0/24"]}),
        (RANGE, talk.RANGES, {"network_type": "vxlan", "minimum": 7000, "maximum": 7009}),
    ):
        if drawn in ids and await _say(server, "GET", f"{path}/{ids[drawn]}"):
            continue
        name = path.rpartition("/")[2].removesuffix("s")
        body = {key: ids.get(str(value), value) for key, value in values.items()}
        created = (await _say(server, "POST", path, {name: body})).get(name)
        if isinstance(created, dict):
            ids[drawn] = str(created["id"])
    return ids


@contextlib.contextmanager
def start() -> Iterator[tuple[http.Door, doors.Run]]:
    with pytest.MonkeyPatch.context() as patch, cluster.SimulatedCluster(seed=1, nodes=1) as lab:
        patch.setattr(cluster, "SEGMENTS", talk.SETTINGS.encode())
        lab.run(lab.build())
        lab.run(lab.done({"OP_ID": "OP_CLUSTER_SET_PARAMS", "segment_ranges": True}))
        lab.run(lab.master.disk.write(cluster.FOLDERS.users, talk.USERS.encode()))
        server = remote.neutron_server(lab.master, cluster.FOLDERS)
        description = neutron_openapi.document()
        components = description["components"]
        assert isinstance(components, dict)
        yield (
            http.Door(
                "neutron",
                server,
                http.operations(description),
                hostile.Schemas(components["schemas"], KNOWN, fitting=FITTING),
                LOGINS,
                HEADERS,
                http_interface.Request("GET", "/v2.0/networks", b"", dict(LOGINS[1])),
                NAMES,
                functools.partial(restore, server, {}),
            ),
            lab.run,
        )


@pytest.mark.slow
def test_hostile_requests_are_refused_without_an_error_of_the_server() -> None:
    doors.check("Neutron API", start)
