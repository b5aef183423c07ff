"""Cluster ports: addresses of Gantry networks, reserved for claims as ports (LUXI).

``cluster_sync`` calls it. A reservation is a port without an instance: ``device_owner`` is the kind of the claim,
``device_id`` has the site (the name of the API server) and the namespaces of claim and pool, the description is the
claim's name, and the tag the pool's. The UUID is derived from all of these (``key``), so reserving twice is idempotent
and no other port is mistaken for a reservation.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Collection, Iterable

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.kubernetes.api import capi, ipam, meta
from gantry.kubernetes.claims import cluster_reservations
from gantry.rpc import jobs, luxi
from gantry.runtime import interface

JOB_TIMEOUT_SECONDS = 10.0
"""Timeout of a job in seconds; claims on other pools wait for a worker meanwhile."""

CLAIM_KINDS = {
    "kubernetes:IPClaim": (ipam.GROUP, "IPClaim"),
    "kubernetes:IPAddressClaim": (capi.GROUP, "IPAddressClaim"),
}
"""Device owners of ports, and the group and kind of their claims."""
_DEVICE_OWNERS = {kind: owner for owner, kind in CLAIM_KINDS.items()}

MAX_SERIAL = 1 << 62
MAX_EVENTS = 1000
MAX_NAME_LENGTH = 255
_UUID_NAMESPACE = uuid.UUID("5f0c6a6e-5d0b-5d3f-9a55-0f2f7f4a7c11")
"""Namespace of the UUIDs of reservations; with another one existing reservations would not be recognized."""


class Change(msgspec.Struct):
    """A change of an object of the cluster: its kind, its UUID, and ``what`` happened."""

    kind: str
    key: str
    what: str


class _Event(msgspec.Struct):
    serial: int
    changes: list[Change]


class _News(msgspec.Struct):
    events: list[_Event]
    serial: int


class _Network(msgspec.Struct):
    name: str
    uuid: str
    address_list: list[tuple[str, str, int | None]] = []


class _Subnet(msgspec.Struct):
    network_uuid: str
    cidr: str
    gateway: str = ""
    external: list[str] = []


class _Port(msgspec.Struct):
    uuid: str
    network_uuid: str
    name: str = ""
    ip: list[str] = []
    device_id: str = ""
    device_owner: str = ""
    description: str = ""
    tags: list[str] = []


class ClusterPorts:
    """Reads and writes reservations on the master; ``site`` is the name of the API server there."""

    def __init__(self, caller: luxi.Caller, clock: interface.Clock, *, site: str) -> None:
        self._caller = caller
        self._clock = clock
        self.site = site

    def key(self, reservation: cluster_reservations.Reservation) -> str:
        """Return the UUID of a reservation's port."""
        claim = reservation.claim
        parts = (
            self.site,
            reservation.network,
            str(reservation.address),
            claim.group,
            claim.kind,
            claim.namespace,
            claim.name,
        )
        return str(uuid.uuid5(_UUID_NAMESPACE, "/".join(parts)))

    async def reserve(self, reservation: cluster_reservations.Reservation) -> None:
        """Reserve an address, idempotently; PrerequisiteError names another owner."""
        port = {
            "network": reservation.network,
            "fixed": [{"ip": str(reservation.address)}],
            "uuid": self.key(reservation),
            **self._port_fields(reservation),
        }
        try:
            await self._run({"OP_ID": "OP_PORT_ADD", "ports": [port]})
        except errors.PrerequisiteError:
            existing = await self._ports(["=", "uuid", self.key(reservation)])
            if not any(str(reservation.address) in old.ip for old in existing):
                raise
            if self._reservation(existing[0]) != reservation:
                await self._run(
                    {"OP_ID": "OP_PORT_SET_PARAMS", "port": self.key(reservation), **self._port_fields(reservation)}
                )

    async def release(self, reservation: cluster_reservations.Reservation) -> None:
        """Release a reservation, if it exists."""
        with contextlib.suppress(errors.NotFoundError):
            await self._run({"OP_ID": "OP_PORT_REMOVE", "port": self.key(reservation)})

    async def read(
        self, names: Collection[str]
    ) -> tuple[list[cluster_reservations.Network], list[cluster_reservations.Reservation]]:
        """Return the existing networks of these names, and all reservations for claims of the site."""
        networks, subnets = list[_Network](), list[_Subnet]()
        if names:
            # The master refuses a filter that only selects names if one of them does not exist.
            rows = await self._rows("network", _Network, ["&", _any_of("name", names)])
            networks = msgspec.convert(rows, list[_Network])
        uuids = [network.uuid for network in networks]
        if uuids:
            subnets = msgspec.convert(
                await self._rows("subnet", _Subnet, _any_of("network_uuid", uuids)), list[_Subnet]
            )
        # Read the ports last: a reservation released meanwhile must not look like the address of another owner.
        ports = await self._ports(
            ["|", _any_of("device_owner", CLAIM_KINDS), *([_any_of("network_uuid", uuids)] if uuids else [])]
        )
        reserved = [reservation for port in ports if (reservation := self._reservation(port))]
        foreign = [port for port in ports if self._reservation(port) is None]
        return [_network(net, subnets, foreign) for net in networks], reserved

    async def serial(self) -> int:
        """Return the serial number of the cluster's last change."""
        return (await self._caller.call(_News, "WaitForEvents", MAX_SERIAL, 1, 0.0)).serial

    async def changes(self, serial: int, *, wait: float) -> tuple[list[Change], int]:
        """Return the changes since a serial number, and the last one; empty after ``wait`` seconds without a change."""
        answer = await self._caller.call(_News, "WaitForEvents", serial, MAX_EVENTS, wait)
        if not answer.events:
            return [], serial
        return [change for event in answer.events for change in event.changes], answer.events[-1].serial

    def _port_fields(self, reservation: cluster_reservations.Reservation) -> jobs.Op:
        claim = reservation.claim
        return {
            "name": str(claim)[:MAX_NAME_LENGTH],
            "device_owner": _DEVICE_OWNERS[claim.group, claim.kind],
            "device_id": f"{self.site}/{claim.namespace}/{reservation.pool.namespace}",
            "description": claim.name,
            "tags": [reservation.pool.name],
        }

    def _reservation(self, port: _Port) -> cluster_reservations.Reservation | None:
        """Return the reservation of a port; None if it is not one of this site, or was modified."""
        kind, parts = CLAIM_KINDS.get(port.device_owner), port.device_id.split("/")
        if kind is None or len(parts) != 3 or parts[0] != self.site or len(port.tags) != 1:
            return None
        claim, pool = meta.Ref(*kind, parts[1], port.description), ipam.pool_ref(parts[2], port.tags[0])
        candidates = (
            cluster_reservations.Reservation(port.network_uuid, ranges.parse_address(ip), claim, pool) for ip in port.ip
        )
        return next((reservation for reservation in candidates if self.key(reservation) == port.uuid), None)

    async def _ports(self, condition: jobs.Filter) -> list[_Port]:
        return msgspec.convert(await self._rows("port", _Port, condition), list[_Port])

    async def _rows(self, kind: str, shape: type[msgspec.Struct], condition: jobs.Filter) -> list[jobs.Row]:
        return await jobs.rows(self._caller, kind, shape.__struct_fields__, condition)

    async def _run(self, op: jobs.Op) -> None:
        trail = [["gnt:kubernetes", self.site, int(self._clock.now() * 1e9)]]
        try:
            async with asyncio.timeout(JOB_TIMEOUT_SECONDS + 1):
                await jobs.run(self._caller, [{**op, "reason": trail}], timeout_seconds=JOB_TIMEOUT_SECONDS)
        except TimeoutError:
            raise errors.RemoteError(
                f"the master daemon did not answer within {JOB_TIMEOUT_SECONDS:g} seconds"
            ) from None


def _any_of(name: str, values: Iterable[str]) -> jobs.Filter:
    return ["|", *(["=", name, value] for value in sorted(values))]


def _network(net: _Network, subnets: Iterable[_Subnet], ports: Iterable[_Port]) -> cluster_reservations.Network:
    network_subnets = [subnet for subnet in subnets if subnet.network_uuid == net.uuid]
    excluded = [text for subnet in network_subnets for text in (*subnet.external, subnet.gateway) if text]
    used = {
        ranges.parse_address(ip): cluster_reservations.foreign_owner("instance", name)
        for ip, name, _ in net.address_list
    }
    for port in ports:
        if port.network_uuid == net.uuid:
            owner = cluster_reservations.foreign_owner("port", port.name or port.uuid)
            used |= {ranges.parse_address(ip): owner for ip in port.ip}
    return cluster_reservations.Network(
        net.uuid, net.name, tuple(subnet.cidr for subnet in network_subnets), tuple(excluded), used
    )
