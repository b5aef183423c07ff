"""The units that add, change, test and remove webhooks, and what a list says about them."""

import base64

import pytest
from tests.operations import build

from gantry import errors, security
from gantry.model import opcodes, webhook
from gantry.operations.webhook import progress
from gantry.operations.webhook import webhook as units

URL = "https://hooks.example/in/T0?key=sesame"


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def op(name: str = "hook", url: str = URL, **fields: object) -> opcodes.WebhookAdd:
    return opcodes.WebhookAdd(name=name, url=url, **fields)  # type: ignore[arg-type]


def hook(lab: build.MemoryCluster, name: str = "hook") -> webhook.Webhook:
    return units.find(lab.state, name)


async def test_a_webhook_begins_with_the_next_event_and_has_a_secret_of_its_own(lab: build.MemoryCluster) -> None:
    serial = lab.state.serial
    assert await lab.run(op()) is None
    await lab.run(op("other"))
    assert (hook(lab).origin, hook(lab).secret_url) == ("https://hooks.example", URL)
    assert len(base64.b64decode(hook(lab).secret)) == 32
    assert hook(lab).secret != hook(lab, "other").secret
    assert progress.position(lab.state, hook(lab)).serial == serial
    assert progress.status(lab.state, hook(lab)) == "ok"


async def test_a_webhook_may_begin_with_an_earlier_event(lab: build.MemoryCluster) -> None:
    await lab.run(op(begin=1))
    assert progress.position(lab.state, hook(lab)).serial == 0
    refusal = await lab.refused(op("other", begin=lab.state.serial + 2))
    assert f"there is no event {lab.state.serial + 2} yet" in str(refusal)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("hooks.example/in", "is not a URL"),
        ("ftp://hooks.example/sesame", "is not a URL"),
        ("https://user:sesame@hooks.example/", "is not a URL"),
        ("https://hooks.example/#sesame", "is not a URL"),
        ("http://hooks.example/sesame", "has no TLS"),
        ("http://192.0.2.1/sesame", "has no TLS"),
        ("https://169.254.169.254/sesame", "which no receiver has"),
        ("https://[::ffff:169.254.169.254]/sesame", "which no receiver has"),
        ("https://[fe80::1]/sesame", "which no receiver has"),
        ("https://0.0.0.0/sesame", "which no receiver has"),
        ("https://[::]/sesame", "which no receiver has"),
        ("https://224.0.0.1/sesame", "which no receiver has"),
    ],
)
async def test_a_url_that_no_receiver_should_have_is_refused_and_not_repeated(
    lab: build.MemoryCluster, url: str, text: str
) -> None:
    await lab.run(op("known"))
    for each in (op(url=url), opcodes.WebhookSetParams(name="known", url=url)):
        refusal = str(await lab.refused(each))
        assert text in refusal
        assert "sesame" not in refusal
    assert hook(lab, "known").secret_url == URL


async def test_a_url_without_tls_is_for_the_loopback_or_by_request(lab: build.MemoryCluster) -> None:
    await lab.run(op("one", "http://127.0.0.1:8000/"))
    await lab.run(op("two", "http://[::1]:8000/"))
    await lab.run(op("three", "http://hooks.example/", without_tls=True))
    assert "which no receiver has" in str(await lab.refused(op(url="http://169.254.169.254/", without_tls=True)))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"events": ("instance", "guest.added")}, "no events are about a guest"),
        ({"authorities": "nonsense"}, "are not certificates"),
        ({"authorities": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "are not certificates"),
    ],
)
async def test_what_means_nothing_is_refused(lab: build.MemoryCluster, fields: dict[str, object], text: str) -> None:
    await lab.run(op("known"))
    assert text in str(await lab.refused(op(**fields)))  # type: ignore[arg-type]
    assert text in str(await lab.refused(opcodes.WebhookSetParams(name="known", **fields)))  # type: ignore[arg-type]


