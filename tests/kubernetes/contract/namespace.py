"""A namespace for one test, and its claims."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import backends

from gantry.kubernetes.apiserver import resources

TIMEOUT = 300.0
IPAM = "ipam.metal3.io/v1alpha1"
CAPI = "ipam.cluster.x-k8s.io/v1beta2"


class Namespace(api.Caller):
    """Client for one namespace; ``version`` is the release of the server."""

    def __init__(self, base: str, session: aiohttp.ClientSession, *, name: str, version: tuple[int, int]) -> None:
        super().__init__(base, session)
        self.name, self.version = name, version
        self.pools, self.claims, self.addresses = (
            self.of(IPAM, plural) for plural in ("ippools", "ipclaims", "ipaddresses")
        )
        self.pool = f"{self.pools}/pool-1"
        self.capi_claims, self.capi_addresses = (
            self.of(CAPI, resource) for resource in ("ipaddressclaims", "ipaddresses")
        )
        self.clusters = self.of("cluster.x-k8s.io/v1beta2", "clusters")
        self.leases = self.of("coordination.k8s.io/v1", "leases")
        self.secrets, self.events = f"/api/v1/namespaces/{name}/secrets", f"/api/v1/namespaces/{name}/events"

    def of(self, api_version: str, plural: str) -> str:
        return f"/apis/{api_version}/namespaces/{self.name}/{plural}"

    def needs(self, major: int, minor: int, what: str) -> None:
        """Skip the test if the server is too old."""
        if self.version < (major, minor):
            pytest.skip(f"{what}: since Kubernetes {major}.{minor}")

    async def put(self, *bodies: api.Json) -> None:
        """Create objects; fail if one is rejected."""
        for body in bodies:
            answer = await self.create(body)
            assert answer.status == 201, answer

    async def create(self, body: api.Json) -> api.Answer:
        group, _, _ = str(body["apiVersion"]).rpartition("/")
        match = next(
            definition
            for definition in resources.SERVED
            if (definition.group, definition.kind) == (group, body["kind"])
        )
        return await self.say("POST", self.of(str(body["apiVersion"]), match.plural), body)

    async def until(self, condition: Callable[[], Awaitable[object]], *, timeout: float = TIMEOUT) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(timeout):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def address_of(self, claim: str, *, kind: str = "IPClaim") -> str:
        """Return the address of the object in the status of a claim, empty if there is none."""
        if kind == "IPClaim":
            name, path = (await self.get(f"{self.claims}/{claim}")).at("status.address.name"), self.addresses
        else:
            name = (await self.get(f"{self.capi_claims}/{claim}")).at("status.addressRef.name")
            path = self.capi_addresses
        return str((await self.get(f"{path}/{name}")).at("spec.address") or "") if name else ""

    async def bound(self, *claims: str, kind: str = "IPClaim", timeout: float = TIMEOUT) -> list[str]:
        """Wait until claims are bound; return their addresses."""
        addresses: list[str] = []

        async def all_are() -> bool:
            nonlocal addresses
            addresses = [await self.address_of(claim, kind=kind) for claim in claims]
            return all(addresses)

        await self.until(all_are, timeout=timeout)
        return addresses

    async def wait_for_message(self, claim: str, part: str) -> None:
        """Wait until the error message of a claim contains a text."""

        async def says() -> bool:
            return part in str((await self.get(f"{self.claims}/{claim}")).at("status.errorMessage"))

        await self.until(says)

    async def allocated_addresses(self) -> list[str]:
        """Return the addresses of all objects of both kinds, sorted."""
        objects = [*(await self.get(self.addresses)).items, *(await self.get(self.capi_addresses)).items]
        return sorted(str(api.Answer(200, body).at("spec.address")) for body in objects)

    async def empty(self, *collections: str) -> None:
        """Wait until collections are empty."""

        async def nothing() -> bool:
            return not any([(await self.get(collection)).items for collection in collections])

        await self.until(nothing)


@asynccontextmanager
async def temporary(entrance: backends.Entrance) -> AsyncIterator[Namespace]:
    """Create a namespace; delete it afterwards without waiting."""
    async with entrance.session() as session:
        name = f"test-{secrets.token_hex(4)}"
        namespace = Namespace(entrance.base, session, name=name, version=entrance.version)
        await namespace.add(api.NAMESPACES, {"metadata": {"name": name}})
        yield namespace
        await namespace.delete(f"{api.NAMESPACES}/{name}")


def pool(
    name: str = "pool-1", *ranges: tuple[str, str], labels: dict[str, str] | None = None, **spec: object
) -> api.Json:
    """Return a pool of ranges from an address to another."""
    listed = [{"start": start, "end": end} for start, end in ranges or [("10.0.0.1", "10.0.0.4")]]
    return api.pool(name, labels=labels, pools=listed, **spec)


def claim(name: str, *, of: str = "pool-1", request: str = "", **metadata: object) -> api.Json:
    if request:
        metadata["annotations"] = {"ipAddress": request}
    return api.claim(name, of=of, **metadata)


def capi_claim(name: str, *, of: str = "pool-1", group: str = "ipam.metal3.io", **spec: object) -> api.Json:
    whole = {"poolRef": {"name": of, "kind": "IPPool", "apiGroup": group}, **spec}
    return {"apiVersion": CAPI, "kind": "IPAddressClaim", "metadata": {"name": name}, "spec": whole}


def lease(name: str, **metadata: object) -> api.Json:
    """Return an object of a kind without a controller."""
    head = {"name": name, **metadata}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": head, "spec": {"holderIdentity": "x"}}


def cluster(name: str, *, paused: bool = False) -> api.Json:
    spec = {"paused": paused}
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
