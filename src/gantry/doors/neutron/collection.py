"""The one way in which the objects of all resources are listed, shown, made and changed.

Each request goes the same way: policy, the body by the table of attributes, a job or a query, representation. A POST is
one trip to the master. A PUT or DELETE is one trip for an administrator, and one more, a read, for others, whose right
depends on the object, and for subnets, which are changed through their network.
"""

import asyncio
import weakref
from collections.abc import Iterable, Sequence

from gantry import errors
from gantry.doors.neutron import access, attributes, faults, listing, master, policy, requirements, resource, values
from gantry.doors.neutron import call as calls
from gantry.rpc import jobs

MOST = 4096
"""How many objects one request can make; a body of the largest size could name millions."""


class Collection:
    """The objects of one resource."""

    def __init__(self, served: resource.Resource, behind: master.Master) -> None:
        self.resource = served
        self._master = behind
        self._changing_tags = weakref.WeakValueDictionary[str, asyncio.Lock]()

    async def show_all(self, call: calls.Call) -> dict[str, object]:
        """Return the objects that a query asks for, and the links to other pages."""
        what = listing.read(self.resource.table, call.query, admin=call.person.is_admin)
        rows: list[listing.Shown] = []
        if call.person.is_admin or not self.resource.for_admins:
            rows = await self._listed(call.person, what)
        name = self.resource.collection
        links = listing.links(rows, what, address=call.address, query=call.raw_query)
        picked = _picked(self._visible(call.person), what.fields)
        names = {one.name for one in picked}
        cut = [{key: value for key, value in row.items() if key in names} for row in rows]
        return {name: cut, **({f"{name}_links": links} if links else {})}

    async def _listed(self, person: access.Person, what: listing.Listing) -> list[listing.Shown]:
        table = self.resource.table
        visible = policy.visible(person, shares="shared" in self._fields())
        wanted = listing.question(table, what, visible=visible)
        shown = _picked(self._visible(person), what.fields)
        deciding = [one for one in table.values() if one.name in what.looked_at]
        if not what.limit:
            both = {one.name: one for one in (*shown, *deciding)}
            return listing.chosen(await self._read(list(both.values()), wanted), what)
        rows = listing.page(listing.chosen(await self._read(deciding, wanted), what), what)
        if not rows:
            return []
        ids = [["=", "uuid", row["id"]] for row in rows]
        full = {row["id"]: row for row in await self._read([*shown, table["id"]], ["|", *ids])}
        return [full[row["id"]] for row in rows if row["id"] in full]

    async def _read(self, shown: Iterable[attributes.Attribute], wanted: master.Filter | None) -> list[listing.Shown]:
        """Return objects with some attributes; only the fields that these need are asked for."""
        chosen = list(shown)
        fields = sorted({name for one in chosen for name in one.fields})
        rows = await self._master.rows(self.resource.kind, fields, wanted)
        return [attributes.shown(chosen, row) for row in rows]

    async def show_one(self, call: calls.Call, key: str) -> dict[str, object]:
        """Return one object."""
        picked = _picked(self._visible(call.person), tuple(call.query.get("fields", ())))
        fields = {name for one in picked for name in one.fields}
        row = await self._one(call.person, key, fields, wrapped=False)
        return {self.resource.name: attributes.shown(picked, row)}

    async def create(self, call: calls.Call) -> dict[str, object]:
        """Make one object, or several of which all or none are made."""
        rule = f"create_{self.resource.name}"
        bodies, bulk = self._bodies(call)
        policy.check_create(call.person, rule=rule, everybody=not self.resource.for_admins)
        made = [self._values(call.person, body, rule=rule) for body in bodies]
        rows = await self._make(call, made, requirements.of(call.person, served=self.resource, made=made, rule=rule))
        visible = self._visible(call.person)
        shown = [{**dict.fromkeys(self.resource.nulls), **attributes.shown(visible, row)} for row in rows]
        return {self.resource.collection: shown} if bulk else {self.resource.name: shown[0]}

    async def _make(
        self, call: calls.Call, made: Sequence[attributes.Values], required: Sequence[requirements.Requirement]
    ) -> list[attributes.Row]:
        conditions = [each.condition for each in required]
        query = self._computed([str(one["id"]) for one in made])
        try:
            done = await self._master.run(self.resource.make(made), call.asked, conditions=conditions, query=query)
        except jobs.ConditionError as error:
            raise required[error.index].fault from None
        except jobs.PartlyDoneError as error:
            rows = [{"uuid": one["id"], "network_uuid": one.get("network_id")} for one in made[: len(error.done)]]
            await self._master.run([self.resource.remove(row) for row in rows], call.asked)
            raise self.resource.fault(error.cause, made[len(error.done)]) from None
        except errors.GantryError as error:
            raise self.resource.fault(error, made[0]) from None
        return self._whole(made, done)

    def _computed(self, uuids: Iterable[str]) -> master.Query | None:
        """Return the query for the fields of objects that no result of a job has, None where there are none."""
        if not self.resource.computed:
            return None
        these: master.Filter = ["|", *(["=", "uuid", uuid] for uuid in uuids)]
        return master.Query(self.resource.kind, ["uuid", *self.resource.computed], these)

    def _whole(self, requested: Sequence[attributes.Values], done: jobs.Done) -> list[attributes.Row]:
        """Return the objects that a job has left, with their computed fields."""
        computed = {row["uuid"]: row for row in done.rows}
        return [{**row, **computed.get(row["uuid"], {})} for row in self.resource.made(requested, done.results)]

    def _values(self, person: access.Person, body: dict[str, object], *, rule: str) -> attributes.Values:
        if "tenant_id" in body:
            body = {**body, "project_id": body.get("project_id", body["tenant_id"])}
            del body["tenant_id"]
        policy.check_attributes(person, self.resource.table, body, rule=rule)
        made = attributes.created(self.resource.table, body)
        policy.check_values(person, self.resource.table, made, rule=rule)
        made["project_id"] = policy.project_of(person, made.get("project_id", attributes.UNSET))
        made["id"] = self._master.uuid()
        return made

    async def update(self, call: calls.Call, key: str) -> dict[str, object]:
        """Change an object and return it."""
        (body,), _ = self._bodies(call)
        rule = f"update_{self.resource.name}"
        row = await self._changeable(call.person, key, rule=rule)
        policy.check_attributes(call.person, self.resource.table, body, rule=rule)
        given = attributes.changed(self.resource.table, body)
        policy.check_values(call.person, self.resource.table, given, rule=rule)
        changed = await self._change(call, row, given)
        return {self.resource.name: attributes.shown(self._visible(call.person), changed)}

    async def _change(self, call: calls.Call, row: attributes.Row, changed: attributes.Values) -> attributes.Row:
        if not changed and not self.resource.counts_nothing:
            return await self._one(call.person, str(row["uuid"]), self._fields())
        told = {**row, **changed, "id": row["uuid"]}
        try:
            done = await self._master.run(
                [self.resource.change(row, changed)], call.asked, query=self._computed([str(row["uuid"])])
            )
        except errors.GantryError as error:
            raise self.resource.fault(error, told) from None
        (one,) = self._whole([told], done)
        return one

    async def delete(self, call: calls.Call, key: str) -> None:
        """Remove an object."""
        row = await self._changeable(call.person, key, rule=f"delete_{self.resource.name}")
        try:
            await self._master.run([self.resource.remove(row)], call.asked)
        except errors.GantryError as error:
            raise self.resource.fault(error, {"id": key}) from None

    async def tags(self, call: calls.Call, key: str) -> list[str]:
        """Return the tags of an object, sorted."""
        if self.resource.for_admins and not call.person.is_admin:
            raise faults.forbidden(f"get_{self.resource.name}:tags")
        row = await self._one(call.person, key, {"tags"})
        return sorted(str(tag) for tag in _list(row.get("tags")))

    def changing_tags(self, key: str) -> asyncio.Lock:
        """Return what is held from a look at the tags of an object to their change: nobody else changes them then."""
        return self._changing_tags.setdefault(key, asyncio.Lock())

    async def set_tags(self, call: calls.Call, key: str, tags: Iterable[str]) -> None:
        """Give an object exactly these tags."""
        rule = f"update_{self.resource.name}"
        if self.resource.for_admins and not call.person.is_admin:
            raise faults.forbidden(f"{rule}:tags")
        row = await self._changeable(call.person, key, rule=rule)
        await self._change(call, row, {"tags": sorted(set(tags))})

    def _visible(self, person: access.Person) -> list[attributes.Attribute]:
        return [one for one in self.resource.table.values() if one.listed and (person.is_admin or not one.admin)]

    async def _changeable(self, person: access.Person, key: str, *, rule: str) -> attributes.Row:
        """Return what has to be known of an object to change it; FaultError when somebody may not."""
        if person.is_admin and not self.resource.needs:
            return {"uuid": self._uuid(key)}
        row = await self._one(person, key, self.resource.needs)
        policy.check_change(person, row, rule=rule)
        return row

    async def _one(
        self, person: access.Person, key: str, fields: Iterable[str], *, wrapped: bool = True
    ) -> attributes.Row:
        """Return an object that somebody may see; FaultError 404."""
        known = sorted({*fields, "uuid", "project", "shared"} & self._fields())
        rows = await self._master.rows(self.resource.kind, known, ["=", "uuid", self._uuid(key)])
        if not rows or not policy.may_see(person, rows[0]):
            raise self.resource.missing(key)
        if self.resource.for_admins and not person.is_admin:
            raise faults.hidden(wrapped=wrapped)
        return rows[0]

    def _fields(self) -> set[str]:
        """Return all fields of the master that attributes are made of, and those that changes need."""
        return {*self.resource.needs, *(name for one in self.resource.table.values() for name in one.fields)}

    def _uuid(self, key: str) -> str:
        """Return the UUID of a path; FaultError 404 for what is none, a name above all."""
        if not values.is_uuid(key):
            raise self.resource.missing(key)
        return key

    def _bodies(self, call: calls.Call) -> tuple[list[dict[str, object]], bool]:
        """Return the objects of a body, and whether they are a list; FaultError 400."""
        body = call.decoded()
        if isinstance(body, dict):
            one, many = body.get(self.resource.name), body.get(self.resource.collection)
            if isinstance(one, dict):
                return [one], False
            if isinstance(many, list) and many and all(isinstance(each, dict) for each in many):
                if len(many) > MOST:
                    raise faults.bad_request(f"A request makes at most {MOST} objects, this one has {len(many)}")
                return many, True
        raise faults.bad_request(f"Unable to find '{self.resource.name}' in request body")


def _picked(visible: Sequence[attributes.Attribute], fields: tuple[str, ...]) -> list[attributes.Attribute]:
    """Return the attributes that are asked for by name, all when none is."""
    return [one for one in visible if not fields or one.name in fields]


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
