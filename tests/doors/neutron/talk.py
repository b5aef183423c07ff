"""Requests to the Neutron API of a simulated master, and their answers, without a network."""

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gantry.doors import http
from gantry.runtime import http_interface, limits
from gantry.sim import cluster

RANGES = "/v2.0/network_segment_ranges"
NETWORKS, SUBNETS, PORTS, POOLS = "/v2.0/networks", "/v2.0/subnets", "/v2.0/ports", "/v2.0/subnetpools"
NOWHERE = "11111111-1111-1111-1111-111111111111"

SETTINGS = """
[ml2]
tenant_network_types = vlan,vxlan

[ml2_type_vlan]
network_vlan_ranges = physnet1:100:119

[ml2_type_vxlan]
vni_ranges = 1000:1019
"""

USERS = """
admin secret write
boss secret project=green,role=admin
anna secret project=green
ben secret project=blue,role=member
rita secret project=green,role=reader
rapi secret read
nobody secret
"""
ADMIN, MEMBER, OTHER, READER = "admin", "anna", "ben", "rita"

Object = dict[str, object]


@dataclass(frozen=True)
class Answer:
    """An answer: its status, its decoded body, its headers."""

    status: int
    body: object
    headers: dict[str, str]

    def object(self, name: str) -> Object:
        """Return the single object in the body."""
        return msgspec.convert(self.body, dict[str, Object])[name]

    def all(self, name: str) -> list[Object]:
        """Return the list of objects in the body."""
        return msgspec.convert(msgspec.convert(self.body, Object)[name], list[Object])

    @property
    def fault(self) -> tuple[int, str, str]:
        """Return status, type and message of a refusal."""
        content = self.object("NeutronError")
        assert content["detail"] == ""
        return self.status, str(content["type"]), str(content["message"])


def _decode(answer: http_interface.Response) -> Answer:
    return Answer(answer.status, json.loads(answer.body) if answer.body else None, dict(answer.headers))


def _headers(who: str) -> dict[str, str]:
    login = base64.b64encode(f"{who}:secret".encode()).decode()
    return {"authorization": f"Basic {login}", "content-type": "application/json", "host": "network.example"}


class Talk:
    """A client that decodes answers."""

    def __init__(self, lab: cluster.SimulatedCluster, server: http.Server) -> None:
        self.lab = lab
        self._server = server

    def raw(self, method: str, path: str, body: bytes = b"", *, headers: dict[str, str] | None = None) -> Answer:
        """Send a body of bytes, with only these headers."""
        return _decode(self.lab.run(self._server.answer(http_interface.Request(method, path, body, headers or {}))))

    def longest_body(self, method: str, path: str, headers: dict[str, str] | None = None) -> int | None:
        """Return how many bytes the body of a request with these headers may have, None if it is refused."""
        request = http_interface.Request(method, path, b"", headers or {})
        admission = self.lab.run(self._server.admit(request))
        return admission.body_bytes if isinstance(admission, limits.Admission) else None

    def say(self, method: str, path: str, body: object = None, *, who: str = ADMIN) -> Answer:
        """Send an object as a user of the file."""
        sent = b"" if body is None else msgspec.json.encode(body)
        return self.raw(method, path, sent, headers=_headers(who))

    def at_once(self, method: str, paths: Sequence[str], *, who: str = ADMIN) -> list[Answer]:
        """Send several requests at the same time."""

        async def all_of_them() -> list[http_interface.Response]:
            sent = [http_interface.Request(method, path, b"", _headers(who)) for path in paths]
            return await asyncio.gather(*map(self._server.answer, sent))

        return [_decode(answer) for answer in self.lab.run(all_of_them())]

    def get(self, path: str, *, who: str = ADMIN) -> Answer:
        return self.say("GET", path, who=who)

    def add(self, path: str, values: Object, *, who: str = ADMIN) -> Object:
        """Create an object, which must succeed, and return it."""
        name = path.rpartition("/")[2].removesuffix("s")
        answer = self.say("POST", path, {name: values}, who=who)
        assert answer.status == 201, answer
        return answer.object(name)

    def refused(self, method: str, path: str, body: object = None, *, who: str = ADMIN) -> tuple[int, str, str]:
        """Return the fault with which a request is refused."""
        return self.say(method, path, body, who=who).fault

    def clear_ports(self) -> None:
        """Remove all ports that are not NICs."""
        for port in self.get(PORTS).all("ports"):
            if port["device_owner"] != "compute:gantry":
                assert self.say("DELETE", f"{PORTS}/{port['id']}").status == 204

    def clear(self) -> None:
        """Remove all objects, the default ranges excepted."""
        for path in (PORTS, SUBNETS, NETWORKS, POOLS, RANGES):
            for each in self.get(path).all(path.rpartition("/")[2]):
                if not each.get("default"):
                    answer = self.say("DELETE", f"{path}/{each['id']}")
                    assert answer.status == 204, answer
