import argparse

import pytest

from gantry import errors
from gantry.daemons import binding
from gantry.runtime import simulated


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    binding.add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_socket_of_this_machines_master_is_meant_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ROOT", "/here")
    assert parsed("--cluster").cluster == "/here/run/master.sock"
    assert parsed("--cluster", "/run/other.sock").cluster == "/run/other.sock"


def test_there_is_no_ledger_without_a_cluster_and_no_site_with_a_slash() -> None:
    with simulated.World(seed=1) as world:
        runtime = world.machine("m1")
        assert binding.ledger_of(runtime, parsed()) is None
        ledger = binding.ledger_of(runtime, parsed("--cluster", "/run/other.sock", "--site", "lab-1"))
        assert ledger is not None
        assert ledger.site == "lab-1"
        with pytest.raises(errors.InvalidError, match="is not a valid site name"):
            binding.ledger_of(runtime, parsed("--cluster", "/run/other.sock", "--site", "lab/1"))
