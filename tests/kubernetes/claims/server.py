"""A fake API server for the tests of claims: a dictionary with versions, conflicts, finalizers, status subresource.

And a controller that applies actions to it, one request at a time, so that a test can stop it after any request.
"""

import datetime
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from gantry.kubernetes.api import capi, data, ipam, meta, patches, schema
from gantry.kubernetes.claims import actions, cache, reconcile_claim, reconcile_pool

BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SITE = "site-a"

KINDS: dict[tuple[str, str], type[meta.Resource]] = {
    (ipam.GROUP, "IPPool"): ipam.IPPool,
    (ipam.GROUP, "IPClaim"): ipam.IPClaim,
    (ipam.GROUP, "IPAddress"): ipam.IPAddress,
    (capi.GROUP, "IPAddressClaim"): capi.IPAddressClaim,
    (capi.GROUP, "IPAddress"): capi.IPAddress,
    (capi.CLUSTER_GROUP, "Cluster"): capi.Cluster,
    (data.GROUP, "Metal3Cluster"): data.Metal3Cluster,
    (data.GROUP, "Metal3DataTemplate"): data.Metal3DataTemplate,
    (data.GROUP, "Metal3DataClaim"): data.Metal3DataClaim,
    (data.GROUP, "Metal3Data"): data.Metal3Data,
}


