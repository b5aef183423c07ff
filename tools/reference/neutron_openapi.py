"""The OpenAPI description of the Neutron API, from its attribute tables."""

import msgspec

import gantry
from gantry.doors.neutron import attributes, resource, resources, values

Json = dict[str, object]

TEXT: Json = {"type": "string"}
PAGING: dict[str, Json] = {
    "fields": TEXT,
    "limit": {"type": "integer", "minimum": 0},
    "marker": TEXT,
    "page_reverse": {"type": "boolean"},
    "sort_key": TEXT,
    "sort_dir": {"type": "string", "enum": ["asc", "desc"]},
    **dict.fromkeys(("tags", "tags-any", "not-tags", "not-tags-any"), TEXT),
}
ID: Json = {"name": "id", "in": "path", "required": True, "schema": TEXT}
TAG: Json = {
    "name": "tag",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "maxLength": values.TAG_LENGTH},
}
TAGS: Json = {"type": "array", "items": {"type": "string", "maxLength": values.TAG_LENGTH}}


def encoded() -> str:
    """Return the description as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(document())).decode() + "\n"


def document() -> Json:
    """Return the description."""
    paths: dict[str, Json] = {
        "/": {"get": operation("versions", "The versions")},
        "/v2.0/": {"get": operation("collections", "The collections")},
        "/v2.0/extensions": {"get": operation("extensions", "The extensions")},
        "/v2.0/extensions/{alias}": {
            "get": operation("extension", "One extension", parameters=[{**ID, "name": "alias"}])
        },
        "/v2.0/network-ip-availabilities": {"get": operation("availabilities", "The free addresses of networks")},
        "/v2.0/network-ip-availabilities/{id}": {
            "get": operation("availability", "The free addresses of a network", parameters=[ID])
        },
        "/v3": {"get": operation("identity", "The version of the identity API")},
        "/v3/projects": {
            "get": operation("projects", "The projects", parameters=[{"name": "name", "in": "query", "schema": TEXT}])
        },
        "/v3/auth/tokens": {"post": operation("token", "A token for a password", body=token_body())},
    }
    for each in resources.ALL:
        paths |= collection(each)
    fault: Json = {"type": "object", "properties": dict.fromkeys(("type", "message", "detail"), TEXT)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gantry Neutron API", "version": gantry.__version__},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {each.name: answer_schema(each.table) for each in resources.ALL} | {"fault": fault},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def collection(served: resource.Resource) -> dict[str, Json]:
    """Return the paths of a collection."""
    name, path = served.name, f"/v2.0/{served.collection}"
    reference: Json = {"$ref": f"#/components/schemas/{name}"}
    single: Json = {"type": "object", "properties": {name: reference}, "required": [name]}
    several: Json = {
        "type": "object",
        "properties": {served.collection: {"type": "array", "items": reference}},
        "required": [served.collection],
    }
    filters = {each.name: filter_schema(each) for each in served.table.values() if each.filter}
    query: list[Json] = [
        {"name": key, "in": "query", "schema": schema, "style": "form", "explode": True}
        for key, schema in {**PAGING, **filters}.items()
    ]
    fields: Json = {"name": "fields", "in": "query", "schema": TEXT}
    new = {**single, "properties": {name: body(served.table, post=True)}}
    many = {
        **several,
        "properties": {served.collection: {"type": "array", "items": body(served.table, post=True), "minItems": 1}},
    }
    changed = {**single, "properties": {name: body(served.table, post=False)}}
    tags: Json = {"type": "object", "properties": {"tags": TAGS}, "required": ["tags"]}
    return {
        path: {
            "get": operation(f"list {name}", f"Lists each {served.title}", parameters=query, answer=several),
            "post": operation(
                f"create {name}", f"Creates a {served.title}", body={"anyOf": [new, many]}, answer=single
            ),
        },
        path + "/{id}": {
            "get": operation(f"show {name}", f"Shows a {served.title}", parameters=[ID, fields], answer=single),
            "put": operation(
                f"update {name}", f"Changes a {served.title}", parameters=[ID], body=changed, answer=single
            ),
            "delete": operation(f"delete {name}", f"Removes a {served.title}", parameters=[ID]),
        },
        path + "/{id}/tags": {
            "get": operation(f"list tags of {name}", "Lists its tags", parameters=[ID], answer=tags),
            "put": operation(f"replace tags of {name}", "Replaces its tags", parameters=[ID], body=tags, answer=tags),
            "post": operation(f"add tags of {name}", "Adds tags", parameters=[ID], body=tags, answer=tags),
            "delete": operation(f"remove tags of {name}", "Removes its tags", parameters=[ID]),
        },
        path + "/{id}/tags/{tag}": {
            method: operation(f"{method} tag of {name}", f"{word} a tag", parameters=[ID, TAG])
            for method, word in (("get", "Finds"), ("put", "Adds"), ("delete", "Removes"))
        },
    }


def operation(
    name: str,
    summary: str,
    *,
    parameters: list[Json] | None = None,
    body: Json | None = None,
    answer: Json | None = None,
) -> Json:
    """Return an operation; an answer without a schema may be anything."""
    content: Json = {"application/json": {"schema": answer or {}}}
    fault: Json = {"$ref": "#/components/schemas/fault"}
    wrapped: Json = {"anyOf": [{"type": "object", "properties": {"NeutronError": fault}}, {"type": "object"}]}
    out: Json = {
        "operationId": name,
        "summary": summary,
        "parameters": parameters or [],
        "responses": {
            "2XX": {"description": "The answer", "content": content},
            "default": {"description": "The request failed", "content": {"application/json": {"schema": wrapped}}},
        },
    }
    return out | (
        {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}} if body else {}
    )


def token_body() -> Json:
    """Return the schema of a request for a token."""
    named: Json = {"type": "object", "properties": {"id": TEXT, "name": TEXT, "password": TEXT}}
    user: Json = {"type": "object", "properties": {"user": named}, "required": ["user"]}
    identity: Json = {
        "type": "object",
        "properties": {"methods": {"type": "array", "items": TEXT}, "password": user},
        "required": ["methods", "password"],
    }
    scope: Json = {"type": "object", "properties": {"project": named}}
    auth: Json = {"type": "object", "properties": {"identity": identity, "scope": scope}, "required": ["identity"]}
    return {"type": "object", "properties": {"auth": auth}, "required": ["auth"]}


def body(table: attributes.Table, *, post: bool) -> Json:
    """Return the schema of an object in a request."""
    settable = [each for each in table.values() if (each.post if post else each.put)]
    required = [each.name for each in settable if post and each.default is attributes.REQUIRED]
    return {
        "type": "object",
        "properties": {each.name: schema(each) for each in settable},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def answer_schema(table: attributes.Table) -> Json:
    """Return the schema of an object in an answer."""
    return {
        "type": "object",
        "properties": {each.name: {"description": each.text} for each in table.values() if each.listed},
    }


def schema(attribute: attributes.Attribute) -> Json:
    """Return the schema of an attribute in a request."""
    known = values.schema(attribute.validate) or values.schema(attribute.convert)
    return {"description": attribute.text, **known}


def filter_schema(attribute: attributes.Attribute) -> Json:
    """Return the schema of an attribute as a filter of a list."""
    kind = values.schema(attribute.convert).get("type")
    return {"type": kind if kind in ("boolean", "integer") else "string"}
