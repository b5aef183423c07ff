"""Render data objects: from their template, the objects of their machine, and the addresses of their claims.

``templates`` calls it, for one data object at a time. ::

    create claims, one per pool --> each has an address --> two Secrets --> the data object is ready
    deleted, data claim too     --> delete the claims   --> remove its finalizer

A data object that is deleted before its data claim keeps its finalizer and the addresses, because its host uses them.
An existing Secret is never rewritten, because the machine may have read it. Machine, Metal3Machine and BareMetalHost
are read when needed, not watched.
"""

import base64

import msgspec

from gantry import errors
from gantry.kubernetes.api import capi, data, ipam, meta, schema
from gantry.kubernetes.claims import actions, template
from gantry.kubernetes.controllers import apply, template_cache

HOST_ANNOTATION = "metal3.io/BareMetalHost"
"""The annotation of a Metal3Machine with its host, as namespace/name."""
HOST_API_VERSION = f"{data.HOST_GROUP}/v1alpha1"
SECRET_TYPE = "infrastructure.cluster.x-k8s.io/secret"
DATA_CLAIM_FINALIZER = "metal3dataclaim.infrastructure.cluster.x-k8s.io"


class Renderer:
    """Reconciles data objects; with ``named_by_host``, their claims are named after the host (``template.claims``)."""

    def __init__(self, applier: apply.Applier, objects: template_cache.TemplateCache, *, named_by_host: bool) -> None:
        self._applier = applier
        self._cache = objects
        self._named_by_host = named_by_host

    async def render(self, ref: meta.Ref) -> None:
        """Do the next step for a data object; an error says what is missing, to be retried."""
        datum = self._cache.get(ref, data.Metal3Data)
        if datum is None or datum.is_paused:
            return
        if datum.is_deleting:
            await self._release(datum)
        elif data.FINALIZER not in datum.metadata.finalizers:
            await self._applier.apply((actions.with_finalizer(datum, data.FINALIZER),))
        elif not datum.status.ready:
            try:
                await self._render(datum)
            except errors.PrerequisiteError as error:
                await self._report_error(datum, error)
                raise

    async def _release(self, datum: data.Metal3Data) -> None:
        """Release what a deleted data object has, once its data claim is being deleted too."""
        data_claim = self._data_claim(datum)
        if data_claim and (not data_claim.is_deleting or has_foreign_finalizer(data_claim)):
            text = f"its addresses are in use by {data_claim.ref} and are released with it"
            await self._applier.apply((actions.report(datum, "InUse", text, warning=True),))
            return
        claims = self._cache.claims_of(datum)
        for claim in claims:
            if not claim.is_deleting:
                await self._applier.apply((actions.Delete(claim.ref, claim.api_version, claim.metadata.uid),))
            elif data.FINALIZER in claim.metadata.finalizers:
                await self._applier.apply((actions.without_finalizer(claim, data.FINALIZER),))
        if not claims and data.FINALIZER in datum.metadata.finalizers:
            await self._applier.apply((actions.without_finalizer(datum, data.FINALIZER),))

    def _data_claim(self, datum: data.Metal3Data) -> data.Metal3DataClaim | None:
        ref = template_cache.ref("Metal3DataClaim", datum.metadata.namespace, datum.spec.claim.name)
        return self._cache.get(ref, data.Metal3DataClaim)

    async def _report_error(self, datum: data.Metal3Data, error: errors.PrerequisiteError) -> None:
        """Write to the status of a data object why it is not ready."""
        now = self._cache.get(datum.ref, data.Metal3Data)
        passes = isinstance(error, errors.WrongStateError | errors.BusyError)
        if now and not passes and now.status.error_message != error.message:
            await self._applier.apply((actions.patch_status(now, {"errorMessage": error.message}),))

    async def _render(self, datum: data.Metal3Data) -> None:
        current_template = self._cache.get(
            template_cache.ref("Metal3DataTemplate", datum.metadata.namespace, datum.spec.template.name),
            data.Metal3DataTemplate,
        )
        if current_template is None:
            raise errors.NotFoundError(f"Metal3DataTemplate {datum.spec.template.name} does not exist")
        machine = await self._read_machine(datum)
        values = await self._allocations(
            datum, template.claims(current_template, machine, named_by_host=self._named_by_host)
        )
        if values is None:
            return
        texts: dict[str, tuple[str, schema.Json]] = {}
        if current_template.spec.meta_data != data.MetaData():
            texts["metaData"] = ("metadata", dict(template.metadata(current_template, machine, values)))
        if current_template.spec.network_data != data.NetworkData():
            texts["networkData"] = ("networkdata", template.network_data(current_template, machine, values))
        spec: schema.Json = {}
        for key, (suffix, rendered) in texts.items():
            name = f"{machine.metal3machine.metadata.name}-{suffix}"
            await self._applier.create_plain("secrets", _secret(datum, name, key, template.text(rendered)))
            spec[key] = {"name": name, "namespace": datum.metadata.namespace}
        await self._applier.apply((actions.Patch(datum.ref, datum.api_version, {"spec": spec}),))
        ready: schema.Json = {"status": {"ready": True, "errorMessage": None}}
        await self._applier.apply((actions.Patch(datum.ref, datum.api_version, ready, "status"),))

    async def _allocations(
        self, datum: data.Metal3Data, needed: list[actions.Claim]
    ) -> dict[str, template.PoolValues] | None:
        """Create missing claims, and return the addresses by pool; None while a claim has none.

        A claim of the data object counts whatever its name: it may be from before a change of the setting.
        """
        claims = {_pool_name(claim): claim for claim in self._cache.claims_of(datum)}
        for claim in needed:
            if _pool_name(claim) not in claims:
                self._check_name(claim)
                await self._applier.create(claim)
        values: dict[str, template.PoolValues] = {}
        for pool in map(_pool_name, needed):
            address = await self._allocation(claims[pool]) if pool in claims else None
            if address:
                values[pool] = address
        return values if len(values) == len(needed) else None

    def _check_name(self, claim: actions.Claim) -> None:
        """Raise NotUniqueError if the name of a new claim is in use: its host may just leave another data object."""
        existing = self._cache.get(claim.ref, type(claim))
        if existing:
            owner = existing.metadata.labels[template.DATA_LABEL]
            raise errors.NotUniqueError(f"{claim.ref.kind} {claim.metadata.name} still belongs to Metal3Data {owner}")

    async def _allocation(self, claim: actions.Claim) -> template.PoolValues | None:
        """Return the address of a claim, None while it waits; its next change requeues the data object."""
        failure = claim.status.error_message if isinstance(claim, ipam.IPClaim) else claim.failure
        if failure:
            raise errors.NoRoomError(f"IP Allocation for {claim.pool.name} failed : {failure}")
        if not claim.address_name:
            return None
        ref = meta.Ref(claim.ref.group, "IPAddress", claim.metadata.namespace, claim.address_name)
        address = await self._applier.find(ref, claim.api_version)
        return template.values_of(address) if isinstance(address, ipam.IPAddress | capi.IPAddress) else None

    async def _read_machine(self, datum: data.Metal3Data) -> template.Machine:
        """Read the machine's objects, by the owner references of the data claim and the host annotation."""
        claim = self._data_claim(datum)
        if claim is None:
            raise errors.NotFoundError(f"Metal3DataClaim {datum.spec.claim.name} does not exist")
        metal = await self._read_owner(claim, "Metal3Machine", "metal3machines")
        machine = await self._read_owner(metal, "Machine", "machines")
        namespace, _, name = metal.metadata.annotations.get(HOST_ANNOTATION, "").rpartition("/")
        if not name:
            raise errors.NotFoundError(f"Metal3Machine {metal.metadata.name} has no annotation {HOST_ANNOTATION} yet")
        path = f"/apis/{HOST_API_VERSION}/namespaces/{namespace or metal.metadata.namespace}/baremetalhosts/{name}"
        host = await self._applier.read(path, data.BareMetalHost)
        return template.Machine(datum, machine, metal, host)

    async def _read_owner(self, dependent: meta.Resource, kind: str, plural: str) -> meta.Resource:
        owner = next((owner for owner in dependent.metadata.owner_references if owner.kind == kind), None)
        if owner is None:
            raise errors.NotFoundError(f"{dependent.kind} {dependent.metadata.name} has no owner reference to a {kind}")
        path = f"/apis/{owner.api_version}/namespaces/{dependent.metadata.namespace}/{plural}/{owner.name}"
        return await self._applier.read(path, meta.Resource)


def _pool_name(claim: actions.Claim) -> str:
    return claim.pool.name if isinstance(claim, ipam.IPClaim) else claim.spec.pool_ref.name


def has_foreign_finalizer(claim: data.Metal3DataClaim) -> bool:
    """Return whether another controller still needs a data claim that is being deleted, and the addresses with it."""
    return bool(set(claim.metadata.finalizers) - {DATA_CLAIM_FINALIZER, *meta.COLLECTOR_FINALIZERS})


def _secret(datum: data.Metal3Data, name: str, key: str, text: str) -> schema.Json:
    cluster = datum.metadata.labels.get(meta.CLUSTER_LABEL, "")
    owner = meta.OwnerReference(
        api_version=datum.api_version,
        kind="Metal3Data",
        name=datum.metadata.name,
        uid=datum.metadata.uid,
        controller=True,
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {
            "name": name,
            "namespace": datum.metadata.namespace,
            "labels": {meta.CLUSTER_LABEL: cluster} if cluster else {},
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "data": {key: base64.b64encode(text.encode()).decode()},
    }
