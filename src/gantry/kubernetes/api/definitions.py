"""Resource definitions: one table of all kinds.

From it are derived the custom resource definitions of our own kinds (``manifests``), OpenAPI documents, tables,
defaults and validation. Foreign kinds are here for the embedded API server, with the fields that we read; on a real API
server their own manifests define them.
"""

import functools
from collections.abc import Iterable, Mapping

import msgspec

from gantry import errors
from gantry.kubernetes.api import capi, data, ipam, meta, schema


class Column(msgspec.Struct, frozen=True):
    """A printer column: JSON path and type."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of a group; the first of ``versions`` is the storage version.

    ``is_partial``: only some fields are known here, and unknown fields are preserved.
    """

    group: str
    kind: str
    plural: str
    resource: type[meta.Resource]
    versions: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = True
    is_namespaced: bool = True
    is_ours: bool = False
    is_partial: bool = False
    text: str = ""

    @property
    def singular(self) -> str:
        """The singular name, in lower case."""
        return self.kind.lower()

    def path(self, version: str, namespace: str = "") -> str:
        """Return the path of the collection, in all namespaces or in one."""
        root = f"/apis/{self.group}" if self.group else "/api"
        scope = f"/namespaces/{namespace}" if namespace and self.is_namespaced else ""
        return f"{root}/{version}{scope}/{self.plural}"

    def schema(self, version: str, *, without: frozenset[str] = frozenset()) -> schema.Node:
        """Return the schema of an object in a version; ``without`` leaves out top-level fields."""
        return _schema(self.resource, version, self.is_partial, without)


AGE = Column("Age", ".metadata.creationTimestamp", "date")
_METADATA = schema.Node(type="object", free=True)


@functools.cache
def _schema(resource: type[meta.Resource], version: str, is_partial: bool, without: frozenset[str]) -> schema.Node:
    if without:
        node = _schema(resource, version, is_partial, frozenset())
        remaining = {name: child for name, child in node.properties.items() if name not in without}
        return msgspec.structs.replace(node, properties=remaining)
    node = schema.of(resource, version)
    parts = dict(node.properties)
    if is_partial:
        parts = {name: _preserving(part) for name, part in parts.items()}
    # The server validates metadata itself.
    parts["metadata"] = _METADATA
    return msgspec.structs.replace(node, properties=parts, free=is_partial)


def _preserving(node: schema.Node) -> schema.Node:
    """Return the schema with each object of it open to unknown fields."""
    properties = {name: _preserving(child) for name, child in node.properties.items()}
    items = _preserving(node.items) if node.items else None
    return msgspec.structs.replace(node, properties=properties, items=items, free=node.free or bool(properties))


def _names(short: str, singular: str) -> tuple[str, ...]:
    """Return the short names of Metal3's definitions (contracts/ippool-claims.md#names)."""
    plural = f"{singular}es" if singular.endswith("s") else f"{singular}s"
    return short, singular, *(f"{stem}{name}" for stem in ("m3", "metal3") for name in (short, singular, plural))


_POOL_COLUMNS = (
    Column("Cluster", r".metadata.labels.cluster\.x-k8s\.io/cluster-name"),
    Column("Total", ".status.total", "integer"),
    Column("Used", ".status.used", "integer"),
    Column("Free", ".status.free", "integer"),
    Column("Waiting", ".status.waiting", "integer"),
    Column("Exhausted", '.status.conditions[?(@.type=="Exhausted")].status', "string", 1),
    AGE,
)
_CLAIM_COLUMNS = (
    Column("Pool", ".spec.pool.name"),
    Column("IPAddress", ".status.address.name"),
    Column("Error", ".status.errorMessage"),
    AGE,
)
_ADDRESS_COLUMNS = (
    Column("Address", ".spec.address"),
    Column("Pool", ".spec.pool.name"),
    Column("Claim", ".spec.claim.name"),
    AGE,
)
_CAPI_POOL = (
    Column("Pool Name", ".spec.poolRef.name"),
    Column("Pool Kind", ".spec.poolRef.kind"),
    AGE,
)

