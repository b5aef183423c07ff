"""A node that dies: what continues without it, how its instances come back, and how it returns."""

import shutil

import pytest
from tests.cluster import lab


@pytest.mark.slow
@pytest.mark.promise("cluster-2")
def test_a_cluster_copes_with_a_node_that_dies() -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        lost = cluster_lab.add_node()
        for name, node in (("stays.example", "node2"), ("moves.example", "node3")):
            cluster_lab.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", node, name)
        assert lost.daemon is not None
        lost.daemon.kill()
        lost.daemon.wait(lab.TIMEOUT)

        # All others continue, and what is lost is shown, not waited for.
        _wait_for(cluster_lab, {"stays.example": "running", "moves.example": "ERROR_nodedown"})
        cluster_lab.run("gnt-instance", "reboot", "stays.example")
        cluster_lab.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "new.example")
        assert cluster_lab.rows("gnt-instance", "pnode", "new.example") != [["node3"]]

        # Nobody starts its instance twice: that the node is really down is its user's to say.
        output = cluster_lab.refused("gnt-instance", "failover", "-f", "-n", "node2", "moves.example")
        assert "gnt-node modify -f --offline yes node3" in output
        cluster_lab.run("gnt-node", "modify", "-f", "--offline", "yes", "node3")
        assert _status(cluster_lab)["moves.example"] == "ERROR_nodeoffline"
        cluster_lab.run("gnt-node", "failover", "-f", "node3")
        _wait_for(cluster_lab, dict.fromkeys(("moves.example", "new.example", "stays.example"), "running"))
        cluster_lab.verified()

        # It returns with the guest that it had; verify sees that, and it can take instances again when that is gone.
        guest = lost.root / "run/instances/fake/moves.example"
        assert guest.exists()
        lost.start()
        cluster_lab.run("gnt-node", "modify", "--offline", "no", "node3")
        completed = cluster_lab.run("gnt-cluster", "verify", check=False)
        assert completed.returncode == 1
        assert "moves.example" in completed.stdout
        guest.unlink()
        cluster_lab.verified()
        cluster_lab.run("gnt-instance", "failover", "-f", "-n", "node3", "moves.example")
        assert cluster_lab.rows("gnt-instance", "pnode,status", "moves.example") == [["node3", "running"]]


def _wait_for(cluster_lab: lab.Lab, statuses: dict[str, str]) -> None:
    """Wait until the instances have these statuses: a node that is busy may have been taken for silent."""
    lab.wait_until(lambda: _status(cluster_lab) == statuses, f"the statuses {statuses}")


def _status(cluster_lab: lab.Lab) -> dict[str, str]:
    return {row[0]: row[1] for row in cluster_lab.rows("gnt-instance", "name,status")}


@pytest.mark.slow
def test_a_machine_that_lost_its_files_is_the_node_again() -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        lost = cluster_lab.add_node()
        cluster_lab.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", "node3", "vm.example")
        fields = "uuid,role,pinst_list,group"
        before = cluster_lab.rows("gnt-node", fields, "node3")
        again = ("gnt-node", "add", "--readd", "--join-token-file", lost.root / "lib/join-token", "node3")
        token = lost.root / "token"
        token.write_text("none")
        output = cluster_lab.refused("gnt-node", "add", "--readd", "--join-token-file", token, "node3")
        assert "node node3 answers as a member of the cluster" in output

        former = (lost.root / "lib/certs/node.pem").read_text()
        assert lost.daemon is not None
        lost.daemon.kill()
        lost.daemon.wait(lab.TIMEOUT)
        for folder in ("lib", "run"):
            shutil.rmtree(lost.root / folder)
        lost.start()
        cluster_lab.run("gnt-network", "add", "wire")  # while one of three candidates is lost
        cluster_lab.run(*again)
        assert cluster_lab.rows("gnt-node", fields, "node3") == before
        assert (lost.root / "lib/certs/node.pem").read_text() != former
        lab.wait_until(lambda: (lost.root / "lib/config.data").exists(), "the copy of the state")
        cluster_lab.run("gnt-instance", "start", "vm.example")
        cluster_lab.verified()
