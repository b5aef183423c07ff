"""``gantry token``: the API tokens of users of the remote API.

The command generates the text of a token and prints it once; the master gets its hash. ``model.token_text`` says what
the text consists of; it is repeated here because the commands import no other package.
"""

import hashlib
import os
import time
import zlib

from gantry.cli import errors, machine
from gantry.cli.framework import command, query, submit
from gantry.cli.grammar import moments

ADD, REVOKE = "OP_TOKEN_ADD", "OP_TOKEN_REVOKE"
LISTING = query.Listing("token", ("name", "allows", "ctime", "end", "id"))
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
NEVER = "never"

ADD_TEXT = """
    The text of the token is printed once, and stored nowhere. A request with it may do what its user may at that
    moment, and of that only what the token allows: everything; with --read no change; with --role and --on, which may
    be repeated together, what these roles include. A token cannot create or revoke tokens.
      gantry token add deploy --user bob --role operator --on tag:web --until 30d
"""


def add(call: command.Call) -> int:
    """Create a token and print its text."""
    options = call.options
    if options.submit:
        raise errors.InvalidError("a token is complete at once, so --submit has no use", hint="omit --submit")
    user = _user(call)
    roles, objects = options.role, options.on
    if len(roles) != len(objects):
        raise errors.InvalidError(
            f"there are {len(roles)} --role and {len(objects)} --on, which belong together",
            hint="give each role with its object: --role operator --on tag:web",
        )
    if options.read and roles:
        raise errors.InvalidError("--read and --role exclude each other", hint="a token with roles may read, too")
    _check_known(user)
    text = _generate(user)
    fields: dict[str, object] = {"id": text[7:17], "secret_hash": hashlib.sha256(text.encode()).hexdigest()}
    if options.read or roles:
        fields["extent"] = "read" if options.read else "roles"
    if roles:
        fields["roles"] = [{"role": role, "on": on} for role, on in zip(roles, objects, strict=True)]

    def report(end: object) -> None:
        until = f"until {time.strftime('%Y-%m-%d %H:%M', time.localtime(end))}" if isinstance(end, float) else "forever"
        print(f"This is the only time that the token is shown. It is valid {until}:")
        print(text)

    return submit.carry_out(call, call.opcode(ADD, **fields), report=report)


def revoke(call: command.Call) -> int:
    """Revoke a token of a user, or all."""
    user = _user(call)
    if bool(call.arguments) == call.options.all:
        raise errors.InvalidError("there is no token to revoke", hint="name a token, or give --all without a name")
    try:
        return submit.carry_out(call, call.opcode(REVOKE))
    except errors.ServerError as error:
        if "unknown_entity" not in error.arguments or not call.arguments:
            raise
        rows = call.client.records("token", ["label"], where=["=", "user", user])
        similar = command.most_similar(call.arguments[0], [str(row["label"]) for row in rows])
        if not similar:
            raise
        raise errors.CommandError(
            f"user {user} has no API token {call.arguments[0]}", hint=f"did you mean {similar}?"
        ) from None


def list_tokens(call: command.Call) -> int:
    """List tokens, all or those of a user."""
    user = call.options.user
    return query.show(call, LISTING, where=["=", "user", user] if user else None)


def _user(call: command.Call) -> str:
    user: str | None = call.options.user
    if user is None:
        raise errors.InvalidError("--user is missing", hint="name the user of the remote API whose token it is")
    return user


def _check_known(user: str) -> None:
    """Raise InvalidError for a user whom the users file of this machine lacks; no file says nothing."""
    path = f"{machine.folder('lib')}/users"
    try:
        lines = machine.read_file(path).splitlines()
    except errors.CommandError:
        return
    names = [line.replace(":", " ").split()[0] for line in map(str.strip, lines) if line and line[0] not in "#:"]
    if user not in names:
        similar = command.most_similar(user, names)
        raise errors.InvalidError(
            f"there is no user {user} in {path}",
            hint=f"did you mean {similar}?"
            if similar
            else "a token acts for a user of the remote API: add the user first",
        )


def _generate(user: str) -> str:
    """Return the text of a new token of a user."""
    of_user = _digits(int.from_bytes(hashlib.sha256(user.encode()).digest(), "big"), 4)
    head = f"gantry_{of_user}{_random(8, 6)}_{_random(32, 43)}"
    return head + _digits(zlib.crc32(head.encode()), 6)


def _random(size: int, digits: int) -> str:
    return _digits(int.from_bytes(os.urandom(size), "big"), digits)


def _digits(number: int, size: int) -> str:
    digits = [DIGITS[number // len(DIGITS) ** power % len(DIGITS)] for power in range(size)]
    return "".join(reversed(digits))


def _until(text: str) -> float | str:
    return NEVER if text == NEVER else moments.future(text, now=time.time())


USER = command.Option(("--user",), "Name the user of the remote API whose token it is", "USER", field="user")
NAME = command.Argument("NAME", field="name")
_LIST, _LIST_FIELDS = query.commands(
    LISTING, "API tokens, without their secrets", arguments=(command.Argument("USER:NAME", 0, None, "token"),)
)

COMMANDS = (
    command.Command(
        "token add",
        add,
        "Create an API token of a user, and print its text once",
        (NAME,),
        (
            USER,
            command.Option(
                ("--role",),
                "Allow this role on the object of the next --on: viewer, operator, admin or network-admin",
                "ROLE",
                default=(),
                choices=("operator", "admin", "network-admin"),
                repeatable=True,
            ),
            command.Option(
                ("--on",),
                "Name the object of a role: cluster, group:NAME, tag:TAG, project:ID, instance:NAME or network:NAME",
                "OBJECT",
                default=(),
                repeatable=True,
            ),
            command.Option(("--read",), "Allow reading alone"),
            command.Option(
                ("--until",),
                "End the token at a time or after a duration, as 30d, of at most 366d (default: 90d); or never",
                "TIME",
                parse=_until,
                field="until",
            ),
            *command.JOB,
        ),
        text=ADD_TEXT,
    ),
    _LIST._replace(
        name="token list",
        function=list_tokens,
        options=(USER._replace(help="List only the tokens of this user of the remote API"), *_LIST.options),
    ),
    _LIST_FIELDS._replace(name="token list-fields"),
    command.Command(
        "token revoke",
        revoke,
        "Revoke an API token of a user, or all",
        (NAME._replace(minimum=0),),
        (USER, command.Option(("--all",), "Revoke all tokens of the user"), *command.JOB),
    ),
)
