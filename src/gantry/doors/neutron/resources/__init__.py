"""The resources of the Neutron API, a module each: the attributes of an object, and the opcodes that change it."""

from gantry.doors.neutron import resource
from gantry.doors.neutron.resources import networks, ports, ranges, subnetpools, subnets

ALL: tuple[resource.Resource, ...] = (
    networks.RESOURCE,
    subnets.RESOURCE,
    subnetpools.RESOURCE,
    ports.RESOURCE,
    ranges.RESOURCE,
)
