"""Status of claims, and the address objects created for them, in the form of each kind.

``reconcile_claim`` calls it. If the status of a claim is up to date, no action and no Event is returned. Both fields
for the address of an IPClaim are written; a server whose definition has only one prunes the other (``ipam``).
"""

import datetime

import msgspec

from gantry.kubernetes.api import capi, ipam, meta, schema
from gantry.kubernetes.claims import actions, allocate, pool_space


def address_object(claim: actions.Claim, pool: ipam.IPPool, allocation: pool_space.Allocation) -> actions.Address:
    """Return the address object for an address of the pool and a claim."""
    unnamed = (
        _capi_address(claim, allocation)
        if isinstance(claim, capi.IPAddressClaim)
        else _metal3_address(claim, allocation)
    )
    metadata = meta.ObjectMeta(
        name=allocate.name_of(pool, allocation.address),
        namespace=claim.metadata.namespace,
        labels=claim.metadata.labels,
        finalizers=(unnamed.finalizer,),
    )
    named = msgspec.structs.replace(unnamed, metadata=metadata)
    owned = msgspec.structs.replace(metadata, owner_references=owners(named, claim, pool))
    return msgspec.structs.replace(named, metadata=owned)


def _metal3_address(claim: ipam.IPClaim, allocation: pool_space.Allocation) -> ipam.IPAddress:
    spec = ipam.AddressSpec(
        address=str(allocation.address),
        pool=ipam.reference(claim.pool),
        claim=ipam.reference(claim.ref),
        prefix=allocation.prefix,
        gateway=allocation.gateway,
        dns_servers=allocation.dns_servers,
    )
    return ipam.IPAddress(
        api_version=ipam.API_VERSION, kind="IPAddress", spec=spec, status=ipam.AddressStatus(ready=True)
    )


def _capi_address(claim: capi.IPAddressClaim, allocation: pool_space.Allocation) -> capi.IPAddress:
    spec = capi.AddressSpec(
        claim_ref=capi.Name(name=claim.metadata.name),
        pool_ref=capi.PoolRef(name=claim.pool.name, kind="IPPool", api_group=ipam.GROUP),
        address=str(allocation.address),
        # the field is required
        prefix=allocation.prefix or allocation.address.family.bits,
        gateway=allocation.gateway,
    )
    return capi.IPAddress(api_version=claim.api_version, kind="IPAddress", spec=spec)


def owners(
    address_object: actions.Address, claim: actions.Claim, pool: ipam.IPPool | None
) -> tuple[meta.OwnerReference, ...]:
    """Return the owner references of an address, its pool and claim included, with their current UIDs.

    For Cluster API's kind they have the flags that its contract requires, for Metal3's kind none.
    """
    is_capi = isinstance(claim, capi.IPAddressClaim)
    references = address_object.metadata.owner_references
    with_pool = _with_owner(references, pool, controller=False, block_owner_deletion=is_capi) if pool else references
    return _with_owner(with_pool, claim, controller=is_capi, block_owner_deletion=is_capi)


def _with_owner(
    references: tuple[meta.OwnerReference, ...], owner: meta.Resource, *, controller: bool, block_owner_deletion: bool
) -> tuple[meta.OwnerReference, ...]:
    ref, uid = owner.ref, owner.metadata.uid
    for index, old in enumerate(references):
        if (old.group, old.kind, old.name) == (ref.group, ref.kind, ref.name):
            if old.uid == uid:
                return references
            return (*references[:index], msgspec.structs.replace(old, uid=uid), *references[index + 1 :])
    new = meta.OwnerReference(
        api_version=owner.api_version,
        kind=ref.kind,
        name=ref.name,
        uid=uid,
        controller=controller,
        block_owner_deletion=block_owner_deletion,
    )
    return (*references, new)


def bound_status(
    claim: actions.Claim, address: actions.Address, *, now: datetime.datetime
) -> tuple[actions.Action, ...]:
    """Return the update of a claim's status with its address, and an Event; nothing if it is up to date.

    The update requires that no object of the other kind exists for the same address, nor the object that is in the
    status now, which a controller with a newer cache may have written (``Cache.is_blocking``).
    """
    name, text = address.metadata.name, address.spec.address
    absent = () if claim.address_name == name else (_other_kind_address(address), *_previous_address(claim))
    status: schema.Json
    ready = meta.Condition(type=capi.READY, status="True", reason="Allocated", message=f"{text} is allocated")
    if isinstance(claim, capi.IPAddressClaim):
        if claim.address_name == name and _is_same(claim.ready, ready):
            return ()
        status = {"addressRef": {"name": name}, "conditions": _conditions(claim, ready, now)}
    else:
        current = claim.status
        names = {owner.name for owner in (current.address, current.ip_address) if owner.name}
        if names == {name} and not current.error_message:
            return ()
        reference: schema.Json = {"name": name, "namespace": claim.metadata.namespace}
        status = {
            "address": reference,
            "ipAddress": reference,
            "errorMessage": None,
            "conditions": _conditions(claim, ready, now),
        }
    message = f"allocated {text} to {claim.ref} as IPAddress {name}"
    return actions.patch_status(claim, status, absent=absent), actions.report(claim, "Allocated", message)


def _previous_address(claim: actions.Claim) -> tuple[meta.Ref, ...]:
    """Return the address object in the status of a claim, empty if there is none."""
    ref = meta.Ref(claim.ref.group, "IPAddress", claim.metadata.namespace, claim.address_name)
    return (ref,) if claim.address_name else ()


def _other_kind_address(address_object: actions.Address) -> meta.Ref:
    group = ipam.GROUP if isinstance(address_object, capi.IPAddress) else capi.GROUP
    return meta.Ref(group, "IPAddress", address_object.metadata.namespace, address_object.metadata.name)


def problem_status(
    claim: actions.Claim, problem_status: allocate.Problem, *, now: datetime.datetime
) -> tuple[actions.Action, ...]:
    """Return the update of a claim's status with the reason why it has no address, and an Event; nothing if up to date.

    The update requires that the address object in the status now does not exist.
    """
    status: schema.Json
    ready = meta.Condition(
        type=capi.READY, status="False", reason=problem_status.reason, message=problem_status.message
    )
    if isinstance(claim, capi.IPAddressClaim):
        if not claim.address_name and _is_same(claim.ready, ready):
            return ()
        status = {"addressRef": None, "conditions": _conditions(claim, ready, now)}
    else:
        if not claim.address_name and claim.status.error_message == problem_status.message:
            return ()
        status = {
            "address": None,
            "ipAddress": None,
            "errorMessage": problem_status.message,
            "conditions": _conditions(claim, ready, now),
        }
    event = actions.report(claim, problem_status.reason, problem_status.message, warning=True)
    return actions.patch_status(claim, status, absent=_previous_address(claim)), event


def _is_same(old: meta.Condition, new: meta.Condition) -> bool:
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def _conditions(claim: actions.Claim, ready: meta.Condition, now: datetime.datetime) -> list[schema.Json]:
    conditions = meta.with_condition(claim.status.conditions, ready, now=now)
    return [msgspec.to_builtins(condition) for condition in conditions]
