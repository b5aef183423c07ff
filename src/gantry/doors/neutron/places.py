"""What an object to be is made in, a network, and cut from, a subnet pool: whether somebody may use them.

``collection`` asks before the job that makes the object; an administrator may use all. What somebody may not see is not
there for them, in the words of the recorded service.
"""

from collections.abc import Sequence

from gantry.doors.neutron import access, attributes, faults, master, policy, resource, values


async def settle(
    behind: master.Master,
    person: access.Person,
    *,
    served: resource.Resource,
    made: Sequence[attributes.Values],
    rule: str,
) -> None:
    """Name the pool of those that want the default one, and raise FaultError for what somebody may not use."""
    for one in made:
        if one.get("use_default_subnetpool"):
            one["subnetpool_id"] = await _default_pool(behind, person, one)
    if person.is_admin:
        return
    for uuid in _named(made, "network_id") if served.inside else ():
        row = await _seen(behind, person, "network", uuid=uuid)
        if served.inside == "owned":
            policy.check_change(person, row, rule=rule)
    for uuid in _named(made, "subnetpool_id"):
        await _seen(behind, person, "subnetpool", uuid=uuid)


def _named(made: Sequence[attributes.Values], name: str) -> set[str]:
    return {str(one[name]) for one in made if one.get(name)}


async def _seen(behind: master.Master, person: access.Person, kind: str, *, uuid: str) -> attributes.Row:
    rows = await behind.rows(kind, ["project", "shared"], ["=", "uuid", uuid])
    if not rows or not policy.may_see(person, rows[0]):
        noun, title = {"network": ("Network", "Network"), "subnetpool": ("SubnetPool", "Subnet pool")}[kind]
        raise faults.FaultError(404, f"{noun}NotFound", f"{title} {uuid} could not be found.")
    return rows[0]


async def _default_pool(behind: master.Master, person: access.Person, one: attributes.Values) -> object:
    if one.get("subnetpool_id"):
        raise _bad_subnet("subnetpool_id and use_default_subnetpool cannot both be specified")
    version = values.version(one["cidr"]) if one.get("cidr") else one["ip_version"]
    wanted: master.Filter = ["&", ["?", "is_default"], ["=", "ip_version", version]]
    rows = await behind.rows("subnetpool", ["uuid", "project", "shared"], wanted)
    found = next((row["uuid"] for row in rows if policy.may_see(person, row)), None)
    if found is None:
        raise _bad_subnet(f"No default subnetpool found for IPv{version}")
    return found


def _bad_subnet(message: str) -> faults.FaultError:
    return faults.FaultError(400, "BadRequest", f"Bad subnets request: {message}.")
