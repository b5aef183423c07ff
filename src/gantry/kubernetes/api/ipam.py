"""IPPool, IPClaim and IPAddress of ``ipam.metal3.io/v1alpha1`` (contracts/ippool-claims.md#fields).

Fields that Metal3 has renamed are read and written under both names: a pool's ``status.allocations`` (old, includes
pre-allocations) and ``indexes`` (new, existing addresses only), a claim's ``status.ipAddress`` (old) and ``address``
(new). Servers with other definitions prune the fields that these do not have (``excludedAddresses``, ``owner``, an
address's ``status``, counts and conditions of a pool, conditions of a claim); nothing relies on them.
"""

from typing import Annotated

from gantry.kubernetes.api import meta, schema

GROUP = "ipam.metal3.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
PROVIDER = "ipam-metal3"

POOL_FINALIZER = "ippool.ipam.metal3.io"
CLAIM_FINALIZER = "ipclaim.ipam.metal3.io"
ADDRESS_FINALIZER = "ipaddress.ipam.metal3.io"

REQUEST_ANNOTATION = "ipAddress"
"""The annotation of a claim that requests a particular address."""

NETWORK_ANNOTATION = "gantry/network"
"""The annotation of a pool that binds it to a network of a Gantry cluster, by name."""

SEQUENTIAL = "sequential"
RANDOM = "random"

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_V4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_H = "[0-9a-fA-F]{1,4}"
_V6 = "|".join(
    [
        f"({_H}:){{7}}{_H}",
        f"({_H}:){{1,7}}:",
        *(f"({_H}:){{1,{count}}}(:{_H}){{1,{7 - count}}}" for count in range(6, 0, -1)),
        f":((:{_H}){{1,7}}|:)",
    ]
)
ADDRESS = f"^({_V4}|{_V6})$"
SUBNET = f"^({_V4}/([0-9]|[12][0-9]|3[0-2])|({_V6})/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))$"

Text = Annotated[str, schema.Rule(pattern=ADDRESS)]
Servers = Annotated[tuple[Text, ...], schema.Rule(text="DNS servers of an address")]
Prefix = Annotated[int, schema.Rule(text="prefix length of an address; 0: none", minimum=0, maximum=128)]
Gateway = Annotated[str, schema.Rule(text="gateway of an address", pattern=ADDRESS)]
Reference = Annotated[meta.ObjectReference, schema.Rule(required=True, atomic=True)]
AddressByClaim = Annotated[dict[str, Text], schema.Rule(text="addresses by claim name")]


class Range(meta.Plain, frozen=True):
    """A range of a pool: bounds or a subnet, and the settings of its addresses."""

    start: Annotated[str, schema.Rule(text="first address", pattern=ADDRESS)] = ""
    end: Annotated[str, schema.Rule(text="last address", pattern=ADDRESS)] = ""
    subnet: Annotated[str, schema.Rule(text="limits the range, and gives default bounds", pattern=SUBNET)] = ""
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class PoolSpec(meta.Plain, frozen=True):
    """The ranges of a pool, its allocation strategy, and the settings of its addresses."""

    name_prefix: Annotated[
        str, schema.Rule(text="prefix of the names of the IPAddress objects; immutable", required=True, min_length=1)
    ] = ""
    cluster_name: Annotated[str, schema.Rule(text="Cluster of the pool")] = ""
    pools: Annotated[tuple[Range, ...], schema.Rule(text="ranges, in order of allocation")] = ()
    allocation_strategy: Annotated[
        str, schema.Rule(text="which free address a claim gets", enum=(SEQUENTIAL, RANDOM), default=SEQUENTIAL)
    ] = ""
    pre_allocations: AddressByClaim = {}
    excluded_addresses: Annotated[
        tuple[str, ...],
        schema.Rule(text="addresses, FIRST-LAST ranges and CIDRs only for pre-allocation", max_items=4096),
    ] = ()
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class PoolStatus(meta.Plain, frozen=True):
    """Status of a pool, for users; the IPAddress objects are authoritative. Counts are limited to 64-bit integers."""

    last_updated: Annotated[str, schema.Rule(text="when allocations last changed", format="date-time")] = ""
    indexes: AddressByClaim = {}
    allocations: Annotated[dict[str, Text], schema.Rule(text="addresses by claim name, including pre-allocations")] = {}
    addresses: Annotated[dict[str, str], schema.Rule(text="IPAddress objects by claim name")] = {}
    total: Annotated[int | None, schema.Rule(text="allocatable addresses of the ranges", format="int64")] = None
    used: Annotated[int | None, schema.Rule(text="addresses in use", format="int64")] = None
    free: Annotated[int | None, schema.Rule(text="addresses that any claim can get", format="int64")] = None
    waiting: Annotated[int | None, schema.Rule(text="claims without an address", format="int64")] = None
    conditions: tuple[meta.Condition, ...] = ()


