"""OpenAPI documents, which clients use for validation, apply and ``kubectl explain`` (contracts/kubernetes-api.md).

The embedded API server calls it. ``group`` returns a document of version 3 for a group and version, ``whole`` the one
of version 2 for older clients. Both are generated from the definitions, with only what clients need: the schemas with
their kinds, and the paths of writes with their parameters, which show the features of the server.
"""

from collections.abc import Iterable

from gantry.kubernetes.api import definitions, schema

INFO: schema.Json = {"title": "Kubernetes", "version": "v1.30.0"}
_METHODS = ("post", "put", "patch")
_QUERY_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def name_of(definition: definitions.Definition, version: str) -> str:
    """Return the schema name of a kind: reversed group, version and kind."""
    backwards = ".".join(reversed(definition.group.split(".")))
    return f"{backwards}.{version}.{definition.kind}"


def group(kinds: Iterable[definitions.Definition], version: str) -> schema.Json:
    """Return the OpenAPI 3 document of a group and version with these definitions."""
    served = list(kinds)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": {
            path: item
            for definition in served
            for path, item in _paths(definition, version, "#/components/schemas/").items()
        },
        "components": {"schemas": {name_of(definition, version): _model(definition, version) for definition in served}},
    }


def whole(kinds: Iterable[definitions.Definition]) -> schema.Json:
    """Return the OpenAPI 2 document of all definitions."""
    pairs = [(definition, version) for definition in kinds for version in definition.versions]
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": {
            path: item for definition, version in pairs for path, item in _paths(definition, version, "").items()
        },
        "definitions": {name_of(definition, version): _model(definition, version) for definition, version in pairs},
    }


def _kind(definition: definitions.Definition, version: str) -> schema.Json:
    return {"group": definition.group, "version": version, "kind": definition.kind}


def _model(definition: definitions.Definition, version: str) -> schema.Json:
    described = schema.to_openapi(definition.schema(version))
    return {
        **described,
        "description": definition.text or definition.kind,
        "x-kubernetes-group-version-kind": [_kind(definition, version)],
    }


def _paths(definition: definitions.Definition, version: str, schemas: str) -> schema.Json:
    """Return the paths of collection, object, status; ``schemas`` prefixes references, and is empty for version 2."""
    collection = definition.path(version, "{namespace}")
    item_path = f"{collection}/{{name}}"
    out: schema.Json = {
        collection: {"post": _method(definition, version, "post", schemas)},
        item_path: {method: _method(definition, version, method, schemas) for method in _METHODS[1:]},
    }
    if definition.has_status:
        out[f"{item_path}/status"] = out[item_path]
    return out


def _method(definition: definitions.Definition, version: str, method: str, schemas: str) -> schema.Json:
    text: schema.Json = {"type": "string"}
    parameters: list[schema.Json] = [
        {"name": name, "in": "query", **({"schema": text} if schemas else text)} for name in _QUERY_PARAMETERS
    ]
    out: schema.Json = {
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": _kind(definition, version),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
    model = name_of(definition, version)
    if schemas:
        content = {"application/json": {"schema": {"$ref": f"{schemas}{model}"}}}
        return {**out, "requestBody": {"content": content}}
    parameters.append({"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{model}"}})
    return out
