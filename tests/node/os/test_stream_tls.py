"""Which keys a node that sends a dump accepts from the receiver."""

import pytest
from tests.state import build

from gantry import security
from gantry.node.os import stream_tls
from gantry.runtime import simulated

KEY = "a" * 64


@pytest.mark.parametrize(
    ("recorded", "keys"), [(None, None), ("", None), (f"n1={KEY}\n", {KEY})], ids=["no file", "no key", "a key"]
)
def test_any_key_counts_only_if_the_cluster_has_recorded_none(recorded: str | None, keys: set[str] | None) -> None:
    with simulated.World(seed=1) as world:
        machine = world.machine("one")
        for folder in (build.WHERE.certificates, build.WHERE.ssconf):
            build.on(world, machine, machine.disk.make_directory(folder))
        authority = security.make_authority("one", 1_750_000_000.0).certificates
        build.on(world, machine, machine.disk.write(f"{build.WHERE.certificates}/authority.pem", authority))
        if recorded is not None:
            path = f"{build.WHERE.ssconf}/ssconf_node_certs"
            build.on(world, machine, machine.disk.write(path, recorded.encode()))
        context = stream_tls.Contexts(machine.disk, build.WHERE).client()
        assert isinstance(context, security.MemberContext)
        assert context.keys("203.0.113.1") == keys
