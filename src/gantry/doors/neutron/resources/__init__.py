"""The resources of the Neutron door, a module each: what an object is made of, and the opcodes that change it."""

from gantry.doors.neutron import resource
from gantry.doors.neutron.resources import networks, ports, ranges, subnetpools, subnets

ALL: tuple[resource.Resource, ...] = (
    networks.RESOURCE,
    subnets.RESOURCE,
    subnetpools.RESOURCE,
    ports.RESOURCE,
    ranges.RESOURCE,
)
