"""Each setting of the cluster is a field of the cluster and of its opcode, with the declared default and text."""

import msgspec
import pytest

from gantry.cli.framework import opcode_fields
from gantry.model import cluster, cluster_settings, opcodes
from tools import descriptions

SETTINGS = cluster_settings.ALL.items()


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_a_setting_is_a_field_of_the_cluster_with_its_default(name: str, setting: cluster_settings.AnySetting) -> None:
    fresh = cluster.Cluster(uuid="c", name="c", master_node="n")
    assert getattr(fresh, name) == setting.default
    assert type(getattr(fresh, name)) is type(setting.default)


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_a_setting_is_a_field_of_the_opcode_with_its_text(name: str, setting: cluster_settings.AnySetting) -> None:
    info = msgspec.inspect.type_info(opcodes.ClusterSetParams)
    assert isinstance(info, msgspec.inspect.StructType)
    (field,) = (field for field in info.fields if field.name == name)
    assert field.default is None
    assert descriptions.of(field.type) == setting.text


def test_the_commands_know_each_setting() -> None:
    assert opcode_fields.SETTINGS.keys() == cluster_settings.ALL.keys()


@pytest.mark.parametrize(
    ("policy", "candidates", "copies"),
    [("majority", 1, 1), ("majority", 2, 2), ("majority", 3, 2), ("majority", 4, 3), ("all", 4, 4), ("seed", 3, 2)],
)
def test_a_policy_says_how_many_copies_it_needs(policy: str, candidates: int, copies: int) -> None:
    assert cluster_settings.Replication(policy).copies_needed(candidates) == copies


def test_only_the_policy_seed_lets_a_master_continue_alone() -> None:
    assert [policy.value for policy in cluster_settings.Replication if policy.continues_alone] == ["seed"]
