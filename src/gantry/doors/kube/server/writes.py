"""Writes: create, update, patch, apply and delete, as an API server does them (contract: kubernetes 3.4, S1 to S11).

Who calls it: the application, with a target and a body; the garbage collection. A write is decided over the object as
it will be when all is stored that came before, without a pause in between, so two writes never decide over the same
state. The order: what the server says itself, unknown fields, defaults, schema, admission, managed fields, then the
store; a dry run ends before the store.

Invariant: what is stored has passed its schema and the admission rules in the version that it was written in.
"""

import datetime
import functools
import itertools
from collections.abc import Callable

import msgspec

from gantry import errors
from gantry.doors.kube.server import bodies, faults, guard, history, kinds, managed, media, metadata, store
from gantry.model.kube import meta, schema
from gantry.runtime import interface

STRICT = "Strict"
WARN = "Warn"
IGNORE = "Ignore"
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_WAITS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
_TRIES = 8
"""How many names are made of a ``generateName`` before the last one's refusal is the answer."""


class Options(msgspec.Struct):
    """How a write is meant; ``warnings`` are collected for the answer."""

    manager: str = ""
    dry_run: bool = False
    validation: str = WARN
    force: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)


class Deletion(msgspec.Struct, rename="camel"):
    """The body of a DELETE, as far as it is acted on."""

    class Preconditions(msgspec.Struct, rename="camel"):
        """Which object is meant."""

        uid: str | None = None
        resource_version: str | None = None

    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class Writer:
    """Changes objects of a store."""

    def __init__(self, runtime: interface.Runtime, objects: store.Store, rules: guard.Guard) -> None:
        self._clock = runtime.clock
        self._random = runtime.random
        self._store = objects
        self._rules = rules

    async def create(self, target: kinds.Target, body: schema.Json, options: Options) -> bytes:
        """Store a new object and return it; StatusError."""
        given = metadata.read(body)
        prefix = given.get("generateName")
        if given.get("name") or not prefix:
            return await self._create(target, body, given, options)
        for _ in range(_TRIES - 1):
            named = {**given, "name": metadata.generated(str(prefix), self._random.below)}
            try:
                return await self._create(target, body, named, options)
            except faults.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        return await self._create(target, body, named, options)

    async def _create(
        self,
        target: kinds.Target,
        body: schema.Json,
        given: schema.Json,
        options: Options,
        *,
        operation: str = managed.UPDATE,
    ) -> bytes:
        definition, name = target.definition, str(given.get("name", ""))
        placed = self._placed(target, given)
        if given.get("resourceVersion"):
            raise faults.bad("resourceVersion should not be set on objects to be created")
        self._check_namespace(target, name)
        made = metadata.born(placed, uid=self._random.uuid(), now=self._now())
        new = {**bodies.typed(target, body), "metadata": made}
        if definition.has_status:
            new.pop("status", None)
        if definition is kinds.NAMESPACES:
            new |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        checked = self._admitted(target, new, None, options)
        there = self._store.tip(_key(target, name))
        if there:
            raise faults.exists(definition, name, is_deleting=there.is_deleting)
        written = body if operation == managed.APPLY else checked
        owned = managed.updated(
            given.get("managedFields"),
            {},
            written,
            owner=_owner(target, options, operation),
            api_version=target.api_version,
            now=self._now(),
        )
        return await self._stored(target, checked, owned, options)

    async def update(self, target: kinds.Target, body: schema.Json, options: Options) -> bytes:
        """Replace an object, or its status, and return it; StatusError."""
        given = metadata.read(body)
        name = given.get("name", target.name)
        if name != target.name:
            raise faults.bad(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
        if not given.get("resourceVersion") and target.definition not in kinds.BUILT_IN:
            cause = schema.Cause(
                schema.INVALID, "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update"
            )
            raise faults.invalid(target.definition, target.name, [cause])
        return await self.change(target, lambda old: body, options)

    async def change(self, target: kinds.Target, change: bodies.Change, options: Options) -> bytes:
        """Make of an object, or of its status, what ``change`` says, and return it; StatusError."""
        item = self._found(target)
        old = bodies.in_version(target, item)
        body = media.mapping(change(old), "the object")
        given = metadata.read(body, metadata.of(old))
        self._check_identity(target, given, item)
        placed = metadata.kept(self._placed(target, given), metadata.of(old))
        placed["name"] = target.name
        new = bodies.confined(target, {**bodies.typed(target, body), "metadata": placed}, old)
        listed = metadata.of(new).get("managedFields")
        owner, version = _owner(target, options), target.api_version
        return await self._replace(
            target,
            item,
            old,
            new,
            options,
            owned=lambda checked: managed.updated(
                listed, old, checked, owner=owner, api_version=version, now=self._now()
            ),
        )

    async def apply(self, target: kinds.Target, config: schema.Json, options: Options) -> tuple[bytes, bool]:
        """Apply fields of an object, which may not be there yet; return it, and whether it was made; StatusError."""
        given = metadata.read(config)
        if given.get("managedFields"):
            raise faults.bad("metadata.managedFields must be nil")
        if given.get("name", target.name) != target.name:
            raise faults.bad(
                f"the name of the object ({given['name']}) does not match the name on the URL ({target.name})"
            )
        config = {**bodies.typed(target, config), "metadata": {**given, "name": target.name}}
        owner = _owner(target, options, managed.APPLY)
        item = self._store.tip(_key(target, target.name))
        if item is None:
            if target.subresource:
                raise faults.missing(target.definition, target.name)
            config = bodies.applicable(target, config)
            return await self._create(target, config, metadata.of(config), options, operation=managed.APPLY), True
        self._check_identity(target, given, item)
        old = bodies.in_version(target, item)
        config = bodies.applicable(target, config)
        entries = managed.read(old)
        met = managed.conflicts(entries, old, config, owner=owner)
        if met and not options.force:
            raise bodies.conflicting(met)
        new, owned = managed.applied(entries, old, config, owner=owner, api_version=target.api_version, now=self._now())
        placed = metadata.kept(metadata.of(new), metadata.of(old))
        new = bodies.confined(target, {**new, "metadata": placed}, old)
        fields = managed.written(owned)
        return await self._replace(target, item, old, new, options, owned=lambda checked: fields), False

    async def delete(self, target: kinds.Target, how: Deletion, *, dry_run: bool = False) -> bytes | None:
        """Delete an object; return it if something holds it, None if it has gone; StatusError."""
        item = self._found(target)
        body = kinds.value(item.body)
        said = metadata.of(body)
        self._check_preconditions(target, how, item)
        if target.definition is kinds.NAMESPACES and target.name in kinds.DEFAULT_NAMESPACES:
            raise faults.forbidden(target.definition, target.name, "this namespace may not be deleted")
        finalizers = metadata.texts(said, "finalizers")
        policy = "Orphan" if how.orphan_dependents else how.propagation_policy or ""
        if policy in _WAITS and _WAITS[policy] not in finalizers and not item.is_deleting:
            finalizers = [*finalizers, _WAITS[policy]]
        title = faults.title(target.definition)
        if not finalizers and target.definition is not kinds.NAMESPACES:
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
        if target.definition is kinds.NAMESPACES:
            body["status"] = {"phase": "Terminating"}
        marked = metadata.ordered(body, {**said, **marks})
        return (await self._store.put(title, marked)).body

    async def release(self, target: kinds.Target, finalizer: str) -> None:
        """Take a finalizer of the server itself away, and the object if it was the last."""

        def without(old: schema.Json) -> schema.Json:
            said = metadata.of(old)
            left = [one for one in metadata.texts(said, "finalizers") if one != finalizer]
            return {**old, "metadata": {**said, "finalizers": left}}

        await self.change(target, without, Options(manager="gantry-collector"))

    async def disown(self, target: kinds.Target, uid: str) -> None:
        """Take an owner away from an object."""

        def without(old: schema.Json) -> schema.Json:
            said = metadata.of(old)
            left = [one for one in metadata.owners(said) if one["uid"] != uid]
            return {**old, "metadata": {**said, "ownerReferences": left}}

        await self.change(target, without, Options(manager="gantry-collector"))

    async def vanish(self, item: history.Item) -> None:
        """Remove an object that nothing holds any more, whatever it says: a Namespace that has been emptied."""
        await self._store.remove(item.key.title, kinds.value(item.body))

    async def _replace(
        self,
        target: kinds.Target,
        item: history.Item,
        old: schema.Json,
        new: schema.Json,
        options: Options,
        *,
        owned: Callable[[schema.Json], list[schema.Json]],
    ) -> bytes:
        before = metadata.of(old)
        checked = self._admitted(target, new, old, options)
        said = metadata.of(checked)
        listed = owned(checked)
        changed = bodies.changed(checked, old)
        if not changed and listed == before.get("managedFields", []) and metadata.is_same(said, before):
            return item.body
        if any(bodies.is_content(target.definition, part) for part in changed):
            generation = before.get("generation", 0)
            assert isinstance(generation, int)
            checked["metadata"] = {**said, "generation": generation + 1}
        return await self._stored(target, checked, listed, options)

    async def _stored(
        self, target: kinds.Target, body: schema.Json, owned: list[schema.Json], options: Options
    ) -> bytes:
        definition = target.definition
        said = {**metadata.of(body), "managedFields": owned}
        if not owned:
            del said["managedFields"]
        whole = {**body, "apiVersion": kinds.api_version(definition), "metadata": said}
        if options.dry_run:
            return media.ENCODE(whole)
        title = faults.title(definition)
        held = metadata.texts(said, "finalizers") or definition is kinds.NAMESPACES
        if said.get("deletionTimestamp") and not held:
            return (await self._store.remove(title, whole)).body
        return (await self._store.put(title, whole)).body

    def _admitted(
        self, target: kinds.Target, new: schema.Json, old: schema.Json | None, options: Options
    ) -> schema.Json:
        """Return the object without unknown fields and with defaults, if it may become so; StatusError."""
        definition = target.definition
        # What is stored has passed, and is neither looked at again nor held against rules that are younger.
        settled = frozenset(bodies.settled(new, old) if old else ())
        node = definition.schema(target.version, without=settled)
        changed = {key: value for key, value in new.items() if key not in settled}
        is_plain = schema.fits(node, changed)
        strange = itertools.chain(() if is_plain else schema.unknown(node, changed), metadata.unknown(metadata.of(new)))
        unknown = list(itertools.islice(strange, faults.CAUSES))
        if unknown and options.validation == STRICT:
            listed = ", ".join(f'unknown field "{one}"' for one in unknown)
            raise faults.bad(
                f'{definition.kind} in version "{target.version}" cannot be handled as a '
                f"{definition.kind}: strict decoding error: {listed}"
            )
        if options.validation == WARN:
            options.warnings += [f'unknown field "{one}"' for one in unknown]
        checked = new
        if not is_plain:
            changed = media.mapping(schema.pruned(node, changed)) if unknown else changed
            changed = media.mapping(schema.defaulted(node, changed))
            checked = {**{key: value for key, value in new.items() if key in settled or key in changed}, **changed}
        if definition is kinds.SECRETS:
            checked = bodies.encoded(checked)
        checked = metadata.ordered(checked, metadata.of(checked))
        said = metadata.of(checked)
        before = metadata.of(old) if old else {}
        causes = [*metadata.check(definition, said, before), *(() if is_plain else schema.check(node, changed))]
        if causes:
            raise faults.invalid(definition, str(said.get("name", "")), causes)
        if definition not in kinds.BUILT_IN and not (
            "spec" in settled and said.get("annotations") == before.get("annotations")
        ):
            self._review(target, checked, old, options)
        return checked

    def _review(self, target: kinds.Target, new: schema.Json, old: schema.Json | None, options: Options) -> None:
        definition, name = target.definition, str(metadata.of(new)["name"])
        try:
            causes = self._rules.review(definition, new, old)
        except errors.InvalidError as error:
            raise faults.unreadable(error) from None
        if causes:
            raise faults.invalid(definition, name, causes)
        title = faults.title(definition)
        if title == guard.POOLS and (old is None or old.get("spec") != new.get("spec")):
            options.warnings += guard.warnings(new, self._store.collection(title).items(target.namespace))

    def _found(self, target: kinds.Target) -> history.Item:
        item = self._store.tip(_key(target, target.name))
        if item is None:
            raise faults.missing(target.definition, target.name)
        return item

    def _placed(self, target: kinds.Target, given: schema.Json) -> schema.Json:
        """Return metadata with the namespace of the path."""
        said = given.get("namespace", "")
        if said and said != target.namespace and target.definition.is_namespaced:
            raise faults.bad("the namespace of the provided object does not match the namespace sent on the request")
        placed = {**given, "namespace": target.namespace}
        if not target.namespace:
            del placed["namespace"]
        return placed

    def _check_namespace(self, target: kinds.Target, name: str) -> None:
        """Refuse a new object in a namespace that is not there, or going."""
        definition = target.definition
        if not definition.is_namespaced:
            return
        if not target.namespace:
            raise faults.StatusError(405, "an object is created in a namespace", reason="MethodNotAllowed")
        there = self._store.tip(history.Key(kinds.NAMESPACES.plural, "", target.namespace))
        if there is None:
            raise faults.missing(kinds.NAMESPACES, target.namespace)
        if there.is_deleting:
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise faults.forbidden(definition, name, why)

    def _check_identity(self, target: kinds.Target, given: schema.Json, item: history.Item) -> None:
        """Refuse a write that was meant for another object of the name, or another version of it."""
        if given.get("uid", item.uid) != item.uid:
            why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {item.uid}"
            raise faults.conflict(target.definition, target.name, why)
        if given.get("resourceVersion", str(item.version)) not in (str(item.version), ""):
            raise faults.conflict(target.definition, target.name)

    def _check_preconditions(self, target: kinds.Target, how: Deletion, item: history.Item) -> None:
        wanted = how.preconditions or Deletion.Preconditions()
        if wanted.uid and wanted.uid != item.uid:
            why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {item.uid}"
            raise faults.conflict(target.definition, target.name, why)
        if wanted.resource_version and wanted.resource_version != str(item.version):
            why = (
                f"Precondition failed: ResourceVersion in precondition: {wanted.resource_version}, "
                f"ResourceVersion in object meta: {item.version}"
            )
            raise faults.conflict(target.definition, target.name, why)

    def _now(self) -> str:
        return _stamp(int(self._clock.now()))


@functools.lru_cache(8)
def _stamp(seconds: int) -> str:
    return meta.stamp(datetime.datetime.fromtimestamp(seconds, datetime.UTC))


def _key(target: kinds.Target, name: str) -> history.Key:
    return history.Key(faults.title(target.definition), target.namespace, name)


def target_of(key: history.Key) -> kinds.Target:
    """Return what leads to a stored object, in the version that is stored."""
    definition = kinds.by_title(key.title)
    return kinds.Target(definition, definition.versions[0], key.namespace, key.name)


def _owner(target: kinds.Target, options: Options, operation: str = managed.UPDATE) -> managed.Owner:
    return managed.Owner(options.manager or "unknown", operation, target.subresource)