DEFINITIONS = (
    Definition(
        group=ipam.GROUP,
        kind="IPPool",
        plural="ippools",
        resource=ipam.IPPool,
        versions=(ipam.VERSION,),
        short_names=_names("ipp", "ippool"),
        categories=("cluster-api",),
        columns=_POOL_COLUMNS,
        is_ours=True,
        text="A pool of address ranges from which claims get addresses.",
    ),
    Definition(
        group=ipam.GROUP,
        kind="IPClaim",
        plural="ipclaims",
        resource=ipam.IPClaim,
        versions=(ipam.VERSION,),
        short_names=_names("ipc", "ipclaim"),
        categories=("cluster-api",),
        columns=_CLAIM_COLUMNS,
        is_ours=True,
        text="A request for one address of a pool.",
    ),
    Definition(
        group=ipam.GROUP,
        kind="IPAddress",
        plural="ipaddresses",
        resource=ipam.IPAddress,
        versions=(ipam.VERSION,),
        short_names=_names("ipa", "ipaddress"),
        categories=("metal3",),
        columns=_ADDRESS_COLUMNS,
        # Its status is written on creation, with the spec.
        has_status=False,
        is_ours=True,
        text="An address in use.",
    ),
    Definition(
        group=capi.GROUP,
        kind="IPAddressClaim",
        plural="ipaddressclaims",
        resource=capi.IPAddressClaim,
        versions=capi.VERSIONS,
        categories=("cluster-api",),
        columns=_CAPI_POOL,
    ),
    Definition(
        group=capi.GROUP,
        kind="IPAddress",
        plural="ipaddresses",
        resource=capi.IPAddress,
        versions=capi.VERSIONS,
        categories=("cluster-api",),
        columns=(Column("Address", ".spec.address"), *_CAPI_POOL),
        has_status=False,
    ),
    Definition(
        group=capi.CLUSTER_GROUP,
        kind="Cluster",
        plural="clusters",
        resource=capi.Cluster,
        versions=("v1beta2", "v1beta1"),
        short_names=("cl",),
        is_partial=True,
        categories=("cluster-api",),
        columns=(AGE,),
    ),
    *(
        Definition(
            group=data.GROUP,
            kind=resource.__name__,
            plural=plural,
            resource=resource,
            versions=("v1beta2", "v1beta1"),
            short_names=short,
            is_partial=True,
            categories=("cluster-api",),
            columns=(AGE,),
        )
        for resource, plural, short in (
            (data.Metal3Cluster, "metal3clusters", ("m3c", "m3cluster")),
            (data.Metal3DataTemplate, "metal3datatemplates", ("m3dt", "m3datatemplate")),
            (data.Metal3DataClaim, "metal3dataclaims", ("m3dc", "m3dataclaim")),
            (data.Metal3Data, "metal3datas", ("m3d", "m3data")),
        )
    ),
)

_BY_KIND: Mapping[tuple[str, str], Definition] = {
    (definition.group, definition.kind): definition for definition in DEFINITIONS
}
_BY_PLURAL: Mapping[tuple[str, str], Definition] = {
    (definition.group, definition.plural): definition for definition in DEFINITIONS
}


def by_kind(group: str, kind: str) -> Definition | None:
    """Return the definition of a kind, None if there is none."""
    return _BY_KIND.get((group, kind))


def by_plural(group: str, plural: str) -> Definition | None:
    """Return the definition by the plural name in a path, None if there is none."""
    return _BY_PLURAL.get((group, plural))


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""

    @property
    def resource(self) -> type[meta.Resource]:
        """The struct of the kind; InvalidError if it is unknown."""
        definition = by_kind(self.api_version.rpartition("/")[0], self.kind)
        if definition is None:
            raise errors.InvalidError(f"unknown kind {self.kind} in {self.api_version}")
        return definition.resource


_HEAD = msgspec.json.Decoder(_Head)


def read(body: object) -> meta.Resource:
    """Convert a JSON value into an object; InvalidError if the kind is unknown or a field is invalid."""
    try:
        head = msgspec.convert(body, _Head)
    except msgspec.ValidationError as error:
        raise errors.InvalidError(f"not a Kubernetes object: {errors.readable(str(error))}") from None
    return meta.read(body, head.resource)


def decode(text: bytes) -> meta.Resource:
    """Decode an object from JSON; InvalidError as ``read``."""
    try:
        head = _HEAD.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.InvalidError(f"not a Kubernetes object: {errors.readable(str(error))}") from None
    return meta.decode(text, head.resource)


def check(definition: Definition, version: str, body: schema.Json) -> Iterable[schema.Cause]:
    """Yield the violations of the schema of a kind."""
    return schema.check(definition.schema(version), body)
