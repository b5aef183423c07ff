"""``gantry webhook``: what the master gets of it, when the secret is printed, and how a test ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Fault, Gnt, Master, table

from gantry.cli.commands import webhooks

URL = "https://hooks.example/in"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "POLL_SECONDS", 0.01)


def fields(op: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in op.items() if name not in ("OP_ID", "reason", "debug_level", "priority")}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("--events instance,job.error", {"events": ["instance", "job.error"]}),
        ("--without-tls --from 17", {"without_tls": True, "begin": 17}),
        ("--ca ''", {}),
    ],
)
def test_a_webhook_is_added_and_its_secret_printed(
    gnt: Gnt, master: Master, words: str, expected: dict[str, object]
) -> None:
    master.answers["ReadWebhookSecret"] = "whsec_AAAA"
    ran = gnt(f"gantry webhook add hook {URL} {words}")
    assert (ran.code, ran.out) == (0, "whsec_AAAA\n")
    given_fields = fields(master.ops[0])
    assert {name: value for name, value in given_fields.items() if value} == {"name": "hook", "url": URL, **expected}
    assert master.requests[-1] == ("ReadWebhookSecret", ["hook"])


def test_authorities_are_read_from_a_file(gnt: Gnt, master: Master, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    master.answers["ReadWebhookSecret"] = "whsec_AAAA"
    assert gnt(f"gantry webhook add hook {URL} --ca {tmp_path}/ca.pem").code == 0
    assert master.ops[0]["authorities"] == "PEM"
    assert gnt("gantry webhook modify hook --ca ''").code == 0
    assert master.ops[1]["authorities"] == ""
    assert gnt(f"gantry webhook modify hook --ca {tmp_path}/none").code == 1


def test_a_webhook_that_was_not_added_prints_no_secret(gnt: Gnt, master: Master) -> None:
    master.results["OP_WEBHOOK_ADD"] = Fault("OpPrereqError", "no", "already_exists")
    assert gnt(f"gantry webhook add hook {URL}").code == 1
    master.results["OP_WEBHOOK_ADD"] = ["send all events"]
    assert gnt(f"gantry webhook add hook {URL} --dry-run").out == "send all events\n"
    assert not [request for request in master.requests if request[0] == "ReadWebhookSecret"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--enable", {"enabled": True}),
        ("--disable", {"enabled": False}),
        ("--events ''", {"events": []}),
        (f"--url {URL}", {"url": URL}),
        ("--new-secret", {"new_secret": True}),
    ],
)
def test_a_webhook_is_changed_and_only_a_new_secret_printed(
    gnt: Gnt, master: Master, words: str, expected: dict[str, object]
) -> None:
    master.answers["ReadWebhookSecret"] = "whsec_BBBB"
    ran = gnt(f"gantry webhook modify hook {words}")
    assert (ran.code, ran.out) == (0, "whsec_BBBB\n" if words == "--new-secret" else "")
    assert fields(master.ops[0]) == {"name": "hook", **expected}


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        ("add hook", 2, "expects NAME URL"),
        (f"add hook {URL} --submit", 1, "--submit has no use"),
        (f"add Hook {URL}", 1, "small letters"),
        (f"add hook {URL} --events Instance", 1, "KIND or KIND.CHANGE"),
        (f"add hook {URL} --from x", 1, "x"),
        ("modify hook --enable --disable", 1, "exclude each other"),
        ("modify hook --new-secret --submit", 1, "--submit has no use"),
        ("remove", 2, "expects NAME"),
    ],
)
def test_what_means_nothing_is_refused(gnt: Gnt, master: Master, words: str, code: int, fault: str) -> None:
    ran = gnt(f"gantry webhook {words}")
    assert ran.code == code
    assert fault in ran.err


def rows(master: Master, *answers: list[object]) -> None:
    """Answer the next queries with these positions and failures, and the last of them for ever."""
    remaining: Iterator[list[object]] = iter(answers)
    newest: list[list[object]] = []

    def answer(*_: object) -> object:
        newest[:] = [next(remaining, newest[0] if newest else [0, None])]
        position, failure = newest[0]
        return table(
            "position:Position:number",
            "failure:Failure:text",
            rows=[[position, (3, None) if failure is None else failure]],
        )

    master.answers["Query"] = answer


def test_a_test_ends_when_the_receiver_has_accepted_it(gnt: Gnt, master: Master) -> None:
    master.results["OP_WEBHOOK_TEST"] = 41
    rows(master, [40, None], [41, "status 500"], [42, None])
    ran = gnt("gantry webhook test hook")
    assert (ran.code, ran.out) == (0, "The receiver of webhook hook has accepted the test\n")


def test_a_test_says_why_it_was_not_accepted(gnt: Gnt, master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TEST_SECONDS", 0.2)
    master.results["OP_WEBHOOK_TEST"] = 41
    rows(master, [40, "status 500"])
    ran = gnt("gantry webhook test hook")
    assert ran.code == 1
    assert "the receiver of webhook hook does not accept events: status 500" in ran.err
    rows(master, [40, None])
    ran = gnt("gantry webhook test hook")
    assert ran.code == 1
    assert "is gantry-rapi running on the master?" in ran.err
