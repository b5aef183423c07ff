"""The Python clients of the Kubernetes API, in typical use, on either server."""

import os

import pytest
from tests.kubernetes import server_process
from tests.kubernetes.contract import backends

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (os.environ.get("GANTRY_REAL") or os.environ.get("GANTRY_KUBE")),
        reason="takes minutes; make test-real and make test-kube run it",
    ),
]

INSIDE = server_process.HERE / "inside"
HOLD = [True, ["example.com/hold"]]


def test_the_official_client_works(backend: backends.Backend) -> None:
    assert backend.python(INSIDE / "official.py") == {
        "version": str(backend.version[1]), "namespaces": ["default", "official"], "twice": [409, "AlreadyExists"],
        "patched": [24, 2], "status": 9, "watched": ["MODIFIED", "MODIFIED"], "late": 409, "dynamic": ["official"],
        "applied": "me", "left": ["applied"],
    }  # fmt: skip


def test_lightkube_works(backend: backends.Backend) -> None:
    assert backend.python(INSIDE / "light.py") == {
        "namespaces": ["default", "light"], "strategic": 415, "patched": 24, "watched": ["MODIFIED", "one"],
        "applied": "light", "secret": {"key": "dmFsdWU="}, "listed": ["one", "two"], "gone": "NotFound",
    }  # fmt: skip


def test_a_kopf_operator_works(backend: backends.Backend) -> None:
    assert backend.python(INSIDE / "handlers.py") == {
        "created": "watched", "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"], "updated": 24,
        "deleted": "watched", "ended": True,
    }  # fmt: skip


def test_kr8s_works(backend: backends.Backend) -> None:
    assert backend.python(INSIDE / "small.py") == {
        "patched": [24, 2], "listed": ["small"], "held": HOLD, "watched": [["ADDED", "small"], ["DELETED", "small"]],
        "exists": False,
    }  # fmt: skip


def test_kubernetes_asyncio_works(backend: backends.Backend) -> None:
    assert backend.python(INSIDE / "asynchronous.py") == {
        "default": 400, "patched": [24, 2], "listed": ["async"], "held": HOLD,
        "watched": ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], "gone": 404,
    }  # fmt: skip
