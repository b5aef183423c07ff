"""The requirements of new objects as conditions: the network that contains it, the subnet pool of its CIDR.

The master checks the conditions before it submits the job that creates the object, so a POST is one trip. An
administrator may use every network and pool. For other users a network or pool that they may not see does not exist;
the messages are those of the recorded service.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gantry.doors.neutron import access, attributes, faults, master, policy, resource, values

_TITLES = {"network": ("Network", "Network"), "subnetpool": ("SubnetPool", "Subnet pool")}


@dataclass(frozen=True)
class Requirement:
    """A condition of a job, and the fault that the client gets if the condition is not met."""

    condition: master.Condition
    fault: faults.FaultError


def of(
    person: access.Person, *, served: resource.Resource, requested: Sequence[attributes.Values], rule: str
) -> list[Requirement]:
    """Return the requirements of new objects, in the order in which the recorded service checks them; FaultError 400.

    An object that is to use the default subnet pool gets ``default_subnetpool``, the IP version of that pool.
    """
    requirements: list[Requirement] = []
    for each in requested:
        if each.get("use_default_subnetpool"):
            each["default_subnetpool"] = version = _version(each)
            requirements.append(_default_pool(person, version))
    if person.is_admin:
        return requirements
    for uuid in _named(requested, "network_id") if served.inside else ():
        requirements.append(_visible(person, "network", uuid))
        if served.inside == "owned":
            own: master.Filter = ["&", ["=", "uuid", uuid], policy.own(person)]
            requirements.append(Requirement(master.Condition("network", own), faults.forbidden(rule)))
    return [*requirements, *(_visible(person, "subnetpool", uuid) for uuid in _named(requested, "subnetpool_id"))]


def _named(requested: Sequence[attributes.Values], name: str) -> Iterator[str]:
    """Yield each UUID that an attribute of new objects names, once."""
    yield from dict.fromkeys(str(each[name]) for each in requested if each.get(name))


def _visible(person: access.Person, kind: str, uuid: str) -> Requirement:
    noun, title = _TITLES[kind]
    fault = faults.FaultError(404, f"{noun}NotFound", f"{title} {uuid} could not be found.")
    return Requirement(master.Condition(kind, _and_visible(person, ["=", "uuid", uuid])), fault)


def _default_pool(person: access.Person, version: int) -> Requirement:
    condition = _and_visible(person, ["?", "is_default"], ["=", "ip_version", version])
    fault = _bad_subnet(f"No default subnetpool found for IPv{version}")
    return Requirement(master.Condition("subnetpool", condition), fault)


def _and_visible(person: access.Person, *conditions: master.Filter) -> master.Filter:
    visible = policy.visible(person, shares=True)
    return ["&", *conditions, *([visible] if visible else [])]


def _version(subnet: attributes.Values) -> int:
    """Return the IP version of a subnet that is to use the default subnet pool; FaultError 400."""
    if subnet.get("subnetpool_id"):
        raise _bad_subnet("subnetpool_id and use_default_subnetpool cannot both be specified")
    return values.version(subnet["cidr"]) if subnet.get("cidr") else msgspec.convert(subnet["ip_version"], int)


def _bad_subnet(message: str) -> faults.FaultError:
    return faults.FaultError(400, "BadRequest", f"Bad subnets request: {message}.")