class RefusedError(Exception):
    """An error answer: 404 not found, 409 exists or changed, 422 invalid."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.reason = status, reason


def struct(body: schema.Json) -> meta.Resource:
    group = str(body["apiVersion"]).rpartition("/")[0]
    return meta.read(body, KINDS[group, str(body["kind"])])


def metadata(body: schema.Json) -> schema.Json:
    fields = body["metadata"]
    assert isinstance(fields, dict)
    return fields


@dataclass
class Server:
    """Objects by identity; ``log`` has the watch events; ``known`` are the status fields that it does not prune."""

    objects: dict[meta.Ref, schema.Json] = field(default_factory=dict)
    log: list[tuple[meta.Ref, schema.Json | None]] = field(default_factory=list)
    now: datetime.datetime = BEGIN
    pruned: tuple[str, ...] = ()
    writes: int = 0

    def get(self, ref: meta.Ref) -> schema.Json:
        if ref not in self.objects:
            raise RefusedError(404, "NotFound")
        return self.objects[ref]

    def create(self, body: schema.Json) -> schema.Json:
        ref = struct(body).ref
        if ref in self.objects:
            raise RefusedError(409, "AlreadyExists")
        if len(ref.name) > 253:
            raise RefusedError(422, "Invalid")
        born = {"uid": f"uid-{len(self.log)}", "creationTimestamp": meta.stamp(self.now)}
        stored = {**body, "metadata": {**metadata(body), **born}}
        if ref.kind != "IPAddress":
            stored.pop("status", None)
        return self._store(ref, stored)

    def patch(self, ref: meta.Ref, patch: schema.Json, *, subresource: str = "") -> schema.Json:
        old = self.get(ref)
        version = metadata(patch).get("resourceVersion") if "metadata" in patch else None
        if version and version != metadata(old)["resourceVersion"]:
            raise RefusedError(409, "Conflict")
        if subresource:
            whole = patches.merge(old.get("status", {}), patch["status"])
            assert isinstance(whole, dict)
            dropped = self.pruned if ref.group in (ipam.GROUP, data.GROUP) else ()
            status = {key: value for key, value in whole.items() if key not in dropped}
            new: object = {**old, "status": status}
        else:
            new = patches.merge(old, {key: value for key, value in patch.items() if key != "status"})
        assert isinstance(new, dict)
        return self._store(ref, new) if new != old else old

    def delete(self, ref: meta.Ref, uid: str = "") -> None:
        old = self.get(ref)
        if uid and metadata(old)["uid"] != uid:
            raise RefusedError(409, "Conflict")
        marked = {"deletionTimestamp": meta.stamp(self.now), **metadata(old)}
        self._store(ref, {**old, "metadata": marked})

    def _store(self, ref: meta.Ref, body: schema.Json) -> schema.Json:
        self.writes += 1
        versioned = {**body, "metadata": {**metadata(body), "resourceVersion": str(len(self.log) + 1)}}
        if metadata(versioned).get("deletionTimestamp") and not metadata(versioned).get("finalizers"):
            self.objects.pop(ref)
            self.log.append((ref, None))
        else:
            self.objects[ref] = versioned
            self.log.append((ref, versioned))
        return versioned

    def obstacle(
        self, action: actions.Patch | actions.Delete | actions.Release, known: cache.Cache
    ) -> schema.Json | None:
        """Return an object that violates a precondition."""
        for ref in action.absent:
            if ref in self.objects and known.is_blocking(action, struct(self.objects[ref])):
                return self.objects[ref]
        if action.current is None:
            return None
        body = self.get(action.current.ref)
        return None if metadata(body)["resourceVersion"] == action.current.resource_version else body


@dataclass
class Controller:
    """Both controllers in one: ``steps`` makes one request at each turn; ``see`` brings it what watches show."""

    server: Server
    seed: int = 0
    known: cache.Cache = field(default_factory=cache.Cache)
    told: dict[meta.Ref, reconcile_pool.WrittenStatus] = field(default_factory=dict)
    work: set[meta.Ref] = field(default_factory=set)
    reports: list[actions.Report] = field(default_factory=list)
    place: int = 0
    sending: actions.Action | None = None

    def __post_init__(self) -> None:
        self.below: Callable[[int], int] = random.Random(self.seed).randrange
        self.place = len(self.server.log)
        for body in list(self.server.objects.values()):
            self.work |= self.known.put(struct(body))

    def see(self, count: int | None = None) -> None:
        end = len(self.server.log) if count is None else min(self.place + count, len(self.server.log))
        for ref, body in self.server.log[self.place : end]:
            self.work |= self.known.put(struct(body)) if body else self.known.remove(ref)
        self.place = end

    def steps(self) -> Generator[None, None, None]:
        """Reconcile until there is no work, one request per turn."""
        while self.work:
            pool = min(self.work)
            decision = reconcile_claim.step(self.known, pool, now=self.server.now, below=self.below)
            if decision:
                done = yield from self._carried(decision.steps)
                self.work |= self.known.finish(decision.claim, again=not done)
                continue
            chosen = reconcile_pool.decide(self.known, pool, now=self.server.now, written=self.told.get(pool))
            if not chosen.steps:
                self.work.discard(pool)
            elif (yield from self._carried(chosen.steps)) and chosen.new_status:
                seen = self.known.pool(pool)
                if seen:
                    self.told[pool] = reconcile_pool.WrittenStatus(chosen.new_status, seen.status)

    def run(self) -> None:
        for count, _ in enumerate(self.steps()):
            assert count < 5000, "it does not come to rest"

    def settle(self) -> None:
        """Run until there is neither an event nor work."""
        self.see()
        while self.work:
            self.run()
            self.see()

    def _carried(self, listed: tuple[actions.Action, ...]) -> Generator[None, None, bool]:
        for action in listed:
            if isinstance(action, actions.Report):
                self.reports.append(action)
                continue
            self.sending = action
            yield
            self.sending = None
            try:
                self._request(action)
            except RefusedError as refusal:
                self._failed(action, refusal)
                return False
        return True

    def _request(self, action: actions.Action) -> None:
        if isinstance(action, actions.Create):
            self.server.create(action.address.to_json())
            self._look(action.address.ref)
        elif isinstance(action, actions.Patch | actions.Delete):
            obstacle = self.server.obstacle(action, self.known)
            if obstacle:
                self.work |= self.known.handle_existing(action, struct(obstacle))
                raise RefusedError(409, "Met")
            if isinstance(action, actions.Patch):
                answer = self.server.patch(action.ref, action.body, subresource=action.subresource)
                self.work |= self.known.put(struct(answer))
            else:
                self.server.delete(action.ref, action.uid)
                self._look(action.ref)

    def _look(self, ref: meta.Ref) -> None:
        body = self.server.objects.get(ref)
        self.work |= self.known.put(struct(body)) if body else self.known.remove(ref)

    def _failed(self, action: actions.Action, refusal: RefusedError) -> None:
        if isinstance(action, actions.Create):
            if refusal.reason == "AlreadyExists":
                body = self.server.objects.get(action.address.ref)
                existing = struct(body) if body else None
                assert existing is None or isinstance(existing, ipam.IPAddress | capi.IPAddress)
                self.work |= self.known.handle_collision(action, existing)
        elif isinstance(action, actions.Patch | actions.Delete):
            self._look(action.ref)


def pool(name: str = "pool-1", **spec: object) -> schema.Json:
    whole = {"namePrefix": name, "pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}], **spec}
    return {"apiVersion": ipam.API_VERSION, "kind": "IPPool", "metadata": _meta(name), "spec": whole}


def kept_pool(name: str = "pool-1", **spec: object) -> schema.Json:
    """Return a pool that has the finalizer already, so that its claims get addresses at once."""
    body = pool(name, **spec)
    return {**body, "metadata": {**metadata(body), "finalizers": [ipam.POOL_FINALIZER]}}


def claim(name: str, of: str = "pool-1", **marks: object) -> schema.Json:
    spec = {"pool": {"name": of}}
    return {"apiVersion": ipam.API_VERSION, "kind": "IPClaim", "metadata": {**_meta(name), **marks}, "spec": spec}


def capi_claim(name: str, of: str = "pool-1", *, kind: str = "IPPool", **marks: object) -> schema.Json:
    spec = {"poolRef": {"name": of, "kind": kind, "apiGroup": ipam.GROUP}}
    version = f"{capi.GROUP}/v1beta2"
    return {"apiVersion": version, "kind": "IPAddressClaim", "metadata": {**_meta(name), **marks}, "spec": spec}


def address(name: str, text: str, *, claim: str, of: str = "pool-1") -> schema.Json:
    spec = {"address": text, "pool": {"name": of}, "claim": {"name": claim}}
    return {"apiVersion": ipam.API_VERSION, "kind": "IPAddress", "metadata": _meta(name), "spec": spec}


def cluster(name: str, *, paused: bool = False, built_by: str = "", kind: str = "Metal3Cluster") -> schema.Json:
    version = f"{capi.CLUSTER_GROUP}/v1beta2"
    infrastructure = {"infrastructureRef": {"apiGroup": data.GROUP, "kind": kind, "name": built_by}} if built_by else {}
    return {
        "apiVersion": version,
        "kind": "Cluster",
        "metadata": _meta(name),
        "spec": {"paused": paused, **infrastructure},
    }


def metal3_cluster(name: str) -> schema.Json:
    return {"apiVersion": f"{data.GROUP}/v1beta2", "kind": "Metal3Cluster", "metadata": _meta(name), "spec": {}}


def _meta(name: str) -> schema.Json:
    return {"name": name, "namespace": SITE}


def address_of_claim(server: Server, name: str, *, kind: str = "IPClaim") -> str:
    """Return the address of the object in the status of a claim, empty if there is none."""
    body = server.get(meta.Ref(ipam.GROUP if kind == "IPClaim" else capi.GROUP, kind, SITE, name))
    claim_object = struct(body)
    assert isinstance(claim_object, ipam.IPClaim | capi.IPAddressClaim)
    if not claim_object.address_name:
        return ""
    group = ipam.GROUP if kind == "IPClaim" else capi.GROUP
    address_object = struct(server.get(meta.Ref(group, "IPAddress", SITE, claim_object.address_name)))
    assert isinstance(address_object, ipam.IPAddress | capi.IPAddress)
    return address_object.spec.address


def error(server: Server, name: str) -> str:
    claim_object = struct(server.get(meta.Ref(ipam.GROUP, "IPClaim", SITE, name)))
    assert isinstance(claim_object, ipam.IPClaim)
    return claim_object.status.error_message
