"""Write: create, update, patch, apply and delete.

The application calls it with a target and a body, and so does the garbage collector. A write is based on the state
after all pending writes, and does not yield before it is itself pending, so no two writes are based on the same state.
The order: metadata set by the server, validation (``validation``), managed fields, store; a dry run ends before the
store.

Invariant: a stored object has passed its schema and the admission rules in the version in which it was written.

See contracts/kubernetes-api.md#create, contracts/kubernetes-api.md#updates and contracts/kubernetes-api.md#deletion.
"""

import datetime
import functools
from collections.abc import Callable

import msgspec

from gantry.kubernetes.api import meta, schema
from gantry.kubernetes.apiserver import (
    admission,
    bodies,
    content_types,
    managed_fields,
    metadata,
    resources,
    status_errors,
    store,
    validation,
    watch_cache,
)
from gantry.runtime import interface

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
_MAX_GENERATE_ATTEMPTS = 8
"""Number of names generated from a ``generateName`` before AlreadyExists is answered."""


class Options(msgspec.Struct):
    """Options of a write; ``warnings`` are collected for the answer."""

    manager: str = ""
    dry_run: bool = False
    field_validation: str = validation.WARN
    force: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)


class Deletion(msgspec.Struct, rename="camel"):
    """DeleteOptions, with the fields that have an effect."""

    class Preconditions(msgspec.Struct, rename="camel"):
        """Preconditions of a delete."""

        uid: str | None = None
        resource_version: str | None = None

    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class Writer:
    """Writes objects to a store."""

    def __init__(self, runtime: interface.Runtime, objects: store.Store, rules: admission.Admission) -> None:
        self._clock = runtime.clock
        self._random = runtime.random
        self._store = objects
        self._validator = validation.Validator(objects, rules)

    async def create(self, target: resources.Target, body: schema.Json, options: Options) -> bytes:
        """Create an object and return it; StatusError."""
        requested = metadata.read(body)
        prefix = requested.get("generateName")
        if requested.get("name") or not prefix:
            return await self._create(target, body, requested, options)
        for _ in range(_MAX_GENERATE_ATTEMPTS - 1):
            named = {**requested, "name": metadata.generate_name(str(prefix), self._random.below)}
            try:
                return await self._create(target, body, named, options)
            except status_errors.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        return await self._create(target, body, named, options)

    async def _create(
        self,
        target: resources.Target,
        body: schema.Json,
        requested: schema.Json,
        options: Options,
        *,
        operation: str = managed_fields.UPDATE,
    ) -> bytes:
        definition, name = target.definition, str(requested.get("name", ""))
        located = self._with_namespace(target, requested)
        if requested.get("resourceVersion"):
            raise status_errors.bad("resourceVersion should not be set on objects to be created")
        self._check_namespace(target, name)
        complete = metadata.for_create(located, uid=self._random.uuid(), now=self._now())
        new = {**bodies.with_type(target, body), "metadata": complete}
        if definition.has_status:
            new.pop("status", None)
        if definition is resources.NAMESPACES:
            new |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        checked = self._checked(target, new, None, options)
        existing = self._store.current(_object_key(target, name))
        if existing:
            raise status_errors.exists(definition, name, is_deleting=existing.is_deleting)
        written = body if operation == managed_fields.APPLY else checked
        owned = managed_fields.after_update(
            requested.get("managedFields"),
            {},
            written,
            owner=_field_manager(target, options, operation),
            api_version=target.api_version,
            now=self._now(),
        )
        return await self._store_object(target, checked, owned, options)

    async def update(self, target: resources.Target, body: schema.Json, options: Options) -> bytes:
        """Replace an object, or its status, and return it; StatusError."""
        requested = metadata.read(body)
        name = requested.get("name", target.name)
        if name != target.name:
            raise status_errors.bad(
                f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            )
        if not requested.get("resourceVersion") and target.definition not in resources.BUILT_IN:
            cause = schema.Cause(
                schema.INVALID, "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update"
            )
            raise status_errors.invalid(target.definition, target.name, [cause])
        return await self.change(target, lambda old: body, options)

    async def change(self, target: resources.Target, change: bodies.Change, options: Options) -> bytes:
        """Change an object, or its status, by a function, and return it; StatusError."""
        item = self._existing(target)
        old = bodies.in_version(target, item)
        body = content_types.json_object(change(old), "the object")
        requested = metadata.read(body, metadata.of(old))
        self._check_identity(target, requested, item)
        located = metadata.for_update(self._with_namespace(target, requested), metadata.of(old))
        located["name"] = target.name
        new = bodies.limit_update(target, {**bodies.with_type(target, body), "metadata": located}, old)
        entries = metadata.of(new).get("managedFields")
        owner, version = _field_manager(target, options), target.api_version
        return await self._replace(
            target,
            item,
            old,
            new,
            options,
            owned=lambda checked: managed_fields.after_update(
                entries, old, checked, owner=owner, api_version=version, now=self._now()
            ),
        )

    async def apply(self, target: resources.Target, config: schema.Json, options: Options) -> tuple[bytes, bool]:
        """Server-side apply; return the object, and whether it was created; StatusError."""
        requested = metadata.read(config)
        if requested.get("managedFields"):
            raise status_errors.bad("metadata.managedFields must be nil")
        if requested.get("name", target.name) != target.name:
            raise status_errors.bad(
                f"the name of the object ({requested['name']}) does not match the name on the URL ({target.name})"
            )
        config = {**bodies.with_type(target, config), "metadata": {**requested, "name": target.name}}
        owner = _field_manager(target, options, managed_fields.APPLY)
        item = self._store.current(_object_key(target, target.name))
        if item is None:
            if target.subresource:
                raise status_errors.missing(target.definition, target.name)
            config = bodies.limit_apply(target, config)
            return await self._create(
                target, config, metadata.of(config), options, operation=managed_fields.APPLY
            ), True
        self._check_identity(target, requested, item)
        old = bodies.in_version(target, item)
        config = bodies.limit_apply(target, config)
        entries = managed_fields.read(old)
        conflicts = managed_fields.conflicts(entries, old, config, owner=owner)
        if conflicts and not options.force:
            raise bodies.conflict_error(conflicts)
        version, now = target.api_version, self._now()
        new, owned = managed_fields.after_apply(entries, old, config, owner=owner, api_version=version, now=now)
        located = metadata.for_update(metadata.of(new), metadata.of(old))
        new = bodies.limit_update(target, {**new, "metadata": located}, old)
        fields = managed_fields.to_managed_fields(owned)
        return await self._replace(target, item, old, new, options, owned=lambda checked: fields), False

    async def delete(self, target: resources.Target, deletion: Deletion, *, dry_run: bool = False) -> bytes | None:
        """Delete an object; return it while it has finalizers, None if it is gone; StatusError."""
        item = self._existing(target)
        body = resources.value(item.body)
        current = metadata.of(body)
        self._check_preconditions(target, deletion, item)
        if target.definition is resources.NAMESPACES and target.name in resources.DEFAULT_NAMESPACES:
            raise status_errors.forbidden(target.definition, target.name, "this namespace may not be deleted")
        finalizers = metadata.string_list(current, "finalizers")
        policy = "Orphan" if deletion.orphan_dependents else deletion.propagation_policy or ""
        if policy in _FINALIZERS and _FINALIZERS[policy] not in finalizers and not item.is_deleting:
            finalizers = [*finalizers, _FINALIZERS[policy]]
        title = status_errors.title(target.definition)
        if not finalizers and target.definition is not resources.NAMESPACES:
            if not dry_run:
                await self._store.remove(title, body)
            return None
        if item.is_deleting or dry_run:
            return item.body
        generation = current.get("generation", 0)
        assert isinstance(generation, int)
        changes = {
            "generation": generation + 1,
            "deletionTimestamp": self._now(),
            "deletionGracePeriodSeconds": 0,
            "finalizers": finalizers,
        }
        if target.definition is resources.NAMESPACES:
            body["status"] = {"phase": "Terminating"}
        terminating = metadata.in_stored_form(body, {**current, **changes})
        return (await self._store.put(title, terminating)).body

    async def remove_finalizer(self, target: resources.Target, finalizer: str) -> None:
        """Remove a finalizer of the server itself, and the object if it was the last one."""

        def without(old: schema.Json) -> schema.Json:
            current = metadata.of(old)
            remaining = [name for name in metadata.string_list(current, "finalizers") if name != finalizer]
            return {**old, "metadata": {**current, "finalizers": remaining}}

        await self.change(target, without, Options(manager="gantry-collector"))

    async def remove_owner(self, target: resources.Target, uid: str) -> None:
        """Remove an owner reference from an object."""

        def without(old: schema.Json) -> schema.Json:
            current = metadata.of(old)
            remaining = [owner for owner in metadata.owners(current) if owner["uid"] != uid]
            return {**old, "metadata": {**current, "ownerReferences": remaining}}

        await self.change(target, without, Options(manager="gantry-collector"))

    async def remove(self, item: watch_cache.Item) -> None:
        """Remove an object regardless of its finalizers: a Namespace that is empty, an Event that has expired."""
        await self._store.remove(item.key.title, resources.value(item.body))

    async def _replace(
        self,
        target: resources.Target,
        item: watch_cache.Item,
        old: schema.Json,
        new: schema.Json,
        options: Options,
        *,
        owned: Callable[[schema.Json], list[schema.Json]],
    ) -> bytes:
        before = metadata.of(old)
        checked = self._checked(target, new, old, options)
        new_metadata = metadata.of(checked)
        entries = owned(checked)
        changed = bodies.changed_fields(checked, old)
        if not changed and entries == before.get("managedFields", []) and metadata.is_same(new_metadata, before):
            return item.body
        if any(bodies.is_generation_field(target.definition, part) for part in changed):
            generation = before.get("generation", 0)
            assert isinstance(generation, int)
            checked["metadata"] = {**new_metadata, "generation": generation + 1}
        return await self._store_object(target, checked, entries, options)

    async def _store_object(
        self, target: resources.Target, body: schema.Json, entries: list[schema.Json], options: Options
    ) -> bytes:
        definition = target.definition
        new_metadata = {**metadata.of(body), "managedFields": entries}
        if not entries:
            del new_metadata["managedFields"]
        complete = {**body, "apiVersion": resources.api_version(definition), "metadata": new_metadata}
        if options.dry_run:
            return content_types.ENCODE(complete)
        title = status_errors.title(definition)
        has_finalizers = metadata.string_list(new_metadata, "finalizers") or definition is resources.NAMESPACES
        if new_metadata.get("deletionTimestamp") and not has_finalizers:
            return (await self._store.remove(title, complete)).body
        return (await self._store.put(title, complete)).body

    def _checked(
        self, target: resources.Target, new: schema.Json, old: schema.Json | None, options: Options
    ) -> schema.Json:
        return self._validator.check(
            target, new, old, field_validation=options.field_validation, warnings=options.warnings
        )

    def _existing(self, target: resources.Target) -> watch_cache.Item:
        item = self._store.current(_object_key(target, target.name))
        if item is None:
            raise status_errors.missing(target.definition, target.name)
        return item

    def _with_namespace(self, target: resources.Target, requested: schema.Json) -> schema.Json:
        """Return metadata with the namespace of the path."""
        namespace = requested.get("namespace", "")
        if namespace and namespace != target.namespace and target.definition.is_namespaced:
            raise status_errors.bad(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        located = {**requested, "namespace": target.namespace}
        if not target.namespace:
            del located["namespace"]
        return located

    def _check_namespace(self, target: resources.Target, name: str) -> None:
        """Reject a new object in a namespace that does not exist or is being deleted."""
        definition = target.definition
        if not definition.is_namespaced:
            return
        if not target.namespace:
            raise status_errors.StatusError(
                405, "a namespace is required to create an object", reason="MethodNotAllowed"
            )
        namespace = self._store.current(watch_cache.Key(resources.NAMESPACES.plural, "", target.namespace))
        if namespace is None:
            raise status_errors.missing(resources.NAMESPACES, target.namespace)
        if namespace.is_deleting:
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise status_errors.forbidden(definition, name, why)

    def _check_identity(self, target: resources.Target, requested: schema.Json, item: watch_cache.Item) -> None:
        """Reject a write based on another UID or resource version."""
        if requested.get("uid", item.uid) != item.uid:
            why = f"Precondition failed: UID in precondition: {requested['uid']}, UID in object meta: {item.uid}"
            raise status_errors.conflict(target.definition, target.name, why)
        if requested.get("resourceVersion", str(item.version)) not in (str(item.version), ""):
            raise status_errors.conflict(target.definition, target.name)

    def _check_preconditions(self, target: resources.Target, deletion: Deletion, item: watch_cache.Item) -> None:
        preconditions = deletion.preconditions or Deletion.Preconditions()
        if preconditions.uid and preconditions.uid != item.uid:
            why = f"Precondition failed: UID in precondition: {preconditions.uid}, UID in object meta: {item.uid}"
            raise status_errors.conflict(target.definition, target.name, why)
        if preconditions.resource_version and preconditions.resource_version != str(item.version):
            why = (
                f"Precondition failed: ResourceVersion in precondition: {preconditions.resource_version}, "
                f"ResourceVersion in object meta: {item.version}"
            )
            raise status_errors.conflict(target.definition, target.name, why)

    def _now(self) -> str:
        return _stamp(int(self._clock.now()))


@functools.lru_cache(8)
def _stamp(seconds: int) -> str:
    return meta.stamp(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def _object_key(target: resources.Target, name: str) -> watch_cache.Key:
    return watch_cache.Key(status_errors.title(target.definition), target.namespace, name)


def target_of(key: watch_cache.Key) -> resources.Target:
    """Return the target of a stored object, in the storage version."""
    definition = resources.by_title(key.title)
    return resources.Target(definition, definition.versions[0], key.namespace, key.name)


def _field_manager(
    target: resources.Target, options: Options, operation: str = managed_fields.UPDATE
) -> managed_fields.FieldManager:
    return managed_fields.FieldManager(options.manager or "unknown", operation, target.subresource)
