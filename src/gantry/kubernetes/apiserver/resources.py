"""Resources served: the kinds of the definitions, and the Kubernetes kinds that these need.

Namespaces for all objects, Events of controllers, Secrets for rendered templates, Leases for leader election, machines
and hosts for templates. Of these the server knows only the fields that it uses, and preserves all others.
"""

from collections.abc import Iterator, Mapping

import msgspec

from gantry.kubernetes.api import capi, data, definitions, meta, schema
from gantry.kubernetes.apiserver import status_errors

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")
DEFAULT_NAMESPACES = ("default", "kube-system")


class Namespace(meta.Resource, frozen=True):
    """A namespace."""


class Event(meta.Resource, frozen=True):
    """An Event of a controller about an object; removed after an hour."""


class Secret(meta.Resource, frozen=True):
    """A Secret."""


class Lease(meta.Resource, frozen=True):
    """A Lease for leader election."""


class Machine(meta.Resource, frozen=True):
    """A machine of a Cluster; templates use its name, labels and annotations."""


class Metal3Machine(meta.Resource, frozen=True):
    """The link between a machine and its host."""


_AGE = definitions.AGE
NAMESPACES = definitions.Definition(
    group="",
    kind="Namespace",
    plural="namespaces",
    resource=Namespace,
    versions=("v1",),
    short_names=("ns",),
    columns=(definitions.Column("Status", ".status.phase"), _AGE),
    is_namespaced=False,
    is_partial=True,
)
EVENTS = definitions.Definition(
    group="",
    kind="Event",
    plural="events",
    resource=Event,
    versions=("v1",),
    short_names=("ev",),
    columns=(
        definitions.Column("Last Seen", ".lastTimestamp", "date"),
        definitions.Column("Type", ".type"),
        definitions.Column("Reason", ".reason"),
        definitions.Column("Kind", ".involvedObject.kind"),
        definitions.Column("Object", ".involvedObject.name"),
        definitions.Column("Message", ".message"),
    ),
    has_status=False,
    is_partial=True,
)
SECRETS = definitions.Definition(
    group="",
    kind="Secret",
    plural="secrets",
    resource=Secret,
    versions=("v1",),
    columns=(definitions.Column("Type", ".type"), _AGE),
    has_status=False,
    is_partial=True,
)
BUILT_IN = (
    NAMESPACES,
    EVENTS,
    SECRETS,
    definitions.Definition(
        group="coordination.k8s.io",
        kind="Lease",
        plural="leases",
        resource=Lease,
        versions=("v1",),
        columns=(definitions.Column("Holder", ".spec.holderIdentity"), _AGE),
        has_status=False,
        is_partial=True,
    ),
)
MACHINES = tuple(
    definitions.Definition(
        group=group,
        kind=resource.__name__,
        plural=f"{resource.__name__.lower()}s",
        resource=resource,
        versions=versions,
        short_names=short,
        categories=("cluster-api",),
        columns=(_AGE,),
        is_partial=True,
    )
    for resource, group, versions, short in (
        (Machine, capi.CLUSTER_GROUP, ("v1beta2", "v1beta1"), ("ma",)),
        (Metal3Machine, data.GROUP, ("v1beta2", "v1beta1"), ("m3m",)),
        (data.BareMetalHost, data.HOST_GROUP, ("v1alpha1",), ("bmh",)),
    )
)
SERVED = (*BUILT_IN, *definitions.DEFINITIONS, *MACHINES)

_VALUE = msgspec.json.Decoder(schema.Json)
_BY_PLURAL: Mapping[tuple[str, str], definitions.Definition] = {
    (definition.group, definition.plural): definition for definition in SERVED
}
_KINDS = {(definition.group, definition.kind) for definition in SERVED}


class Target(msgspec.Struct, frozen=True):
    """The target of a request path: a collection, an object, or its status."""

    definition: definitions.Definition
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of the request."""
        return api_version(self.definition, self.version)


def api_version(definition: definitions.Definition, version: str = "") -> str:
    """Return the ``apiVersion`` of a kind, by default of the storage version."""
    version = version or definition.versions[0]
    return f"{definition.group}/{version}" if definition.group else version


def is_served(group: str, kind: str) -> bool:
    """Return whether a kind is served."""
    return (group, kind) in _KINDS


def groups() -> Iterator[tuple[str, str, list[definitions.Definition]]]:
    """Yield each group and version with its definitions, the preferred version of a group first."""
    for group in dict.fromkeys(definition.group for definition in SERVED):
        members = [definition for definition in SERVED if definition.group == group]
        for version in dict.fromkeys(version for definition in members for version in definition.versions):
            yield group, version, [definition for definition in members if version in definition.versions]


def resolve(group: str, version: str, segments: tuple[str, ...]) -> Target:
    """Resolve the part of a path after the version; StatusError 404 if nothing is served there."""
    namespace = ""
    if segments[:1] == ("namespaces",) and len(segments) > 2 and segments[2:] not in (("status",), ("finalize",)):
        namespace, segments = segments[1], segments[2:]
    plural, name, subresource = (*segments, "", "", "")[:3]
    definition = _BY_PLURAL.get((group, plural))
    if definition is None or version not in definition.versions or len(segments) > 3:
        raise status_errors.no_resource()
    if bool(namespace) > definition.is_namespaced or (name and definition.is_namespaced and not namespace):
        raise status_errors.no_resource()
    if subresource and not (subresource == "status" and definition.has_status):
        raise status_errors.no_resource()
    return Target(definition, version, namespace, name, subresource)


def by_title(title: str) -> definitions.Definition:
    """Return the definition of a collection by its title; KeyError."""
    plural, _, group = title.partition(".")
    return _BY_PLURAL[group, plural]


def value(body: bytes) -> schema.Json:
    """Decode a stored object."""
    return _VALUE.decode(body)