async def test_names_are_unique_and_webhooks_are_few(lab: build.MemoryCluster) -> None:
    await lab.run(op("hook0"))
    assert isinstance(await lab.refused(op("hook0")), errors.ExistsError)
    for number in range(1, units.LIMIT):
        await lab.run(op(f"hook{number}"))
    assert isinstance(await lab.refused(op()), errors.NoRoomError)


async def test_a_new_secret_leaves_the_previous_one_for_a_day(lab: build.MemoryCluster) -> None:
    await lab.run(op())
    first, now = hook(lab).secret, lab.environment.inputs.now
    await lab.run(opcodes.WebhookSetParams(name="hook", new_secret=True))
    changed = hook(lab)
    assert changed.secret != first
    assert changed.secrets(now) == (changed.secret, first)
    assert changed.secrets(now + 86_399) == (changed.secret, first)
    assert changed.secrets(now + 86_400) == (changed.secret,)


async def test_each_value_can_be_changed_and_the_position_stays(lab: build.MemoryCluster) -> None:
    authority = security.make_authority("hooks.example", 1_800_000_000.0).certificates.decode()
    await lab.run(op(events=("instance",), begin=1))
    for fields in (
        {"url": "https://other.example/"}, {"events": ()}, {"authorities": authority}, {"authorities": ""},
        {"enabled": False}, {"enabled": True},
    ):  # fmt: skip
        await lab.run(opcodes.WebhookSetParams(name="hook", **fields))
        for name, value in fields.items():
            assert getattr(hook(lab), {"url": "secret_url"}.get(name, name)) == value
        assert progress.position(lab.state, hook(lab)).serial == 0
    assert hook(lab).origin == "https://other.example"
    assert "no change of webhook hook" in str(await lab.refused(opcodes.WebhookSetParams(name="hook")))


async def test_a_test_changes_a_webhook_that_is_enabled(lab: build.MemoryCluster) -> None:
    await lab.run(op())
    serial = lab.state.serial
    assert await lab.run(opcodes.WebhookTest(name="hook")) == serial
    assert hook(lab).tests == 1
    await lab.run(opcodes.WebhookSetParams(name="hook", enabled=False))
    assert "is disabled" in str(await lab.refused(opcodes.WebhookTest(name="hook")))


async def test_a_removed_webhook_leaves_nothing(lab: build.MemoryCluster) -> None:
    await lab.run(op())
    await lab.run(opcodes.WebhookRemove(name="hook"))
    assert not lab.state.webhooks
    assert not lab.state.webhookpositions
    for each in (opcodes.WebhookRemove, opcodes.WebhookTest, opcodes.WebhookSetParams):
        assert "no such webhook: hook" in str(await lab.refused(each(name="hook")))


def test_a_receiver_selects_by_kind_and_change_and_always_itself() -> None:
    own = webhook.Webhook(
        uuid="w1", name="hook", origin="", secret_url="", secret="", events=("node", "job.error", "webhook.removed")
    )
    assert own.selects("node", "n1", "added")
    assert own.selects("job", "5", "error")
    assert not own.selects("job", "5", "success")
    assert not own.selects("instance", "i1", "added")
    assert own.selects("webhook", "w1", "changed")
    assert not own.selects("webhook", "w2", "changed")


async def test_changes_that_the_journal_does_not_keep_are_counted_only_while_they_are_missing(
    lab: build.MemoryCluster,
) -> None:
    await lab.run(op(begin=1))
    assert progress.pruned(lab.state, hook(lab), begin=lab.state.serial + 1) == 0
    await lab.run(opcodes.WebhookSetParams(name="hook", enabled=False))
    serial = lab.state.serial
    assert serial >= 2
    for begin, number in ((0, 0), (1, 0), (2, 1), (serial + 1, serial)):
        assert progress.pruned(lab.state, hook(lab), begin=begin) == number
