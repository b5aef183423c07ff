"""``gantry webhook``: receivers to which gantry-rapi posts the events of the cluster."""

import time

from gantry.cli import client, errors, machine
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import syntax

ADD, MODIFY, REMOVE, TEST = "OP_WEBHOOK_ADD", "OP_WEBHOOK_SET_PARAMS", "OP_WEBHOOK_REMOVE", "OP_WEBHOOK_TEST"
LISTING = query.Listing("webhook", ("name", "origin", "events", "status", "lag", "failure"))
TEST_SECONDS = 30.0
POLL_SECONDS = 1.0

ADD_TEXT = """
    Each change of an object becomes a request to the URL. The secret with which requests are signed is printed once;
    gantry webhook secret prints it again. The URL itself is never displayed: it may have a secret, too.
      gantry webhook add tickets https://tickets.example/hooks/gantry --events instance,node,job.error
"""


def add(call: command.Call) -> int:
    """Add a webhook and print its secret."""
    if call.options.submit:
        raise errors.InvalidError("a webhook is complete at once, so --submit has no use", hint="omit --submit")
    code = submit.carry_out(call, call.opcode(ADD))
    return code if code or call.options.dry_run else _print_secret(call)


def modify(call: command.Call) -> int:
    """Change a webhook, and print its secret if that is new."""
    options = call.options
    if options.enable and options.disable:
        raise errors.InvalidError("--enable and --disable exclude each other")
    if options.new_secret and options.submit:
        raise errors.InvalidError("the new secret is printed at once, so --submit has no use", hint="omit --submit")
    fields: dict[str, object] = {"enabled": bool(options.enable)} if options.enable or options.disable else {}
    code = submit.carry_out(call, call.opcode(MODIFY, **fields))
    return code if code or options.dry_run or not options.new_secret else _print_secret(call)


def remove(call: command.Call) -> int:
    """Remove a webhook."""
    return submit.carry_out(call, call.opcode(REMOVE))


def secret(call: command.Call) -> int:
    """Print the secret of a webhook."""
    return _print_secret(call)


def _print_secret(call: command.Call) -> int:
    print(client.expect(call.client.call("ReadWebhookSecret", call.arguments[0]), str))
    return 0


def test(call: command.Call) -> int:
    """Record an event for a webhook, and wait until its receiver has accepted it."""
    before: list[object] = []
    code = submit.carry_out(call, call.opcode(TEST), report=before.append)
    if code or call.options.dry_run or call.options.submit:
        return code
    name, end = call.arguments[0], time.monotonic() + TEST_SECONDS
    row = _row(call, name)
    while client.expect(row["position"], int) <= client.expect(before[0], int):
        if "failure" in row and time.monotonic() > end - TEST_SECONDS / 2:
            raise errors.CommandError(f"the receiver of webhook {name} does not accept events: {row['failure']}")
        if time.monotonic() > end:
            raise errors.CommandError(
                f"webhook {name} has not sent the test within {TEST_SECONDS:.0f} s",
                hint="is gantry-rapi running on the master? The test waits behind all earlier events",
            )
        time.sleep(POLL_SECONDS)
        row = _row(call, name)
    print(f"The receiver of webhook {name} has accepted the test")
    return 0


def _row(call: command.Call, name: str) -> dict[str, object]:
    rows = call.client.records("webhook", ["position", "failure"], where=["=", "name", name])
    if not rows:
        raise errors.CommandError(f"webhook {name} was removed")
    return rows[0]


def _authorities(text: str) -> str:
    return machine.read_file(text) if text else ""


NAME = command.Argument("NAME", completes="webhook", field="name")
_EVENTS = command.Option(
    ("--events",),
    "Send only these events, each as KIND or KIND.CHANGE, separated by commas; an empty text: all",
    "EVENTS",
    parse=syntax.words,
    field="events",
)
_CA = command.Option(
    ("--ca",),
    "Trust the authorities in this PEM file for the receiver's certificate; an empty name: those of the system",
    "FILE",
    parse=_authorities,
    field="authorities",
    completes="file",
)
_WITHOUT_TLS = command.Option(("--without-tls",), "Allow a URL without TLS on another machine", field="without_tls")
_LIST, _LIST_FIELDS = query.commands(
    LISTING, "webhooks, without their URLs and secrets", arguments=(command.Argument("NAME", 0, None, "webhook"),)
)

COMMANDS = (
    command.Command(
        "webhook add",
        add,
        "Post events to a URL, and print the secret of the signatures",
        (NAME._replace(completes=""), command.Argument("URL", field="url")),
        (
            _EVENTS,
            _CA,
            _WITHOUT_TLS,
            command.Option(
                ("--from",), "Begin with the event of this serial", "SERIAL", parse=syntax.number, field="begin"
            ),
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
    _LIST._replace(name="webhook list"),
    _LIST_FIELDS._replace(name="webhook list-fields"),
    command.Command(
        "webhook modify",
        modify,
        "Change a webhook; its receiver gets the events after those that it has",
        (NAME,),
        (
            command.Option(("--url",), "Post events to this URL", "URL", field="url"),
            _EVENTS,
            _CA,
            _WITHOUT_TLS,
            command.Option(("--enable",), "Send events again"),
            command.Option(("--disable",), "Send nothing, and keep the position"),
            command.Option(
                ("--new-secret",),
                "Make a new secret, and print it; the previous one counts for a day too",
                field="new_secret",
            ),
            *command.JOB,
        ),
    ),
    command.Command("webhook remove", remove, "Remove a webhook", (NAME,), command.JOB),
    command.Command("webhook secret", secret, "Print the secret of a webhook", (NAME,)),
    command.Command(
        "webhook test",
        test,
        "Send a test event, and wait until the receiver accepts it",
        (NAME,),
        command.JOB,
        text="The test waits behind all events that the receiver has not accepted yet.",
    ),
)
