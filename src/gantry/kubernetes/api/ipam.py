"""IPPool, IPClaim and IPAddress of ``ipam.metal3.io/v1alpha1`` (claims seed; contract: kubernetes 1.2).

Both spellings of what has changed since the seed are read and written: a pool's ``status.allocations`` (seed: with
what is allocated in advance) beside ``indexes`` (today: only what exists), a claim's ``status.ipAddress`` beside
``address``. What other definitions do not know (``excludedAddresses``, ``owner``, an address's ``status``, counts and
conditions of a pool) their servers drop; nothing relies on it.
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

REQUEST = "ipAddress"
"""The annotation of a claim that asks for an address."""

NETWORK = "gantry/network"
"""The annotation of a pool that names the network of a Gantry cluster which its addresses are of."""

SEQUENTIAL = "sequential"
RANDOM = "random"

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_V4 = rf"({_OCTET}\.){{3}}{_OCTET}"
_H = "[0-9a-fA-F]{1,4}"
_V6 = "|".join(
    [
        f"({_H}:){{7}}{_H}",
        f"({_H}:){{1,7}}:",
        *(f"({_H}:){{1,{left}}}(:{_H}){{1,{7 - left}}}" for left in range(6, 0, -1)),
        f":((:{_H}){{1,7}}|:)",
    ]
)
ADDRESS = f"^({_V4}|{_V6})$"
SUBNET = f"^({_V4}/([0-9]|[12][0-9]|3[0-2])|({_V6})/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))$"

Text = Annotated[str, schema.Rule(pattern=ADDRESS)]
Servers = Annotated[tuple[Text, ...], schema.Rule(text="DNS servers that go with an address")]
Prefix = Annotated[int, schema.Rule(text="prefix length that goes with an address; 0 is none", minimum=0, maximum=128)]
Gateway = Annotated[str, schema.Rule(text="gateway that goes with an address", pattern=ADDRESS)]
Reference = Annotated[meta.ObjectReference, schema.Rule(required=True, atomic=True)]
Given = Annotated[dict[str, Text], schema.Rule(text="addresses by the name of the claim")]


class Range(meta.Plain, frozen=True):
    """One of the ranges of a pool: bounds, or the subnet that gives them, and what goes with its addresses."""

    start: Annotated[str, schema.Rule(text="first address", pattern=ADDRESS)] = ""
    end: Annotated[str, schema.Rule(text="last address", pattern=ADDRESS)] = ""
    subnet: Annotated[str, schema.Rule(text="checks the bounds, and stands for those not given", pattern=SUBNET)] = ""
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class PoolSpec(meta.Plain, frozen=True):
    """What a pool hands out, how, and what goes with it."""

    name_prefix: Annotated[
        str, schema.Rule(text="begins the names of the addresses; it stays the same", required=True, min_length=1)
    ] = ""
    cluster_name: Annotated[str, schema.Rule(text="Cluster that the pool belongs to")] = ""
    pools: Annotated[tuple[Range, ...], schema.Rule(text="ranges, in the order of their use")] = ()
    allocation_strategy: Annotated[
        str, schema.Rule(text="which free address a claim gets", enum=(SEQUENTIAL, RANDOM), default=SEQUENTIAL)
    ] = ""
    pre_allocations: Given = {}
    excluded_addresses: Annotated[
        tuple[str, ...],
        schema.Rule(text="addresses, FIRST-LAST ranges and CIDRs that no claim gets by itself", max_items=4096),
    ] = ()
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class PoolStatus(meta.Plain, frozen=True):
    """What has become of a pool; the addresses are the truth. Counts end at the largest 64-bit integer."""

    last_updated: Annotated[str, schema.Rule(text="when allocations last changed", format="date-time")] = ""
    indexes: Given = {}
    allocations: Annotated[
        dict[str, Text], schema.Rule(text="addresses by the name of the claim, those allocated in advance included")
    ] = {}
    addresses: Annotated[dict[str, str], schema.Rule(text="IPAddress objects by the name of the claim")] = {}
    total: Annotated[int | None, schema.Rule(text="addresses that the ranges can hand out", format="int64")] = None
    used: Annotated[int | None, schema.Rule(text="those in use", format="int64")] = None
    free: Annotated[int | None, schema.Rule(text="those that any claim can get", format="int64")] = None
    waiting: Annotated[int | None, schema.Rule(text="claims without an address", format="int64")] = None
    conditions: tuple[meta.Condition, ...] = ()


class IPPool(meta.Resource, frozen=True):
    """Ranges of addresses that claims get theirs from."""

    spec: Annotated[PoolSpec, schema.Rule(required=True)] = PoolSpec()
    status: PoolStatus = PoolStatus()

    @property
    def network(self) -> str:
        """The network of a cluster that the pool is bound to, empty for none."""
        return self.metadata.annotations.get(NETWORK, "").strip()


class ClaimSpec(meta.Plain, frozen=True):
    """Which pool an address is wanted from."""

    pool: Reference = meta.ObjectReference()
    owner: Annotated[meta.ObjectReference, schema.Rule(text="whom the claim is for; a note", atomic=True)] = (
        meta.ObjectReference()
    )


class ClaimStatus(meta.Plain, frozen=True):
    """What a claim got, or why it has nothing yet."""

    address: Annotated[meta.ObjectReference, schema.Rule(text="IPAddress that the claim got", atomic=True)] = (
        meta.ObjectReference()
    )
    ip_address: Annotated[meta.ObjectReference, schema.Rule(text="the same", atomic=True)] = meta.ObjectReference()
    error_message: Annotated[str, schema.Rule(text="why it has none; it is served by itself when it can be")] = ""


class IPClaim(meta.Resource, frozen=True):
    """A request for one address of a pool."""

    spec: Annotated[ClaimSpec, schema.Rule(required=True)] = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    finalizer = CLAIM_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool that is asked."""
        return pool_ref(self.spec.pool.namespace or self.metadata.namespace, self.spec.pool.name)

    @property
    def is_ours(self) -> bool:
        """Tell whether it asks a pool of this kind."""
        return self.spec.pool.kind in ("", "IPPool")

    @property
    def requested(self) -> str:
        """The address that it asks for by annotation, as text that may be no address; empty if any will do."""
        return self.metadata.annotations.get(REQUEST, "")

    @property
    def cluster(self) -> str:
        """The name of the Cluster that it belongs to, if it says so."""
        return self.metadata.labels.get(meta.CLUSTER_LABEL, "")

    @property
    def address_name(self) -> str:
        """The name of the IPAddress that its status says, in either spelling."""
        return self.status.address.name or self.status.ip_address.name


