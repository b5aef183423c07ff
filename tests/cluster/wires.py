"""Networks of their own in a cluster, and what a test does with one."""

import itertools
import shlex
from dataclasses import dataclass, field
from typing import Any

import yaml
from tests.cluster import lab, test_refused_requests

NUMBERS = itertools.count(1)


@dataclass
class Wire:
    """A network of its own, connected to the nodes, and the instances on it."""

    cluster: lab.Lab
    name: str
    instances: list[str] = field(default_factory=list)

    def modify(self, options: str) -> None:
        self.cluster.run("gnt-network", "modify", *shlex.split(options), self.name)

    def refused(self, options: str) -> str:
        """Try a change that must be refused and leave everything as it was; return what was said."""
        with test_refused_requests.unchanged(self.cluster):
            return self.cluster.refused("gnt-network", "modify", *shlex.split(options), self.name)

    def arguments(self, ips: str, *more: str) -> list[object]:
        nic = f"0:network={self.name}" + (f",{ips}" if ips else "")
        return ["gnt-instance", "add", "-t", "diskless", "-n", "node1", "--net", nic, *more]

    def use(self, ips: str, *more: str) -> list[str]:
        """Create an instance and return the addresses it got."""
        name = f"user{next(NUMBERS)}.example"
        self.cluster.run(*self.arguments(ips, *more), name)
        self.instances.append(name)
        with self.cluster.luxi() as luxi:
            answer: Any = luxi.call("Query", "instance", ["nic.ips"], ["=", "name", name])
        return [ip for nic in answer["data"][0][0][1] for ip in nic]

    def not_given(self, ips: str) -> str:
        """Ask for addresses that must not be given; return what was said."""
        with test_refused_requests.unchanged(self.cluster):
            return self.cluster.refused(*self.arguments(ips), "refused.example")

    def free(self, name: str) -> None:
        self.cluster.run("gnt-instance", "remove", "-f", name)
        self.instances.remove(name)

    def query(self, *fields: str) -> list[Any]:
        with self.cluster.luxi() as luxi:
            answer: Any = luxi.call("Query", "network", fields, ["=", "name", self.name])
        (row,) = answer["data"]
        return [value for _, value in row]

    @property
    def subnets(self) -> list[dict[str, Any]]:
        (row,) = self.query("subnets")
        return list(row)

    @property
    def pools(self) -> list[tuple[str, str, str]]:
        """Return first and last address and name of all pools."""
        return [(pool["start"], pool["end"], pool["name"]) for subnet in self.subnets for pool in subnet["pools"]]

    @property
    def external(self) -> list[str]:
        return [run for subnet in self.subnets for run in subnet["external"]]

    def info(self) -> dict[str, Any]:
        (row,) = yaml.safe_load(self.cluster.run("gnt-network", "info", self.name).stdout)
        return dict(row)

    def remove(self) -> None:
        for name in [*self.instances]:
            self.free(name)
        self.cluster.run("gnt-network", "disconnect", self.name, "default")
        self.cluster.run("gnt-network", "remove", "-f", self.name)


def create_wire(cluster: lab.Lab, options: str = "") -> Wire:
    name = f"wire{next(NUMBERS)}"
    cluster.run("gnt-network", "add", *shlex.split(options), name)
    cluster.run("gnt-network", "connect", "-N", "mode=routed,link=main", name, "default")
    return Wire(cluster, name)
