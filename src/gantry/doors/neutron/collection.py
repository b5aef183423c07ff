"""Lists, returns, creates, changes and removes the objects of all resources.

Each request has the same steps: policy, reading of the body by the table of attributes, a job or a query, the
representation. A POST needs one request to the master, and so does a GET of one object or of a list; a page of a list
needs two, and an empty list of segment ranges another one. One is enough for a PUT or DELETE of an administrator; other
users' PUT and DELETE need a read before, as their permission depends on the object, and so do changes of subnets, which
are changes of their network.
"""

import asyncio
import weakref
from collections.abc import Iterable, Sequence

from gantry import errors
from gantry.doors.neutron import access, attributes, faults, listing, master, policy, requirements, resource, values
from gantry.doors.neutron import call as calls
from gantry.rpc import jobs

MAX_OBJECTS = 4096
"""The maximum number of objects that a request can create; a body of maximum size could have millions."""


class Collection:
    """The objects of one resource."""

    def __init__(self, served: resource.Resource, master_: master.Master) -> None:
        self.resource = served
        self._master = master_
        self._tag_locks = weakref.WeakValueDictionary[str, asyncio.Lock]()

    async def show_all(self, call: calls.Call) -> dict[str, object]:
        """Return the objects that match a query, and the links to other pages."""
        what = listing.read(self.resource.table, call.query, admin=call.person.is_admin)
        rows: list[listing.Representation] = []
        if call.person.is_admin or not self.resource.for_admins:
            rows = await self._listed(call.person, what)
        name = self.resource.collection
        links = listing.links(rows, what, address=call.address, query=call.raw_query)
        picked = _picked(self._visible(call.person), what.fields)
        names = {attribute.name for attribute in picked}
        objects = [{key: value for key, value in row.items() if key in names} for row in rows]
        return {name: objects, **({f"{name}_links": links} if links else {})}

    async def _listed(self, person: access.Person, what: listing.Listing) -> list[listing.Representation]:
        table = self.resource.table
        visible = policy.visible(person, shares="shared" in self._fields())
        filter_ = listing.master_filter(table, what, visible=visible)
        picked = _picked(self._visible(person), what.fields)
        deciding = [attribute for attribute in table.values() if attribute.name in what.deciding]
        if not what.limit:
            both = {attribute.name: attribute for attribute in (*picked, *deciding)}
            return listing.select(await self._read(list(both.values()), filter_), what)
        rows = listing.page(listing.select(await self._read(deciding, filter_), what), what)
        if not rows:
            return []
        ids = [["=", "uuid", row["id"]] for row in rows]
        full = {row["id"]: row for row in await self._read([*picked, table["id"]], ["|", *ids])}
        return [full[row["id"]] for row in rows if row["id"] in full]

    async def _read(
        self, needed: Iterable[attributes.Attribute], filter_: master.Filter | None
    ) -> list[listing.Representation]:
        """Return objects with some attributes; query only the fields that these need."""
        columns = list(needed)
        fields = {name for attribute in columns for name in attribute.fields}
        rows = await self._master.rows(self.resource.kind, sorted({*fields, self.resource.managed} - {""}), filter_)
        for row in rows:
            self._check_managed(row)
        return [attributes.represent(columns, row) for row in rows]

    async def show_one(self, call: calls.Call, key: str) -> dict[str, object]:
        """Return one object."""
        picked = _picked(self._visible(call.person), tuple(call.query.get("fields", ())))
        fields = {name for attribute in picked for name in attribute.fields}
        row = await self._row(call.person, key, fields, wrapped=False)
        return {self.resource.name: attributes.represent(picked, row)}

    async def create(self, call: calls.Call) -> dict[str, object]:
        """Create one object, or several of which all or none are created."""
        rule = f"create_{self.resource.name}"
        bodies, bulk = self._bodies(call)
        policy.check_create(call.person, rule=rule, everybody=not self.resource.for_admins)
        requested = [self._values(call.person, body, rule=rule) for body in bodies]
        required = requirements.of(call.person, served=self.resource, requested=requested, rule=rule)
        rows = await self._run_create(call, requested, required)
        visible = self._visible(call.person)
        objects = [{**dict.fromkeys(self.resource.nulls), **attributes.represent(visible, row)} for row in rows]
        return {self.resource.collection: objects} if bulk else {self.resource.name: objects[0]}

    async def _run_create(
        self, call: calls.Call, requested: Sequence[attributes.Values], required: Sequence[requirements.Requirement]
    ) -> list[attributes.Row]:
        conditions = [each.condition for each in required]
        query = self._computed([str(each["id"]) for each in requested])
        try:
            done = await self._master.run(
                self.resource.create_ops(requested), call.origin, conditions=conditions, query=query
            )
        except jobs.ConditionError as error:
            raise required[error.index].fault from None
        except jobs.PartlyDoneError as error:
            created = requested[: len(error.done)]
            rows = [{"uuid": each["id"], "network_uuid": each.get("network_id")} for each in created]
            await self._master.run([self.resource.remove_op(row) for row in rows], call.origin)
            raise self.resource.fault(error.cause, requested[len(error.done)]) from None
        except errors.GantryError as error:
            raise self.resource.fault(error, *requested) from None
        return self._complete(requested, done)

    def _computed(self, uuids: Iterable[str]) -> master.Query | None:
        """Return the query for the fields that the results of a job do not have, None if there are no such fields."""
        if not self.resource.computed:
            return None
        filter_: master.Filter = ["|", *(["=", "uuid", uuid] for uuid in uuids)]
        return master.Query(self.resource.kind, ["uuid", *self.resource.computed], filter_)

    def _complete(self, requested: Sequence[attributes.Values], done: jobs.Done) -> list[attributes.Row]:
        """Return the objects after a job, with their computed fields."""
        computed = {row["uuid"]: row for row in done.rows}
        return [{**row, **computed.get(row["uuid"], {})} for row in self.resource.results(requested, done.results)]

    def _values(self, person: access.Person, body: dict[str, object], *, rule: str) -> attributes.Values:
        if "tenant_id" in body:
            body = {**body, "project_id": body.get("project_id", body["tenant_id"])}
            del body["tenant_id"]
        policy.check_attributes(person, self.resource.table, body, rule=rule)
        requested = attributes.read_post(self.resource.table, body)
        policy.check_values(person, self.resource.table, requested, rule=rule)
        requested["project_id"] = policy.project_of(person, requested.get("project_id", attributes.UNSET))
        requested["id"] = self._master.uuid()
        return requested

    async def update(self, call: calls.Call, key: str) -> dict[str, object]:
        """Change an object and return it."""
        (body,), _ = self._bodies(call, is_bulk_allowed=False)
        rule = f"update_{self.resource.name}"
        row = await self._changeable(call.person, key, rule=rule)
        policy.check_attributes(call.person, self.resource.table, body, rule=rule)
        changes = attributes.read_put(self.resource.table, body)
        policy.check_values(call.person, self.resource.table, changes, rule=rule)
        changed = await self._change(call, row, changes)
        return {self.resource.name: attributes.represent(self._visible(call.person), changed)}

    async def _change(self, call: calls.Call, row: attributes.Row, changes: attributes.Values) -> attributes.Row:
        if not changes and not self.resource.counts_empty_changes:
            return await self._row(call.person, str(row["uuid"]), self._fields())
        requested = {**row, **changes, "id": row["uuid"]}
        try:
            done = await self._master.run(
                [self.resource.change_op(row, changes)],
                call.origin,
                conditions=self._managed(str(row["uuid"])),
                query=self._computed([str(row["uuid"])]),
            )
        except jobs.ConditionError:
            raise self.resource.missing(str(row["uuid"])) from None
        except errors.GantryError as error:
            raise self.resource.fault(error, {**await self._present(str(row["uuid"])), **requested}) from None
        (changed,) = self._complete([requested], done)
        return changed

    async def _present(self, key: str) -> attributes.Values:
        """Return the attributes of an object for the message of a fault; none if they cannot be read."""
        try:
            rows = await self._master.rows(self.resource.kind, sorted(self._fields()), ["=", "uuid", key])
        except errors.GantryError:
            return {}
        return attributes.represent(list(self.resource.table.values()), rows[0]) if rows else {}

    async def delete(self, call: calls.Call, key: str) -> None:
        """Remove an object."""
        row = await self._changeable(call.person, key, rule=f"delete_{self.resource.name}")
        try:
            await self._master.run([self.resource.remove_op(row)], call.origin, conditions=self._managed(key))
        except jobs.ConditionError:
            raise self.resource.missing(key) from None
        except errors.GantryError as error:
            raise self.resource.fault(error, {"id": key}) from None

    def _check_managed(self, row: attributes.Row) -> None:
        """Refuse an object in a cluster where its resource does not exist."""
        if self.resource.managed and not row.get(self.resource.managed):
            raise faults.hidden()

    def _managed(self, key: str) -> list[master.Condition]:
        """Return the condition of a change: that the object exists, in a cluster where its resource does."""
        if not self.resource.managed:
            return []
        return [master.Condition(self.resource.kind, ["&", ["=", "uuid", key], ["?", self.resource.managed]])]

    async def tags(self, call: calls.Call, key: str) -> list[str]:
        """Return the tags of an object, sorted."""
        if self.resource.for_admins and not call.person.is_admin:
            raise faults.forbidden(f"get_{self.resource.name}:tags")
        row = await self._row(call.person, key, {"tags"})
        return sorted(str(tag) for tag in _list(row.get("tags")))

    def tag_lock(self, key: str) -> asyncio.Lock:
        """Return the lock to hold from the read of an object's tags until their change."""
        return self._tag_locks.setdefault(key, asyncio.Lock())

    async def set_tags(self, call: calls.Call, key: str, tags: Iterable[str]) -> None:
        """Set exactly these tags on an object."""
        rule = f"update_{self.resource.name}"
        if self.resource.for_admins and not call.person.is_admin:
            raise faults.forbidden(f"{rule}:tags")
        row = await self._changeable(call.person, key, rule=rule)
        await self._change(call, row, {"tags": sorted(set(tags))})

    def _visible(self, person: access.Person) -> list[attributes.Attribute]:
        return [
            attribute
            for attribute in self.resource.table.values()
            if attribute.listed and (person.is_admin or not attribute.admin)
        ]

    async def _changeable(self, person: access.Person, key: str, *, rule: str) -> attributes.Row:
        """Return the fields of an object that a change needs; FaultError if the user may not change it."""
        if person.is_admin and not self.resource.needs:
            return {"uuid": self._uuid(key)}
        row = await self._row(person, key, self.resource.needs)
        policy.check_change(person, row, rule=rule)
        return row

    async def _row(
        self, person: access.Person, key: str, fields: Iterable[str], *, wrapped: bool = True
    ) -> attributes.Row:
        """Return an object that the user may see; FaultError 404."""
        names = sorted({*fields, "uuid", "project", "shared", self.resource.managed} & self._fields())
        rows = await self._master.rows(self.resource.kind, names, ["=", "uuid", self._uuid(key)])
        if not rows or not policy.may_see(person, rows[0]):
            raise self.resource.missing(key)
        self._check_managed(rows[0])
        if self.resource.for_admins and not person.is_admin:
            raise faults.hidden(wrapped=wrapped)
        return rows[0]

    def _fields(self) -> set[str]:
        """Return all fields of the master that attributes or changes need."""
        return {
            *self.resource.needs,
            *((self.resource.managed,) if self.resource.managed else ()),
            *(name for attribute in self.resource.table.values() for name in attribute.fields),
        }

    def _uuid(self, key: str) -> str:
        """Return the UUID of a path; FaultError 404 if it is not a UUID, for example a name."""
        if not values.is_uuid(key):
            raise self.resource.missing(key)
        return key

    def _bodies(self, call: calls.Call, *, is_bulk_allowed: bool = True) -> tuple[list[dict[str, object]], bool]:
        """Return the objects of a body, and whether they are a list; FaultError 400."""
        body = call.decode_body()
        if isinstance(body, dict):
            if self.resource.collection in body and not is_bulk_allowed:
                raise faults.bad_request("Bulk operation not supported")
            single, many = body.get(self.resource.name), body.get(self.resource.collection)
            if isinstance(single, dict):
                return [single], False
            if isinstance(many, list) and many and all(isinstance(each, dict) for each in many):
                if len(many) > MAX_OBJECTS:
                    raise faults.bad_request(
                        f"A request can create at most {MAX_OBJECTS} objects, this request has {len(many)}"
                    )
                return many, True
        raise faults.bad_request(f"Unable to find '{self.resource.name}' in request body")


def _picked(visible: Sequence[attributes.Attribute], fields: tuple[str, ...]) -> list[attributes.Attribute]:
    """Return the attributes that a query names in ``fields``, all if it names none."""
    return [attribute for attribute in visible if not fields or attribute.name in fields]


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
