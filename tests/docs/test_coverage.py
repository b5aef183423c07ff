"""What is written by hand names everything that there is of its kind."""

import re
import tomllib

import pytest
from tests.docs import pages

from gantry.doors import luxi
from gantry.doors.neutron.resources import ranges
from gantry.ipam.sql import driver as sql_driver
from gantry.node.os import script_environment
from gantry.rpc import calls


def _words(page: str) -> set[str]:
    """Return what a page says in code."""
    return set(re.findall(r"`([^`\n]+)`", (pages.DOCS / page).read_text()))


def test_every_method_of_luxi_is_described_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (pages.DOCS / "reference/luxi.md").read_text(), flags=re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    assert described == set(luxi.METHODS)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((pages.CHECKOUT / "pyproject.toml").read_text())["project"]
    dependencies = project["dependencies"] + [
        each for group in project["optional-dependencies"].values() for each in group
    ]
    text = (pages.DOCS / "explanation/dependencies.md").read_text()
    for name in (re.split(r"[<>=]", each)[0] for each in dependencies):
        assert name in text, name


@pytest.mark.promise("ipam-39")
def test_every_module_of_the_driver_for_neutron_is_described_for_developers() -> None:
    modules = {path.stem for path in (pages.CHECKOUT / "src/gantry/ipam/neutron").glob("*.py")} - {"__init__"}
    assert modules <= _words("how-to/neutron-ipam-driver.md")


@pytest.mark.promise("ipam-39")
def test_every_call_of_the_sql_driver_is_described_for_developers() -> None:
    text = (pages.DOCS / "explanation/sql-ipam.md").read_text()
    (section,) = [part for part in text.split("\n## ") if part.startswith("The interface\n")]
    described = set(re.findall(r"`(?:Driver\.)?(\w+)(?:\([^`]*\))?`", section))
    calls_of_driver = {name for name in vars(sql_driver.Driver) if not name.startswith("_")}
    assert len(calls_of_driver) > 10
    assert calls_of_driver - described == set()


@pytest.mark.promise("segments-89")
def test_operators_are_warned_to_update_their_procedures_before_they_turn_segment_ranges_on() -> None:
    text = (pages.DOCS / "how-to/segments.md").read_text()
    warning = text.index("**Warning: before you allow ranges besides those of the file, update your procedures**")
    assert warning < text.index("gnt-cluster modify --segment-ranges yes")
    (paragraph,) = [part for part in text.split("\n\n") if part.startswith("**Warning")]
    assert "the documentation of your site" in paragraph


@pytest.mark.promise("segments-92")
def test_every_attribute_of_a_segment_range_is_in_the_api_reference() -> None:
    page = (pages.DOCS / "reference/neutron.md").read_text()
    (section,) = [part for part in page.split("\n## ") if "network_segment_ranges" in part.partition("\n")[0]]
    assert set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)) == set(ranges.TABLE)


def test_every_variable_of_an_os_script_is_described() -> None:
    address = calls.Address(ip="192.0.2.4", subnet="192.0.2.0/24", gateway="192.0.2.1")
    six = calls.Address(ip="2001:db8::4", subnet="2001:db8::/64", gateway="2001:db8::1")
    segment = calls.Segment(network_type="vlan", segmentation_id=5, physical_network="physnet1")
    network = calls.Network(name="net1", uuid="u", mac_prefix="aa:00:01", tags=("web",), segment=segment)
    nic = calls.Nic(
        index=0, uuid="u", mac="m", mode="bridged", link="br0", vlan="5", name="n",
        addresses=(address, six), network=network, mtu=1450,
    )  # fmt: skip
    instance = calls.Instance(
        name="i", uuid="u", hypervisor="kvm", os="note+small", nics=(nic,),
        disks=(calls.Disk(index=0, uuid="d", dev_type="file", size=1, name="root"),),
        hvparams={"nic_type": "e1000", "disk_type": "scsi"}, beparams={"vcpus": 1}, osparams={"greeting": "hello"},
    )  # fmt: skip
    variables = script_environment.os_script(instance, {"d": "/disk"}, api_version=20, debug=0, reinstall=True)
    described = _words("how-to/os-definitions.md")
    for name in variables:
        general = re.sub(r"(?<=[A-Z][:_])[01]$", "i", re.sub(r"^(NIC|DISK)_0", r"\1_n", name))
        family = re.sub(r"^(INSTANCE_BE|INSTANCE_HV|OSP)_.*", r"\1_...", general)
        assert {general, family} & described, name


def test_every_ssconf_key_is_described() -> None:
    source = (pages.CHECKOUT / "src/gantry/state/objects/ssconf.py").read_text()
    keys = re.findall(r'^        "(\w+)": ', source, flags=re.MULTILINE)
    assert len(keys) > 10
    assert set(keys) <= _words("reference/files.md")