class IPPool(meta.Resource, frozen=True):
    """A pool of address ranges from which claims get addresses."""

    spec: Annotated[PoolSpec, schema.Rule(required=True)] = PoolSpec()
    status: PoolStatus = PoolStatus()

    @property
    def network(self) -> str:
        """The network of a Gantry cluster that the pool is bound to, empty for none."""
        return self.metadata.annotations.get(NETWORK_ANNOTATION, "").strip()


class ClaimSpec(meta.Plain, frozen=True):
    """The pool to allocate from."""

    pool: Reference = meta.ObjectReference()
    owner: Annotated[meta.ObjectReference, schema.Rule(text="user of the address; informational", atomic=True)] = (
        meta.ObjectReference()
    )


class ClaimStatus(meta.Plain, frozen=True):
    """The address of a claim, or why it has none."""

    address: Annotated[meta.ObjectReference, schema.Rule(text="IPAddress of the claim", atomic=True)] = (
        meta.ObjectReference()
    )
    ip_address: Annotated[meta.ObjectReference, schema.Rule(text="same as address", atomic=True)] = (
        meta.ObjectReference()
    )
    error_message: Annotated[str, schema.Rule(text="why there is no address; retried automatically")] = ""
    conditions: tuple[meta.Condition, ...] = ()


class IPClaim(meta.Resource, frozen=True):
    """A request for one address of a pool."""

    spec: Annotated[ClaimSpec, schema.Rule(required=True)] = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    finalizer = CLAIM_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool of the claim."""
        return pool_ref(self.spec.pool.namespace or self.metadata.namespace, self.spec.pool.name)

    @property
    def is_ours(self) -> bool:
        """Whether the claim refers to an IPPool."""
        return self.spec.pool.kind in ("", "IPPool")

    @property
    def requested(self) -> str:
        """The address that the annotation requests, which may be invalid; empty for any."""
        return self.metadata.annotations.get(REQUEST_ANNOTATION, "")

    @property
    def cluster(self) -> str:
        """The name of the Cluster of the claim, empty for none."""
        return self.metadata.labels.get(meta.CLUSTER_LABEL, "")

    @property
    def address_name(self) -> str:
        """The name of the IPAddress in the status, from either field."""
        return self.status.address.name or self.status.ip_address.name


class AddressSpec(meta.Plain, frozen=True):
    """An address with its settings, its pool and its claim."""

    address: Annotated[str, schema.Rule(required=True, pattern=ADDRESS)] = ""
    pool: Reference = meta.ObjectReference()
    claim: Reference = meta.ObjectReference()
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class AddressStatus(meta.Plain, frozen=True):
    """Whether the address is ready."""

    ready: bool = False


class IPAddress(meta.Resource, frozen=True):
    """An address in use; it is the only record of the allocation."""

    spec: Annotated[AddressSpec, schema.Rule(required=True)] = AddressSpec()
    status: AddressStatus = AddressStatus()

    finalizer = ADDRESS_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool of the address, always in the same namespace."""
        return pool_ref(self.metadata.namespace, self.spec.pool.name)

    @property
    def claim(self) -> meta.Ref:
        """The claim that owns the address, always in the same namespace."""
        return meta.Ref(GROUP, "IPClaim", self.metadata.namespace, self.spec.claim.name)


def pool_ref(namespace: str, name: str) -> meta.Ref:
    """Return the identity of a pool."""
    return meta.Ref(GROUP, "IPPool", namespace, name)


def reference(ref: meta.Ref) -> meta.ObjectReference:
    """Return the reference to an object, by name and namespace."""
    return meta.ObjectReference(name=ref.name, namespace=ref.namespace)
