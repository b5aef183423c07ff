"""Bodies of writes: which parts take effect, and patches. Pure.

See contracts/kubernetes-api.md#updates and contracts/kubernetes-api.md#patches.
"""

import base64
from collections.abc import Callable

import msgspec

from gantry import errors
from gantry.kubernetes.api import definitions, patches, schema
from gantry.kubernetes.apiserver import content_types, managed_fields, metadata, resources, status_errors, watch_cache

Change = Callable[[schema.Json], object]
"""Returns the new object for the current one; raises StatusError."""


def in_version(target: resources.Target, item: watch_cache.Item) -> schema.Json:
    """Decode a stored object in the version of the request."""
    stored = resources.value(item.body)
    stored["apiVersion"] = target.api_version
    return stored


def with_type(target: resources.Target, body: schema.Json) -> schema.Json:
    """Return a body with its ``apiVersion`` and ``kind``; StatusError 400 if wrong, or missing and required."""
    version, kind, api_version = body.get("apiVersion"), body.get("kind"), target.api_version
    if target.definition not in resources.BUILT_IN and not kind:
        raise status_errors.bad("Object 'Kind' is missing")
    if version not in (None, "", api_version):
        raise status_errors.bad(
            f"the API version in the data ({version}) does not match the expected API version ({api_version})"
        )
    if kind not in (None, "", target.definition.kind):
        raise status_errors.bad(
            f"the kind in the data ({kind}) does not match the expected kind ({target.definition.kind})"
        )
    return {**body, "apiVersion": api_version, "kind": target.definition.kind}


def limit_update(target: resources.Target, new: schema.Json, old: schema.Json) -> schema.Json:
    """Return the new object, limited to the parts that a write to the object, or to its status, may change."""
    definition = target.definition
    if target.subresource:
        entries = metadata.of(new).get("managedFields", [])
        return {**old, "metadata": {**metadata.of(old), "managedFields": entries}, "status": new.get("status", {})}
    unwritable = ["status"] if definition.has_status else []
    if definition is resources.NAMESPACES:
        unwritable.append("spec")
    if all((key in new) == (key in old) and new.get(key) is old.get(key) for key in unwritable):
        return new
    out = {key: value for key, value in new.items() if key not in unwritable}
    return out | {key: old[key] for key in unwritable if key in old}


def limit_apply(target: resources.Target, config: schema.Json) -> schema.Json:
    """Return the parts of an applied configuration that take effect on the object, or on its status."""
    if target.subresource:
        return {"metadata": {}, "status": config.get("status", {})}
    return limit_update(target, config, {})


def changed_fields(new: schema.Json, old: schema.Json) -> set[str]:
    """Return the names of the top-level fields that a write adds, changes or removes, without metadata."""
    return {
        key for key in {**old, **new} if key != "metadata" and (key not in new or not _is_unchanged(old, key, new[key]))
    }


def unchanged_fields(new: schema.Json, old: schema.Json) -> frozenset[str]:
    """Return the names of the top-level fields that a write leaves unchanged."""
    return frozenset(key for key, value in new.items() if _is_unchanged(old, key, value))


def _is_unchanged(old: schema.Json, key: str, value: object) -> bool:
    return key in old and (old[key] is value or old[key] == value)


def is_generation_field(definition: definitions.Definition, part: str) -> bool:
    """Return whether a change of a top-level field increments the generation."""
    return part not in ("apiVersion", "kind", "metadata") and not (part == "status" and definition.has_status)


def encode_secret(secret: schema.Json) -> schema.Json:
    """Return a Secret with its write-only ``stringData`` converted into ``data``."""
    strings = content_types.json_object(secret.get("stringData") or {}, "stringData")
    data = {key: base64.b64encode(str(value).encode()).decode() for key, value in strings.items()}
    out = {"type": "Opaque", **{key: value for key, value in secret.items() if key != "stringData"}}
    return {**out, "data": {**content_types.json_object(secret.get("data") or {}, "data"), **data}} if data else out


def patch_of(kind: str, body: object, target: resources.Target) -> Change:
    """Return the change of a patch of a content type; StatusError 400, 415."""
    if kind == "application/json-patch+json":
        try:
            steps = msgspec.convert(body, list[patches.Operation])
        except msgspec.ValidationError as error:
            raise status_errors.bad(
                f"a JSON patch must be a list of operations: {errors.readable(str(error))}"
            ) from None
        return lambda old: _apply_json_patch(old, steps)
    # For the built-in kinds, a strategic merge patch has the same effect as a merge patch.
    if kind == "application/merge-patch+json" or (
        kind == "application/strategic-merge-patch+json" and target.definition in resources.BUILT_IN
    ):
        patch = content_types.json_object(body, "a merge patch")
        return lambda old: patches.merge(old, patch)
    accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    raise status_errors.StatusError(
        415, f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


def _apply_json_patch(old: schema.Json, steps: list[patches.Operation]) -> object:
    try:
        new = patches.apply_json_patch(old, steps)
    except RecursionError:
        raise status_errors.bad("the patched object is nested too deep") from None
    except errors.NoRoomError as error:
        raise status_errors.StatusError(413, error.message) from None
    except errors.WrongStateError as error:
        raise status_errors.StatusError(422, f"the server rejected our request: {error.message}") from None
    content_types.check_depth(new)
    return new


def conflict_error(conflicts: list[managed_fields.Conflict]) -> status_errors.StatusError:
    """Return the error for an apply that conflicts with other field managers."""
    count = f"{len(conflicts)} conflicts" if len(conflicts) > 1 else "1 conflict"
    lines = "\n".join(f"- {conflict}" for conflict in conflicts) if len(conflicts) > 1 else str(conflicts[0])
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{conflict.owner.manager}" using {conflict.api_version}',
            "field": conflict.field,
        }
        for conflict in conflicts
    ]
    details: schema.Json = {"causes": causes}
    return status_errors.StatusError(409, f"Apply failed with {count}: {lines}", details=details)
