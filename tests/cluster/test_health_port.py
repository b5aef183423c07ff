"""The health port of the master daemon, as an init system and a monitoring system ask it."""

import contextlib
import urllib.error
import urllib.request
from concurrent import futures

import pytest
from tests import ports
from tests.cluster import lab


def get(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of an answer; 0 if nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=lab.TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.slow
def test_a_master_is_ready_while_it_can_acknowledge_and_says_what_it_waits_for(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.kill_master()
    port = ports.free()
    daemon = own.start_master("--health-port", str(port))
    try:
        lab.wait_until(lambda: get(port, "/readyz") == (200, "ok\n"), "a master that is ready")
        status, text = get(port, "/metrics")
        assert status == 200
        assert "gantry_journal_records_total" in text
        assert "gantry_node_call_duration_seconds" in text
        with futures.ThreadPoolExecutor(100) as clients:
            answers = list(clients.map(lambda path: get(port, path)[0], ["/healthz", "/metrics"] * 50))
        assert answers == [200] * 100
        for node in own.nodes[1:]:
            node.stop()
        lab.wait_until(lambda: get(port, "/readyz")[0] == 503, "a master without a majority")
        assert "waits for a majority of the master candidates: " in get(port, "/readyz")[1]
        assert get(port, "/healthz") == (200, "ok\n")
        for node in own.nodes[1:]:
            node.start()
        lab.wait_until(lambda: get(port, "/readyz") == (200, "ok\n"), "a master with a majority again")
    finally:
        with contextlib.suppress(ProcessLookupError):
            daemon.terminate()
        daemon.communicate()
