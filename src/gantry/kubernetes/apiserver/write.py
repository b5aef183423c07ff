"""Write: create, update, patch, apply and delete (contract: kubernetes 3.4, S1 to S11).

The application calls it with a target and a body, and so does the garbage collector. A write is based on the state
after all pending writes, and does not yield before it is itself pending, so no two writes are based on the same state.
The order: metadata set by the server, unknown fields, defaults, schema, admission, managed fields, store; a dry run
ends before the store.

Invariant: a stored object has passed its schema and the admission rules in the version in which it was written.
"""

import datetime
import functools
import itertools
from collections.abc import Callable

import msgspec

from gantry import errors
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
    watch_cache,
)
from gantry.runtime import interface

STRICT = "Strict"
WARN = "Warn"
IGNORE = "Ignore"
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
_MAX_GENERATE_ATTEMPTS = 8
"""Number of names generated from a ``generateName`` before AlreadyExists is answered."""


class Options(msgspec.Struct):
    """Options of a write; ``warnings`` are collected for the answer."""

    manager: str = ""
    dry_run: bool = False
    validation: str = WARN
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
        self._rules = rules

    async def create(self, target: resources.Target, body: schema.Json, options: Options) -> bytes:
        """Create an object and return it; StatusError."""
        given = metadata.read(body)
        prefix = given.get("generateName")
        if given.get("name") or not prefix:
            return await self._create(target, body, given, options)
        for _ in range(_MAX_GENERATE_ATTEMPTS - 1):
            named = {**given, "name": metadata.generate_name(str(prefix), self._random.below)}
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
        given: schema.Json,
        options: Options,
        *,
        operation: str = managed_fields.UPDATE,
    ) -> bytes:
        definition, name = target.definition, str(given.get("name", ""))
        placed = self._with_namespace(target, given)
        if given.get("resourceVersion"):
            raise status_errors.bad("resourceVersion should not be set on objects to be created")
        self._check_namespace(target, name)
        made = metadata.for_create(placed, uid=self._random.uuid(), now=self._now())
        new = {**bodies.with_type(target, body), "metadata": made}
        if definition.has_status:
            new.pop("status", None)
        if definition is resources.NAMESPACES:
            new |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        checked = self._admit(target, new, None, options)
        there = self._store.current(_object_key(target, name))
        if there:
            raise status_errors.exists(definition, name, is_deleting=there.is_deleting)
        written = body if operation == managed_fields.APPLY else checked
        owned = managed_fields.after_update(
            given.get("managedFields"),
            {},
            written,
            owner=_field_manager(target, options, operation),
            api_version=target.api_version,
            now=self._now(),
        )
        return await self._store_object(target, checked, owned, options)

    async def update(self, target: resources.Target, body: schema.Json, options: Options) -> bytes:
        """Replace an object, or its status, and return it; StatusError."""
        given = metadata.read(body)
        name = given.get("name", target.name)
        if name != target.name:
            raise status_errors.bad(
                f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            )
        if not given.get("resourceVersion") and target.definition not in resources.BUILT_IN:
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
        given = metadata.read(body, metadata.of(old))
        self._check_identity(target, given, item)
        placed = metadata.for_update(self._with_namespace(target, given), metadata.of(old))
        placed["name"] = target.name
        new = bodies.limit_update(target, {**bodies.with_type(target, body), "metadata": placed}, old)
        listed = metadata.of(new).get("managedFields")
        owner, version = _field_manager(target, options), target.api_version
        return await self._replace(
            target,
            item,
            old,
            new,
            options,
            owned=lambda checked: managed_fields.after_update(
                listed, old, checked, owner=owner, api_version=version, now=self._now()
            ),
        )

    async def apply(self, target: resources.Target, config: schema.Json, options: Options) -> tuple[bytes, bool]:
        """Server-side apply; return the object, and whether it was created; StatusError."""
        given = metadata.read(config)
        if given.get("managedFields"):
            raise status_errors.bad("metadata.managedFields must be nil")
        if given.get("name", target.name) != target.name:
            raise status_errors.bad(
                f"the name of the object ({given['name']}) does not match the name on the URL ({target.name})"
            )
        config = {**bodies.with_type(target, config), "metadata": {**given, "name": target.name}}
        owner = _field_manager(target, options, managed_fields.APPLY)
        item = self._store.current(_object_key(target, target.name))
        if item is None:
            if target.subresource:
                raise status_errors.missing(target.definition, target.name)
            config = bodies.limit_apply(target, config)
            return await self._create(
                target, config, metadata.of(config), options, operation=managed_fields.APPLY
            ), True
        self._check_identity(target, given, item)
        old = bodies.in_version(target, item)
        config = bodies.limit_apply(target, config)
        entries = managed_fields.read(old)
        met = managed_fields.conflicts(entries, old, config, owner=owner)
        if met and not options.force:
            raise bodies.conflict_error(met)
        new, owned = managed_fields.after_apply(
            entries, old, config, owner=owner, api_version=target.api_version, now=self._now()
        )
        placed = metadata.for_update(metadata.of(new), metadata.of(old))
        new = bodies.limit_update(target, {**new, "metadata": placed}, old)
        fields = managed_fields.to_managed_fields(owned)
        return await self._replace(target, item, old, new, options, owned=lambda checked: fields), False

    async def delete(self, target: resources.Target, how: Deletion, *, dry_run: bool = False) -> bytes | None:
        """Delete an object; return it while it has finalizers, None if it is gone; StatusError."""
        item = self._existing(target)
        body = resources.value(item.body)
        said = metadata.of(body)
        self._check_preconditions(target, how, item)
        if target.definition is resources.NAMESPACES and target.name in resources.DEFAULT_NAMESPACES:
            raise status_errors.forbidden(target.definition, target.name, "this namespace may not be deleted")
        finalizers = metadata.string_list(said, "finalizers")
        policy = "Orphan" if how.orphan_dependents else how.propagation_policy or ""
        if policy in _FINALIZERS and _FINALIZERS[policy] not in finalizers and not item.is_deleting:
            finalizers = [*finalizers, _FINALIZERS[policy]]
        title = status_errors.title(target.definition)
        if not finalizers and target.definition is not resources.NAMESPACES:
            if not dry_run:
                await self._store.remove(title, body)
            return None
        if item.is_deleting or dry_run:
            return item.body
        generation = said.get("generation", 0)
        assert isinstance(generation, int)
        marks = {
            "generation": generation + 1,
            "deletionTimestamp": self._now(),
            "deletionGracePeriodSeconds": 0,
            "finalizers": finalizers,
        }
        if target.definition is resources.NAMESPACES:
            body["status"] = {"phase": "Terminating"}
        marked = metadata.in_stored_form(body, {**said, **marks})
        return (await self._store.put(title, marked)).body

    async def remove_finalizer(self, target: resources.Target, finalizer: str) -> None:
        """Remove a finalizer of the server itself, and the object if it was the last one."""

        def without(old: schema.Json) -> schema.Json:
            said = metadata.of(old)
            left = [one for one in metadata.string_list(said, "finalizers") if one != finalizer]
            return {**old, "metadata": {**said, "finalizers": left}}

        await self.change(target, without, Options(manager="gantry-collector"))

    async def remove_owner(self, target: resources.Target, uid: str) -> None:
        """Remove an owner reference from an object."""

        def without(old: schema.Json) -> schema.Json:
            said = metadata.of(old)
            left = [one for one in metadata.owners(said) if one["uid"] != uid]
            return {**old, "metadata": {**said, "ownerReferences": left}}

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
        checked = self._admit(target, new, old, options)
        said = metadata.of(checked)
        listed = owned(checked)
        changed = bodies.changed_fields(checked, old)
        if not changed and listed == before.get("managedFields", []) and metadata.is_same(said, before):
            return item.body
        if any(bodies.is_generation_field(target.definition, part) for part in changed):
            generation = before.get("generation", 0)
            assert isinstance(generation, int)
            checked["metadata"] = {**said, "generation": generation + 1}
        return await self._store_object(target, checked, listed, options)

    async def _store_object(
        self, target: resources.Target, body: schema.Json, owned: list[schema.Json], options: Options
    ) -> bytes:
        definition = target.definition
        said = {**metadata.of(body), "managedFields": owned}
        if not owned:
            del said["managedFields"]
        whole = {**body, "apiVersion": resources.api_version(definition), "metadata": said}
        if options.dry_run:
            return content_types.ENCODE(whole)
        title = status_errors.title(definition)
        held = metadata.string_list(said, "finalizers") or definition is resources.NAMESPACES
        if said.get("deletionTimestamp") and not held:
            return (await self._store.remove(title, whole)).body
        return (await self._store.put(title, whole)).body

    def _admit(
        self, target: resources.Target, new: schema.Json, old: schema.Json | None, options: Options
    ) -> schema.Json:
        """Return the object pruned and defaulted, if it passes validation and admission; StatusError."""
        definition = target.definition
        # Unchanged parts have been validated before, and must not fail newer rules.
        settled = frozenset(bodies.unchanged_fields(new, old) if old else ())
        node = definition.schema(target.version, without=settled)
        changed = {key: value for key, value in new.items() if key not in settled}
        is_plain = schema.fits(node, changed)
        strange = itertools.chain(
            () if is_plain else schema.unknown_fields(node, changed), metadata.unknown_fields(metadata.of(new))
        )
        unknown = list(itertools.islice(strange, status_errors.MAX_CAUSES))
        if unknown and options.validation == STRICT:
            listed = ", ".join(f'unknown field "{one}"' for one in unknown)
            raise status_errors.bad(
                f'{definition.kind} in version "{target.version}" cannot be handled as a '
                f"{definition.kind}: strict decoding error: {listed}"
            )
        if options.validation == WARN:
            options.warnings += [f'unknown field "{one}"' for one in unknown]
        checked = new
        if not is_plain:
            changed = content_types.json_object(schema.prune(node, changed)) if unknown else changed
            changed = content_types.json_object(schema.apply_defaults(node, changed))
            checked = {**{key: value for key, value in new.items() if key in settled or key in changed}, **changed}
        if definition is resources.SECRETS:
            checked = bodies.encode_secret(checked)
        checked = metadata.in_stored_form(checked, metadata.of(checked))
        said = metadata.of(checked)
        before = metadata.of(old) if old else {}
        causes = [*metadata.check(definition, said, before), *(() if is_plain else schema.check(node, changed))]
        if causes:
            raise status_errors.invalid(definition, str(said.get("name", "")), causes)
        if definition not in resources.BUILT_IN and not (
            "spec" in settled and said.get("annotations") == before.get("annotations")
        ):
            self._review(target, checked, old, options)
        return checked

    def _review(self, target: resources.Target, new: schema.Json, old: schema.Json | None, options: Options) -> None:
        definition, name = target.definition, str(metadata.of(new)["name"])
        try:
            causes = self._rules.review(definition, new, old)
        except errors.InvalidError as error:
            raise status_errors.unreadable(error) from None
        if causes:
            raise status_errors.invalid(definition, name, causes)
        title = status_errors.title(definition)
        if title == admission.POOLS and (old is None or old.get("spec") != new.get("spec")):
            options.warnings += admission.warnings(new, self._store.collection(title).items(target.namespace))

    def _existing(self, target: resources.Target) -> watch_cache.Item:
        item = self._store.current(_object_key(target, target.name))
        if item is None:
            raise status_errors.missing(target.definition, target.name)
        return item

    def _with_namespace(self, target: resources.Target, given: schema.Json) -> schema.Json:
        """Return metadata with the namespace of the path."""
        said = given.get("namespace", "")
        if said and said != target.namespace and target.definition.is_namespaced:
            raise status_errors.bad(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        placed = {**given, "namespace": target.namespace}
        if not target.namespace:
            del placed["namespace"]
        return placed

    def _check_namespace(self, target: resources.Target, name: str) -> None:
        """Reject a new object in a namespace that does not exist or is being deleted."""
        definition = target.definition
        if not definition.is_namespaced:
            return
        if not target.namespace:
            raise status_errors.StatusError(
                405, "a namespace is required to create an object", reason="MethodNotAllowed"
            )
        there = self._store.current(watch_cache.Key(resources.NAMESPACES.plural, "", target.namespace))
        if there is None:
            raise status_errors.missing(resources.NAMESPACES, target.namespace)
        if there.is_deleting:
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise status_errors.forbidden(definition, name, why)

    def _check_identity(self, target: resources.Target, given: schema.Json, item: watch_cache.Item) -> None:
        """Reject a write based on another UID or resource version."""
        if given.get("uid", item.uid) != item.uid:
            why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {item.uid}"
            raise status_errors.conflict(target.definition, target.name, why)
        if given.get("resourceVersion", str(item.version)) not in (str(item.version), ""):
            raise status_errors.conflict(target.definition, target.name)

    def _check_preconditions(self, target: resources.Target, how: Deletion, item: watch_cache.Item) -> None:
        wanted = how.preconditions or Deletion.Preconditions()
        if wanted.uid and wanted.uid != item.uid:
            why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {item.uid}"
            raise status_errors.conflict(target.definition, target.name, why)
        if wanted.resource_version and wanted.resource_version != str(item.version):
            why = (
                f"Precondition failed: ResourceVersion in precondition: {wanted.resource_version}, "
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
