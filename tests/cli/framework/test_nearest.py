"""The hint of the error about a name that no object has."""

import pytest
from tests.cli.conftest import Fault, Gnt, Master

MISSING = Fault("OpPrereqError", "no such instance: wbe1; gnt-instance list shows those there are", "unknown_entity")
TEXT = "Failure: prerequisites not met for this operation:\nerror type: unknown_entity, error details:\n"


def _raise(fault: Fault) -> object:
    def answer(*_: object) -> object:
        raise fault

    return answer


@pytest.mark.parametrize(
    ("noun", "resource", "command"),
    [
        ("instance", "instance", "gnt-instance list"),
        ("node", "node", "gnt-node list"),
        ("node group", "group", "gnt-group list"),
        ("network", "network", "gnt-network list"),
    ],
)
def test_an_unknown_name_has_the_most_similar_name_as_its_hint(
    gnt: Gnt, master: Master, noun: str, resource: str, command: str
) -> None:
    message = f"no such {noun}: wbe1; {command} shows those there are"
    master.answers["Query"] = _raise(Fault("OpPrereqError", message, "unknown_entity"))
    master.answers["QuerySimilarNames"] = lambda what, name: (
        ["wbe2b", "web1"] if (what, name) == (resource, "wbe1") else []
    )
    ran = gnt(f"{command} wbe1")
    assert (ran.code, ran.err) == (1, f"{TEXT}no such {noun}: wbe1; did you mean web1?\n")


@pytest.mark.parametrize("answer", [[], ["quite-different"], None, _raise(Fault("LuxiError", "no such method"))])
def test_without_a_similar_name_the_hint_is_that_of_the_master(gnt: Gnt, master: Master, answer: object) -> None:
    master.answers |= {"Query": _raise(MISSING), "QuerySimilarNames": answer}
    ran = gnt("gnt-instance list wbe1")
    assert (ran.code, ran.err) == (1, f"{TEXT}no such instance: wbe1; gnt-instance list shows those there are\n")


@pytest.mark.parametrize(
    "fault",
    [
        Fault("OpPrereqError", "no such instance: wbe1", "wrong_input"),
        Fault("OpPrereqError", "port p: no such network: wbe1", "unknown_entity"),
        Fault("OpExecError", "no such instance: wbe1"),
    ],
)
def test_other_errors_are_not_changed(gnt: Gnt, master: Master, fault: Fault) -> None:
    master.answers |= {"Query": _raise(fault), "QuerySimilarNames": ["web1"]}
    assert "did you mean" not in gnt("gnt-instance list wbe1").err
    assert [method for method, _ in master.requests] == ["Query"]


def test_each_of_several_jobs_has_its_hint(gnt: Gnt, master: Master) -> None:
    master.results["OP_INSTANCE_STARTUP"] = MISSING
    master.answers["QuerySimilarNames"] = ["web1"]
    err = gnt("gnt-instance start --force-multiple wbe1 wbe1").err
    assert err.count("no such instance: wbe1; did you mean web1?") == 2


def test_the_owner_of_an_address_may_be_of_several_kinds(gnt: Gnt, master: Master) -> None:
    message = "no instance, port, node or network with an address is named wbe1; former owners: gnt-network address"
    master.answers["QueryAddress"] = _raise(Fault("OpPrereqError", message, "unknown_entity"))
    master.answers["QuerySimilarNames"] = lambda what, _: ["web1"] if what == "node" else []
    assert gnt("gnt-network address wbe1").err.splitlines()[-1] == (
        "no instance, port, node or network with an address is named wbe1; did you mean web1? "
        "former owners: gnt-network address"
    )
    assert [arguments for method, arguments in master.requests if method == "QuerySimilarNames"] == [
        [kind, "wbe1"] for kind in ("instance", "node", "network")
    ]
