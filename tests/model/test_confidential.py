"""The public and the stored form of the parameters of operating systems."""

import pytest

from gantry import errors
from gantry.model import cluster, confidential, instance, opcodes

OWNER = cluster.Cluster(
    uuid="c",
    name="c",
    master_node="n",
    osparams={"deb": {"a": 1, "b": 1}, "deb+big": {"b": 2}},
    osparams_private_cluster={"deb": {"key": "k1"}},
)
VM = instance.Instance(
    uuid="i",
    name="vm",
    primary_node="n",
    hypervisor="fake",
    os="deb+big",
    osparams={"c": 3},
    osparams_private={"password": "p"},
)
OP = opcodes.InstanceReinstall(
    instance_name="vm", osparams={"a": 1}, osparams_private={"password": "p"}, osparams_secret={"token": "t"}
)


def test_scripts_get_all_and_readers_no_values() -> None:
    assert confidential.filled(OWNER, VM) == {"a": 1, "b": 2, "key": "k1", "c": 3, "password": "p"}
    blank = confidential.BLANK
    assert confidential.filled_public(OWNER, VM) == {"a": 1, "b": 2, "key": blank, "c": 3, "password": blank}
    assert confidential.own_public(VM) == {"c": 3, "password": blank}


def test_an_opcode_is_shown_without_values_and_stored_without_secrets() -> None:
    public = confidential.public(OP)
    assert (public.osparams, public.osparams_private, public.osparams_secret) == (
        {"a": 1}, {"password": "(blanked)"}, {"token": "(blanked)"},
    )  # fmt: skip
    stored, secrets = confidential.split_secrets(OP)
    assert (stored.osparams_private, stored.osparams_secret, secrets) == (
        {"password": "p"}, {"token": "(blanked)"}, {"token": "t"},
    )  # fmt: skip
    assert confidential.with_secrets(stored, secrets) == OP
    with pytest.raises(errors.ExecutionError, match="token"):
        confidential.with_secrets(stored, None)
    settings = opcodes.ClusterSetParams(osparams_private_cluster={"deb": {"key": "k1"}})
    assert confidential.public(settings).osparams_private_cluster == {"deb": {"key": "(blanked)"}}


def test_what_has_none_stays_what_it_is() -> None:
    plain = opcodes.InstanceReinstall(instance_name="vm")
    assert confidential.public(plain) is plain
    assert confidential.split_secrets(plain) == (plain, {})
    assert confidential.with_secrets(plain, None) is plain
    delay = opcodes.TestDelay(duration=1.0)
    assert confidential.split_secrets(delay) == (delay, {})


def test_a_parameter_is_not_public_and_private_at_once() -> None:
    confidential.check_apart(public={"a": 1}, private={"b": 1}, secret={"c": 1})
    with pytest.raises(errors.InvalidError, match="b of the operating system is both private and secret"):
        confidential.check_apart(public={"a": 1}, private={"b": 1}, secret={"b": 1})


@pytest.mark.parametrize(
    ("url", "displayed"),
    [
        ("postgresql://gantry:p4ss@db.example/ipam", "postgresql://gantry@db.example/ipam"),
        ("postgresql://gantry:p/a@s:s@db.example/ipam", "postgresql://gantry@db.example/ipam"),
        ("postgresql://db.example/ipam?password=p4ss&sslmode=require", "postgresql://db.example/ipam?password=(blanked)&sslmode=require"),
        ("postgresql://gantry@db.example/ipam", "postgresql://gantry@db.example/ipam"),
        ("sqlite:///var/lib/gantry/ipam.db", "sqlite:///var/lib/gantry/ipam.db"),
    ],
)  # fmt: skip
def test_the_url_of_a_database_is_shown_without_its_password(url: str, displayed: str) -> None:
    assert confidential.database(url) == displayed
    op = opcodes.ClusterSetParams(ipam_driver="sql", ipam_database=url)
    assert confidential.public(op).ipam_database == displayed
