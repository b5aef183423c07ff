"""Validation: prune and default an object before it is stored, and check its schema and the admission rules.

``write`` calls it for each object, with the stored object before an update. The order: unknown fields, defaults, schema
and metadata, admission. Parts that an update leaves unchanged are not checked again.

See contracts/kubernetes-api.md#invalid-objects.
"""

import itertools

from gantry import errors
from gantry.doors.http import warnings as quoting
from gantry.kubernetes.api import schema
from gantry.kubernetes.apiserver import admission, bodies, content_types, metadata, resources, status_errors, store

STRICT = "Strict"
WARN = "Warn"
IGNORE = "Ignore"
"""What happens to unknown fields: they are refused, dropped with a warning, or dropped (``fieldValidation``)."""


class Validator:
    """Checks objects for a store, with its admission rules."""

    def __init__(self, objects: store.Store, rules: admission.Admission) -> None:
        self._store = objects
        self._rules = rules

    def check(
        self,
        target: resources.Target,
        new: schema.Json,
        old: schema.Json | None,
        *,
        field_validation: str,
        warnings: list[str],
    ) -> schema.Json:
        """Return the object pruned and defaulted, if it passes validation and admission; StatusError.

        ``warnings`` gets those for the answer.
        """
        definition = target.definition
        # Unchanged parts have been validated before, and must not fail newer rules.
        unchanged = frozenset(bodies.unchanged_fields(new, old) if old else ())
        node = definition.schema(target.version, without=unchanged)
        changed = {key: value for key, value in new.items() if key not in unchanged}
        is_plain = schema.fits(node, changed)
        unknown_paths = itertools.chain(
            () if is_plain else schema.unknown_fields(node, changed), metadata.unknown_fields(metadata.of(new))
        )
        unknown = list(itertools.islice(unknown_paths, status_errors.MAX_CAUSES))
        if unknown and field_validation == STRICT:
            names = ", ".join(f"unknown field {quoting.quoted(field)}" for field in unknown)
            raise status_errors.bad(
                f'{definition.kind} in version "{target.version}" cannot be handled as a '
                f"{definition.kind}: strict decoding error: {names}"
            )
        if field_validation == WARN:
            warnings.extend(f"unknown field {quoting.quoted(field)}" for field in unknown)
        checked = new
        if not is_plain:
            changed = content_types.json_object(schema.prune(node, changed)) if unknown else changed
            changed = content_types.json_object(schema.apply_defaults(node, changed))
            checked = {**{key: value for key, value in new.items() if key in unchanged or key in changed}, **changed}
        if definition is resources.SECRETS:
            checked = bodies.encode_secret(checked)
        checked = metadata.in_stored_form(checked, metadata.of(checked))
        new_metadata = metadata.of(checked)
        before = metadata.of(old) if old else {}
        causes = [*metadata.check(definition, new_metadata, before), *(() if is_plain else schema.check(node, changed))]
        if causes:
            raise status_errors.invalid(definition, str(new_metadata.get("name", "")), causes)
        if definition not in resources.BUILT_IN and not (
            "spec" in unchanged and new_metadata.get("annotations") == before.get("annotations")
        ):
            self._review(target, checked, old, warnings=warnings)
        return checked

    def _review(
        self, target: resources.Target, new: schema.Json, old: schema.Json | None, *, warnings: list[str]
    ) -> None:
        definition, name = target.definition, str(metadata.of(new)["name"])
        try:
            causes = self._rules.review(definition, new, old)
        except errors.InvalidError as error:
            raise status_errors.unreadable(error) from None
        if causes:
            raise status_errors.invalid(definition, name, causes)
        title = status_errors.title(definition)
        if title == admission.POOLS and (old is None or old.get("spec") != new.get("spec")):
            warnings += admission.warnings(new, self._store.collection(title).items(target.namespace))
