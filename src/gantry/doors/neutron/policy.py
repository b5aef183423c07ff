"""Who may do what at the Neutron door (contracts/neutron-api.md#policy).

Administrators may do everything. Others see what is their project's or shared, segment ranges and provider attributes
not at all, and change what is their project's unless they are readers. What somebody may not see is not there for
them; what they see and may not change is refused by the name of the rule, as the recorded service has it.
"""

from collections.abc import Iterable, Mapping

from gantry.doors.neutron import access, attributes, faults, master


def may_see(person: access.Person, row: attributes.Row) -> bool:
    """Tell whether somebody may see an object with these fields ``project`` and ``shared``."""
    return person.is_admin or _is_own(person, row) or row.get("shared") is True


def visible(person: access.Person, *, shares: bool) -> master.Filter | None:
    """Return what ``may_see`` lets pass as a filter of the master, None for all; some kinds are never shared."""
    if person.is_admin:
        return None
    return ["|", own(person), ["?", "shared"]] if shares else own(person)


def own(person: access.Person) -> master.Filter:
    """Return a filter of the master for the objects of somebody's project; no object is somebody's without one."""
    return ["=", "project", person.project] if person.project else ["|"]


def _is_own(person: access.Person, row: attributes.Row) -> bool:
    return bool(person.project) and row.get("project") == person.project


def check_change(person: access.Person, row: attributes.Row, *, rule: str) -> None:
    """Raise FaultError when somebody who sees an object may not change it."""
    if person.is_admin or (person.role is access.Role.MEMBER and _is_own(person, row)):
        return
    raise faults.forbidden(rule)


def check_create(person: access.Person, *, rule: str, everybody: bool) -> None:
    """Raise FaultError when somebody may not create objects of a kind; ``everybody`` else may, readers excepted."""
    if person.is_admin or (everybody and person.role is access.Role.MEMBER):
        return
    raise faults.forbidden(rule)


def check_attributes(person: access.Person, table: attributes.Table, body: Mapping[str, object], *, rule: str) -> None:
    """Raise FaultError when a body has attributes that only administrators may set."""
    if person.is_admin:
        return
    found = [name for name in table if name in body and table[name].admin]
    if found:
        raise faults.forbidden(_both(rule, found))


def check_values(person: access.Person, table: attributes.Table, given: Mapping[str, object], *, rule: str) -> None:
    """Raise FaultError when an attribute has the value that only administrators may give it."""
    found = [name for name, value in given.items() if value is table[name].reserved]
    if found and not person.is_admin:
        raise faults.forbidden(_both(rule, found))


def _both(rule: str, names: Iterable[str]) -> str:
    """Return a rule and those of its attributes as the recorded service writes them."""
    text = f"rule:{rule}"
    for name in names:
        text = f"({text} and rule:{rule}:{name})"
    return text


def project_of(person: access.Person, wanted: object) -> str:
    """Return whose a new object is; FaultError when it is to be somebody else's and that is not allowed."""
    if wanted is attributes.UNSET or wanted == person.project:
        return person.project
    if not person.is_admin:
        raise faults.bad_request(
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin "
            "privileges"
        )
    return str(wanted)
