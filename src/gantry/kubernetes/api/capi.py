"""IPAddressClaim and IPAddress of ``ipam.cluster.x-k8s.io``, Cluster of ``cluster.x-k8s.io`` (contract: 1.2).

v1beta1 and v1beta2 differ in what they require and not in what they say, so one struct reads both; the version that an
object came in is the one that is written back. Only the fields that claims need are here; the definitions belong
to Cluster API, whose own manifests install them.
"""

from typing import Annotated

from gantry.kubernetes.api import ipam, meta, schema

GROUP = "ipam.cluster.x-k8s.io"
CLUSTER_GROUP = "cluster.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
CLAIM_FINALIZER = "ipam.metal3.io/ipaddressclaim"
ADDRESS_FINALIZER = "ipam.metal3.io/ipaddress"
READY = "Ready"

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS = rf"^{_LABEL}(\.{_LABEL})*$"


class PoolRef(meta.Plain, frozen=True, gc=False):
    """A pool of some provider, in the namespace of the object."""

    name: Annotated[str, schema.Rule(required=True, min_length=1, max_length=253, pattern=_DNS)] = ""
    kind: Annotated[
        str,
        schema.Rule(required=True, min_length=1, max_length=63, pattern=r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"),
    ] = ""
    api_group: Annotated[
        str, schema.Rule(min_length=1, max_length=253, pattern=_DNS, lenient=("v1beta1",), default=ipam.GROUP)
    ] = ""

    @property
    def is_ours(self) -> bool:
        """Tell whether it is an IPPool of Metal3; v1beta1 let the group away."""
        return self.kind == "IPPool" and self.api_group in ("", ipam.GROUP)

    def is_same(self, other: "PoolRef") -> bool:
        """Tell whether both name one pool."""
        if self.is_ours and other.is_ours:
            return self.name == other.name
        return self == other

    def __str__(self) -> str:
        return f"{self.kind}.{self.api_group} {self.name}"


class Name(meta.Plain, frozen=True, gc=False):
    """An object in the same namespace."""

    name: Annotated[str, schema.Rule(required=True, min_length=1, max_length=253)] = ""


class ClaimSpec(meta.Plain, frozen=True):
    """Which pool an address is wanted from, and for which Cluster."""

    cluster_name: Annotated[str, schema.Rule(min_length=1, max_length=63)] = ""
    pool_ref: Annotated[PoolRef, schema.Rule(required=True)] = PoolRef()


class ClaimStatus(meta.Plain, frozen=True):
    """What a claim got, and its Ready condition."""

    address_ref: Name = Name()
    conditions: tuple[meta.Condition, ...] = ()


class IPAddressClaim(meta.Resource, frozen=True):
    """A request for one address of a pool of any provider."""

    spec: Annotated[ClaimSpec, schema.Rule(required=True)] = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    finalizer = CLAIM_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool that is asked, if it is ours."""
        return ipam.pool_ref(self.metadata.namespace, self.spec.pool_ref.name)

    @property
    def requested(self) -> str:
        """The address that it asks for by annotation, as text that may be no address; empty if any will do."""
        return self.metadata.annotations.get(ipam.REQUEST, "")

    @property
    def cluster(self) -> str:
        """The name of the Cluster that it belongs to, if it says so."""
        return self.spec.cluster_name or self.metadata.labels.get(meta.CLUSTER_LABEL, "")

    @property
    def address_name(self) -> str:
        """The name of the IPAddress that its status says."""
        return self.status.address_ref.name

    @property
    def ready(self) -> meta.Condition:
        """Its Ready condition, an empty one if it has none."""
        return next((one for one in self.status.conditions if one.type == READY), meta.Condition())

    @property
    def failure(self) -> str:
        """Why it has no address, as its Ready condition says; empty if it says nothing."""
        fails = self.ready.status == "False" and not self.address_name
        return (self.ready.message or self.ready.reason) if fails else ""


class AddressSpec(meta.Plain, frozen=True):
    """An address, what goes with it, and whose it is; there is no place for DNS servers."""

    claim_ref: Annotated[Name, schema.Rule(required=True)] = Name()
    pool_ref: Annotated[PoolRef, schema.Rule(required=True)] = PoolRef()
    address: Annotated[str, schema.Rule(required=True, min_length=1, max_length=39)] = ""
    prefix: Annotated[int, schema.Rule(required=True, minimum=0, maximum=128)] = -1
    gateway: Annotated[str, schema.Rule(min_length=1, max_length=39)] = ""


class IPAddress(meta.Resource, frozen=True):
    """An address in use, of a pool of any provider."""

    spec: Annotated[AddressSpec, schema.Rule(required=True)] = AddressSpec()

    finalizer = ADDRESS_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool that it is from, if that is ours."""
        return ipam.pool_ref(self.metadata.namespace, self.spec.pool_ref.name)

    @property
    def claim(self) -> meta.Ref:
        """The claim that has it."""
        return meta.Ref(GROUP, "IPAddressClaim", self.metadata.namespace, self.spec.claim_ref.name)


class ClusterSpec(meta.Plain, frozen=True):
    """Whether work on a Cluster rests."""

    paused: bool = False


class Cluster(meta.Resource, frozen=True):
    """A Kubernetes cluster that Cluster API manages: it owns pools, and pauses them."""

    spec: ClusterSpec = ClusterSpec()

    @property
    def rests(self) -> bool:
        """Tell whether nothing shall be done for it."""
        return self.spec.paused or self.is_paused


def cluster_ref(namespace: str, name: str) -> meta.Ref:
    """Return what a Cluster is known by."""
    return meta.Ref(CLUSTER_GROUP, "Cluster", namespace, name)
