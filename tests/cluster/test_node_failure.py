"""A node that dies: what goes on without it, how its instances come back, and how it returns."""

import pytest
from tests.cluster import lab


@pytest.mark.promise("cluster-2")
def test_a_cluster_copes_with_a_node_that_dies() -> None:
    with lab.lab() as made:
        made.init()
        made.add_node()
        lost = made.add_node()
        for name, node in (("stays.example", "node2"), ("moves.example", "node3")):
            made.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", node, name)
        assert lost.daemon is not None
        lost.daemon.kill()
        lost.daemon.wait(lab.PATIENCE)

        # All others go on, and what is lost is shown, not waited for.
        assert _status(made) == {"stays.example": "running", "moves.example": "ERROR_nodedown"}
        made.run("gnt-instance", "reboot", "stays.example")
        made.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "new.example")
        assert made.rows("gnt-instance", "pnode", "new.example") != [["node3"]]

        # Nobody starts its instance twice: that the node is really down is its user's to say.
        said = made.refused("gnt-instance", "failover", "-f", "-n", "node2", "moves.example")
        assert "gnt-node modify -f --offline yes node3" in said
        made.run("gnt-node", "modify", "-f", "--offline", "yes", "node3")
        assert _status(made)["moves.example"] == "ERROR_nodeoffline"
        made.run("gnt-node", "failover", "-f", "node3")
        assert set(_status(made).values()) == {"running"}
        made.verified()

        # It returns with the guest that it had; verify sees that, and it can take instances again when that is gone.
        guest = lost.root / "run/instances/fake/moves.example"
        assert guest.exists()
        lost.start()
        made.run("gnt-node", "modify", "--offline", "no", "node3")
        found = made.run("gnt-cluster", "verify", check=False)
        assert found.returncode == 1
        assert "moves.example" in found.stdout
        guest.unlink()
        made.verified()
        made.run("gnt-instance", "failover", "-f", "-n", "node3", "moves.example")
        assert made.rows("gnt-instance", "pnode,status", "moves.example") == [["node3", "running"]]


def _status(made: lab.Lab) -> dict[str, str]:
    return {row[0]: row[1] for row in made.rows("gnt-instance", "name,status")}
