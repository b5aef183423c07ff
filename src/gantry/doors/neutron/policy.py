"""The permissions of the Neutron API (contracts/neutron-api.md#policy).

Administrators may do everything. Other users see objects that are their project's or shared, but no segment ranges and
no provider attributes, and they may change objects of their project unless they are readers. An object that a user may
not see does not exist for that user. The refusal of a change names the policy rule, as in the recorded service.
"""

from collections.abc import Iterable, Mapping

from gantry.doors.neutron import access, attributes, faults, master


def may_see(person: access.Person, row: attributes.Row) -> bool:
    """Return whether the user may see an object, by its fields ``project`` and ``shared``."""
    return person.is_admin or _is_own(person, row) or row.get("shared") is True


def visible(person: access.Person, *, shares: bool) -> master.Filter | None:
    """Return ``may_see`` as a filter of the master, None for all objects; some kinds are never shared."""
    if person.is_admin:
        return None
    return ["|", own(person), ["?", "shared"]] if shares else own(person)


def own(person: access.Person) -> master.Filter:
    """Return a filter of the master for the objects of the user's project; none if the user has no project."""
    return ["=", "project", person.project] if person.project else ["|"]


def _is_own(person: access.Person, row: attributes.Row) -> bool:
    return bool(person.project) and row.get("project") == person.project


def check_change(person: access.Person, row: attributes.Row, *, rule: str) -> None:
    """Raise FaultError if the user, who may see an object, may not change it."""
    if person.is_admin or (person.role is access.Role.MEMBER and _is_own(person, row)):
        return
    raise faults.forbidden(rule)


def check_create(person: access.Person, *, rule: str, everybody: bool) -> None:
    """Raise FaultError if the user may not create objects of a kind; ``everybody`` includes all but readers."""
    if person.is_admin or (everybody and person.role is access.Role.MEMBER):
        return
    raise faults.forbidden(rule)


def check_attributes(person: access.Person, table: attributes.Table, body: Mapping[str, object], *, rule: str) -> None:
    """Raise FaultError if a body has attributes that only administrators may set."""
    if person.is_admin:
        return
    restricted = [name for name in table if name in body and table[name].admin]
    if restricted:
        raise faults.forbidden(_combined(rule, restricted))


def check_values(person: access.Person, table: attributes.Table, requested: Mapping[str, object], *, rule: str) -> None:
    """Raise FaultError if an attribute has the value that only administrators may set."""
    restricted = [name for name, value in requested.items() if value is table[name].reserved]
    if restricted and not person.is_admin:
        raise faults.forbidden(_combined(rule, restricted))


def _combined(rule: str, names: Iterable[str]) -> str:
    """Return the text for a rule and the rules of its attributes, as in the recorded service."""
    text = f"rule:{rule}"
    for name in names:
        text = f"({text} and rule:{rule}:{name})"
    return text


def project_of(person: access.Person, requested: object) -> str:
    """Return the project of a new object; FaultError if the request names another project without permission."""
    if requested is attributes.UNSET or requested == person.project:
        return person.project
    if not person.is_admin:
        raise faults.bad_request(
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin "
            "privileges"
        )
    return str(requested)
