"""A node daemon that is stopped, as by a debugger or a machine that hangs: commands do not wait for it.

``tests/sim`` has how long each takes, by a clock that no other program slows down.
"""

import signal

import pytest
from tests.cluster import lab, test_rapi


@pytest.mark.promise("cluster-2")
@pytest.mark.slow
def test_commands_do_not_wait_for_a_frozen_node() -> None:
    with lab.lab() as cluster_lab:
        cluster_lab.init()
        cluster_lab.add_node()
        frozen = cluster_lab.add_node()
        for name, node in (("stays.example", "node2"), ("frozen.example", "node3")):
            cluster_lab.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "-n", node, name)
        assert frozen.daemon is not None
        with test_rapi.served(cluster_lab) as remote:
            frozen.daemon.send_signal(signal.SIGSTOP)
            try:
                with lab.without_waiting_for_a_node():
                    assert _status(cluster_lab)["frozen.example"] == "ERROR_nodedown"
                lab.wait_until(lambda: _status(cluster_lab)["stays.example"] == "running", "the other node's answer")
                with lab.without_waiting_for_a_node():
                    assert cluster_lab.rows("gnt-node", "name,mfree")[2] == ["node3", "?"]
                with lab.without_waiting_for_a_node():
                    assert remote.ask("GET", "/2/instances?bulk=1").status == 200
                with lab.without_waiting_for_a_node():
                    assert "node3" in cluster_lab.run("gnt-cluster", "verify", check=False).stdout
                with lab.without_waiting_for_a_node():
                    assert "node3" in cluster_lab.run("gnt-instance", "console", "frozen.example", check=False).stderr
                with lab.without_waiting_for_a_node():
                    renewed = cluster_lab.run("gnt-cluster", "renew-crypto", "--force", check=False)
                assert "node3" in renewed.stdout + renewed.stderr
                frozen.daemon.send_signal(signal.SIGCONT)
                lab.wait_until(lambda: _status(cluster_lab)["frozen.example"] == "running", "the node's answer")
                frozen.daemon.send_signal(signal.SIGSTOP)
                with lab.without_waiting_for_a_node():
                    cluster_lab.run("gnt-node", "modify", "-f", "--offline", "yes", "node3")
                with lab.without_waiting_for_a_node():
                    assert _status(cluster_lab)["frozen.example"] == "ERROR_nodeoffline"
            finally:
                frozen.daemon.send_signal(signal.SIGCONT)


def _status(cluster_lab: lab.Lab) -> dict[str, str]:
    return {row[0]: row[1] for row in cluster_lab.rows("gnt-instance", "name,status")}
