"""IPAddressClaim and IPAddress of ``ipam.cluster.x-k8s.io``, Cluster of ``cluster.x-k8s.io``.

v1beta1 and v1beta2 have the same fields and differ only in which are required, so one struct reads both; an object is
written back in the version in which it was read. Only the fields that claims need are here; the definitions belong to
Cluster API, whose own manifests install them.

See contracts/ippool-claims.md#kinds-of-cluster-api.
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
    """A pool of any provider, in the namespace of the object."""

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
        """Whether it is an IPPool of Metal3; in v1beta1 the group may be missing."""
        return self.kind == "IPPool" and self.api_group in ("", ipam.GROUP)

    def is_same(self, ref: "PoolRef") -> bool:
        """Return whether both refer to the same pool."""
        if self.is_ours and ref.is_ours:
            return self.name == ref.name
        return self == ref

    def __str__(self) -> str:
        return f"{self.kind}.{self.api_group} {self.name}"


class Name(meta.Plain, frozen=True, gc=False):
    """A reference to an object in the same namespace."""

    name: Annotated[str, schema.Rule(required=True, min_length=1, max_length=253)] = ""


class ClaimSpec(meta.Plain, frozen=True):
    """The pool to allocate from, and the Cluster of the claim."""

    cluster_name: Annotated[str, schema.Rule(min_length=1, max_length=63)] = ""
    pool_ref: Annotated[PoolRef, schema.Rule(required=True)] = PoolRef()


class ClaimStatus(meta.Plain, frozen=True):
    """The address of a claim, and its Ready condition."""

    address_ref: Name = Name()
    conditions: tuple[meta.Condition, ...] = ()


class IPAddressClaim(meta.Resource, frozen=True):
    """A request for one address of a pool of any provider."""

    spec: Annotated[ClaimSpec, schema.Rule(required=True)] = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    finalizer = CLAIM_FINALIZER

    @property
    def pool(self) -> meta.Ref:
        """The pool of the claim, if it is an IPPool (``PoolRef.is_ours``)."""
        return ipam.pool_ref(self.metadata.namespace, self.spec.pool_ref.name)

    @property
    def requested(self) -> str:
        """The address that the annotation requests, which may be invalid; empty for any."""
        return self.metadata.annotations.get(ipam.REQUEST_ANNOTATION, "")

    @property
    def cluster(self) -> str:
        """The name of the Cluster of the claim, empty for none."""
        return self.spec.cluster_name or self.metadata.labels.get(meta.CLUSTER_LABEL, "")

    @property
    def address_name(self) -> str:
        """The name of the IPAddress in the status."""
        return self.status.address_ref.name

    @property
    def ready(self) -> meta.Condition:
        """The Ready condition, an empty one if there is none."""
        return next((condition for condition in self.status.conditions if condition.type == READY), meta.Condition())

    @property
    def failure(self) -> str:
        """Why the claim has no address, from its Ready condition; empty if unknown."""
        fails = self.ready.status == "False" and not self.address_name
        return (self.ready.message or self.ready.reason) if fails else ""


class AddressSpec(meta.Plain, frozen=True):
    """An address with its settings, its claim and its pool; Cluster API has no field for DNS servers."""

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
        """The pool of the address, if it is an IPPool (``PoolRef.is_ours``)."""
        return ipam.pool_ref(self.metadata.namespace, self.spec.pool_ref.name)

    @property
    def claim(self) -> meta.Ref:
        """The claim that owns the address."""
        return meta.Ref(GROUP, "IPAddressClaim", self.metadata.namespace, self.spec.claim_ref.name)


class InfrastructureRef(meta.Plain, frozen=True, gc=False):
    """The object of the provider that a Cluster is built by, in the namespace of the Cluster."""

    kind: str = ""
    name: str = ""


class ClusterSpec(meta.Plain, frozen=True):
    """The spec of a Cluster, as far as it is read."""

    paused: bool = False
    infrastructure_ref: InfrastructureRef = InfrastructureRef()


class Cluster(meta.Resource, frozen=True):
    """A Kubernetes cluster that Cluster API manages; its pools and claims are paused with it."""

    spec: ClusterSpec = ClusterSpec()

    @property
    def is_cluster_paused(self) -> bool:
        """Whether the Cluster is paused, by its spec or by the annotation."""
        return self.spec.paused or self.is_paused


def cluster_ref(namespace: str, name: str) -> meta.Ref:
    """Return the identity of a Cluster."""
    return meta.Ref(CLUSTER_GROUP, "Cluster", namespace, name)
