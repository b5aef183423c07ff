"""Discovery: groups, versions and resources served, and their OpenAPI documents (contracts/kubernetes-api.md).

New clients request aggregated discovery, in one of two versions, and get the version they requested or the unaggregated
form; older clients request it group by group. OpenAPI documents are generated on first use.

``kubectl`` looks for a kind that it does not know among the custom resource definitions, so these can be read. They are
not in the lists of resources: none can be added.
"""

import functools
import hashlib

import msgspec

from gantry.kubernetes.api import definitions, manifests, openapi, schema
from gantry.kubernetes.apiserver import content_types, openapi_v2, resources, status_errors

VERSION: schema.Json = {
    "major": "1",
    "minor": "30",
    "gitVersion": "v1.30.0+gantry",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_AGGREGATED = ("v2", "v2beta1")
_GROUP = "apidiscovery.k8s.io"
_LIST = "APIGroupDiscoveryList"


def answer(parts: tuple[str, ...], accept: str) -> tuple[bytes, str] | None:
    """Return the document at a path and its content type, None if it is not a discovery path."""
    if parts == ("openapi", "v2"):
        types = (
            entry.kind
            for entry in content_types.accept_entries(accept)
            if entry.kind in (*openapi_v2.ACCEPTED_TYPES, "application/json", "*/*")
        )
        if next(types, "") in openapi_v2.ACCEPTED_TYPES:
            return _swagger(), openapi_v2.CONTENT_TYPE
    document = _document(parts, accept)
    return (content_types.ENCODE(document[0]), document[1]) if document else None


def _document(parts: tuple[str, ...], accept: str) -> tuple[schema.Json, str] | None:
    match parts:
        case ("version",):
            return VERSION, "application/json"
        case ("api",) | ("apis",):
            return _root(is_core=parts == ("api",), accept=accept)
        case ("api", version):
            return _resources("", version), "application/json"
        case ("apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions"):
            return _custom_resource_definitions(), "application/json"
        case ("apis", group):
            return _group(group), "application/json"
        case ("apis", group, version):
            return _resources(group, version), "application/json"
        case ("openapi", "v2"):
            return _openapi_v2(), "application/json"
        case ("openapi", "v3", *rest):
            return _openapi_v3("/".join(rest)), "application/json"
    return None


def _root(*, is_core: bool, accept: str) -> tuple[schema.Json, str]:
    for entry in content_types.accept_entries(accept):
        if entry.view == _LIST and entry.group == _GROUP and entry.version in _AGGREGATED:
            kind = f"application/json;g={_GROUP};v={entry.version};as={_LIST}"
            return _aggregated(is_core, entry.version), kind
        if not entry.view:
            break
    if is_core:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, "application/json"
    group_list = [_group(name) for name in _group_names(is_core=False)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": group_list}, "application/json"


def _group_names(*, is_core: bool) -> list[str]:
    return [
        group_name
        for group_name in dict.fromkeys(group for group, _, _ in resources.groups())
        if is_core == (group_name == "")
    ]


def _group(name: str) -> schema.Json:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for group, version, _ in resources.groups()
        if group == name and name
    ]
    if not versions:
        raise status_errors.no_resource()
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> schema.Json:
    served = [
        definition
        for group_name, group_version, members in resources.groups()
        if (group_name, group_version) == (group, version)
        for definition in members
    ]
    if not served:
        raise status_errors.no_resource()
    entries: list[schema.Json] = []
    for definition in served:
        head: schema.Json = {"name": definition.plural, "namespaced": definition.is_namespaced, "kind": definition.kind}
        names: schema.Json = {"shortNames": list(definition.short_names), "categories": list(definition.categories)}
        optional = {name: value for name, value in names.items() if value}
        entries.append({**head, "singularName": definition.singular, "verbs": list(resources.VERBS), **optional})
        if definition.has_status:
            entries.append(
                {
                    **head,
                    "name": f"{definition.plural}/status",
                    "singularName": "",
                    "verbs": list(resources.STATUS_VERBS),
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


@functools.cache
def _aggregated(is_core: bool, form: str) -> schema.Json:
    items = []
    for name in _group_names(is_core=is_core):
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(definition, version) for definition in members],
                "freshness": "Current",
            }
            for group, version, members in resources.groups()
            if group == name
        ]
        items.append({"metadata": {"name": name}, "versions": versions})
    return {"kind": _LIST, "apiVersion": f"{_GROUP}/{form}", "metadata": {}, "items": items}


def _aggregated_resource(definition: definitions.Definition, version: str) -> schema.Json:
    kind = {"group": definition.group, "version": version, "kind": definition.kind}
    out: schema.Json = {
        "resource": definition.plural,
        "responseKind": kind,
        "scope": "Namespaced" if definition.is_namespaced else "Cluster",
        "singularResource": definition.singular,
        "verbs": list(resources.VERBS),
        "shortNames": list(definition.short_names),
        "categories": list(definition.categories),
    }
    if definition.has_status:
        out["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": list(resources.STATUS_VERBS)}]
    return out


@functools.cache
def _custom_resource_definitions() -> schema.Json:
    items = [manifests.crd(definition) for definition in definitions.DEFINITIONS]
    head: schema.Json = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinitionList"}
    return {**head, "metadata": {"resourceVersion": "1"}, "items": items}


@functools.cache
def _openapi_v2() -> schema.Json:
    return openapi.whole(resources.SERVED)


@functools.cache
def _swagger() -> bytes:
    return openapi_v2.encode(_openapi_v2())


@functools.cache
def _openapi_v3(path: str) -> schema.Json:
    for group, version, members in resources.groups():
        if path == _group_path(group, version):
            return openapi.group(members, version)
    if path:
        raise status_errors.no_resource()
    paths = [_group_path(group, version) for group, version, _ in resources.groups()]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(path)}"} for path in paths}}


def _group_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _hash(path: str) -> str:
    return hashlib.sha256(msgspec.json.encode(_openapi_v3(path))).hexdigest()[:32].upper()
