"""Discovery: groups, versions and resources served, and their OpenAPI documents (contract: kubernetes 3.4).

New clients request aggregated discovery, in one of two versions, and get the version they requested or the unaggregated
form; older clients request it group by group. OpenAPI documents are generated on first use.
"""

import functools
import hashlib

import msgspec

from gantry.kubernetes.api import definitions, openapi, schema
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
        known = (
            one.kind
            for one in content_types.accept_entries(accept)
            if one.kind in (*openapi_v2.ACCEPTED_TYPES, "application/json", "*/*")
        )
        if next(known, "") in openapi_v2.ACCEPTED_TYPES:
            return _swagger(), openapi_v2.CONTENT_TYPE
    found = _document(parts, accept)
    return (content_types.ENCODE(found[0]), found[1]) if found else None


def _document(parts: tuple[str, ...], accept: str) -> tuple[schema.Json, str] | None:
    match parts:
        case ("version",):
            return VERSION, "application/json"
        case ("api",) | ("apis",):
            return _root(is_core=parts == ("api",), accept=accept)
        case ("api", version):
            return _resources("", version), "application/json"
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
    for one in content_types.accept_entries(accept):
        if one.view == _LIST and one.group == _GROUP and one.version in _AGGREGATED:
            kind = f"application/json;g={_GROUP};v={one.version};as={_LIST}"
            return _aggregated(is_core, one.version), kind
        if not one.view:
            break
    if is_core:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, "application/json"
    listed = [_group(name) for name in _group_names(is_core=False)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}, "application/json"


def _group_names(*, is_core: bool) -> list[str]:
    return [one for one in dict.fromkeys(group for group, _, _ in resources.groups()) if is_core == (one == "")]


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
    listed = [one for its, of, members in resources.groups() if (its, of) == (group, version) for one in members]
    if not listed:
        raise status_errors.no_resource()
    said: list[schema.Json] = []
    for one in listed:
        head: schema.Json = {"name": one.plural, "namespaced": one.is_namespaced, "kind": one.kind}
        names: schema.Json = {"shortNames": list(one.short_names), "categories": list(one.categories)}
        more = {name: value for name, value in names.items() if value}
        said.append({**head, "singularName": one.singular, "verbs": list(resources.VERBS), **more})
        if one.has_status:
            said.append(
                {**head, "name": f"{one.plural}/status", "singularName": "", "verbs": list(resources.STATUS_VERBS)}
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": said,
    }


@functools.cache
def _aggregated(is_core: bool, form: str) -> schema.Json:
    items = []
    for name in _group_names(is_core=is_core):
        versions = [
            {
                "version": version,
                "resources": [_aggregated_resource(one, version) for one in members],
                "freshness": "Current",
            }
            for group, version, members in resources.groups()
            if group == name
        ]
        items.append({"metadata": {"name": name}, "versions": versions})
    return {"kind": _LIST, "apiVersion": f"{_GROUP}/{form}", "metadata": {}, "items": items}


def _aggregated_resource(one: definitions.Definition, version: str) -> schema.Json:
    kind = {"group": one.group, "version": version, "kind": one.kind}
    out: schema.Json = {
        "resource": one.plural,
        "responseKind": kind,
        "scope": "Namespaced" if one.is_namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": list(resources.VERBS),
        "shortNames": list(one.short_names),
        "categories": list(one.categories),
    }
    if one.has_status:
        out["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": list(resources.STATUS_VERBS)}]
    return out


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
    listed = [_group_path(group, version) for group, version, _ in resources.groups()]
    return {"paths": {one: {"serverRelativeURL": f"/openapi/v3/{one}?hash={_hash(one)}"} for one in listed}}


def _group_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _hash(path: str) -> str:
    return hashlib.sha256(msgspec.json.encode(_openapi_v3(path))).hexdigest()[:32].upper()