class AddressSpec(meta.Plain, frozen=True):
    """An address, what goes with it, and whose it is."""

    address: Annotated[str, schema.Rule(required=True, pattern=ADDRESS)] = ""
    pool: Reference = meta.ObjectReference()
    claim: Reference = meta.ObjectReference()
    prefix: Prefix = 0
    gateway: Gateway = ""
    dns_servers: Servers = ()


class AddressStatus(meta.Plain, frozen=True):
    """Whether the address can be used."""

    ready: bool = False


class IPAddress(meta.Resource, frozen=True):
    """An address in use: the only record of it."""

    spec: Annotated[AddressSpec, schema.Rule(required=True)] = AddressSpec()
    status: AddressStatus = AddressStatus()

    finalizer = ADDRESS_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool that it is from, in its own namespace: nobody gives addresses to, or takes them from, another."""
        return pool_ref(self.metadata.namespace, self.spec.pool.name)

    @property
    def claim(self) -> meta.Ref:
        """The claim that has it, in its own namespace."""
        return meta.Ref(GROUP, "IPClaim", self.metadata.namespace, self.spec.claim.name)


def pool_ref(namespace: str, name: str) -> meta.Ref:
    """Return what a pool is known by."""
    return meta.Ref(GROUP, "IPPool", namespace, name)


def reference(ref: meta.Ref) -> meta.ObjectReference:
    """Return a reference as the fields of these kinds have it: name and namespace."""
    return meta.ObjectReference(name=ref.name, namespace=ref.namespace)
