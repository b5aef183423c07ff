"""Rendered network data with its consumers: cloud-init's converter, and Nova's schema in Ironic.

cloud-init is Debian's package, unpacked; Ironic comes from the package registry. Both are kept in the user's cache.
"""

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests import cache
from tests.kubernetes.claims import test_template

from gantry import errors
from gantry.kubernetes.api import schema
from gantry.kubernetes.claims import template

pytestmark = [pytest.mark.real]

HERE = Path(__file__).parent
PINNED = HERE / "rendering.txt"
MACS = {"52:54:00:12:00:01": "em1", "52:54:00:12:00:02": "em2"}
GIFTS = {**test_template.GIFTS, "alone": template.PoolValues("198.51.100.7", 28)}


class Judgement(NamedTuple):
    """The links and name servers that cloud-init reads, by name, and violations of the schema."""

    links: dict[str, schema.Json]
    servers: list[str]
    errors: list[str]


class Judges:
    """The consumers of network data."""

    def __init__(self) -> None:
        if missing := [name for name in ("apt-get", "dpkg-deb") if not shutil.which(name)]:
            pytest.skip(f"there is no {', '.join(missing)} here, so no cloud-init")
        try:
            self.cloudinit = cache.cached("cloudinit", HERE / "cloudinit.sh")
        except AssertionError as error:
            pytest.skip(f"the package cloud-init cannot be had: {error}")
        self.python = cache.environment("rendering", PINNED, "--no-deps", "--requirement", str(PINNED)) / "bin/python"

    def say(self, rendered: schema.Json) -> Judgement:
        """Return the result of the consumers for network data from a Secret."""
        text = json.dumps({"data": rendered, "macs": MACS})
        script = HERE.parents[1] / "kubernetes/inside/rendering.py"
        done = subprocess.run(
            [self.python, script, self.cloudinit], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        items = msgspec.convert(answer["config"]["config"], list[schema.Json])
        links = {str(item["name"]): item for item in items if item["type"] != "nameserver"}
        servers = [str(item["address"]) for item in items if item["type"] == "nameserver"]
        return Judgement(links, servers, answer["errors"])


@pytest.fixture(scope="module")
def judges() -> Judges:
    return Judges()


def rendered(spec: schema.Json, version: str = "v1beta1", gifts: template.ValuesByPool = GIFTS) -> schema.Json:
    return template.network_data(test_template.read(spec, version=version), test_template.MACHINE, gifts)


def subnets(link: schema.Json) -> list[tuple[object, ...]]:
    entries = msgspec.convert(link["subnets"], list[schema.Json])
    return [(entry["type"], entry.get("address"), entry.get("netmask")) for entry in entries]


@pytest.mark.promise("claims-50")
@test_template.BOTH
def test_what_is_rendered_is_read_by_cloud_init_and_fits_the_schema(
    judges: Judges, spec: schema.Json, version: str
) -> None:
    answer = judges.say(rendered(spec, version))
    assert answer.errors == []
    assert set(answer.links) == {"bond0", "em1", "second", "bond0.7"}
    assert (answer.links["bond0"]["type"], answer.links["bond0"]["bond_interfaces"]) == ("bond", ["em1", "second"])
    # It has no MAC address of its own.
    assert answer.links["bond0.7"]["mac_address"] == answer.links["em1"]["mac_address"] == "52:54:00:12:00:01"
    assert subnets(answer.links["bond0.7"]) == [
        ("static", "192.0.2.10", "255.255.255.192"),
        ("static6", "2001:db8:7::10", "ffff:ffff:ffff:ffff::"),
    ]
    assert subnets(answer.links["second"]) == [
        ("static", "198.51.100.7", "255.255.255.240"),
        ("dhcp4", None, None),
        ("ipv6_slaac", None, None),
    ]
    assert answer.servers == ["9.9.9.9", "192.0.2.2", "192.0.2.3"]


def test_a_network_without_its_id_would_not_fit_the_schema(judges: Judges) -> None:
    networks = copy.deepcopy(rendered(test_template.SPEC))
    listed = networks["networks"]
    assert isinstance(listed, list)
    del listed[0]["network_id"]
    (error,) = judges.say(networks).errors
    assert error.startswith("networks.0:")


def test_a_single_address_is_read_though_the_schema_knows_no_such_netmask(judges: Judges) -> None:
    answer = judges.say(rendered(test_template.SPEC, gifts=test_template.GIFTS))
    assert subnets(answer.links["second"])[0] == ("static", "198.51.100.7", "255.255.255.255")
    (error,) = answer.errors
    assert error.startswith("networks.1:")


def test_a_route_without_a_gateway_is_not_rendered() -> None:
    gifts = {**GIFTS, "front": template.PoolValues("192.0.2.10", 26)}
    with pytest.raises(errors.NotFoundError, match=r"pool front has no gateway.*0\.0\.0\.0/0"):
        rendered(test_template.SPEC, gifts=gifts)
