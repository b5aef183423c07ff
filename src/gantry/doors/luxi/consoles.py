"""The methods OpenConsole and CheckConsole: a console of an instance for a user of the remote API (not in Ganeti).

The master tells the instance's node to open the console, with a secret for one stream (``rpc.calls.console``), and
answers with what the remote API needs to connect there: that process has no key of a node. It names its user, who needs
the right to operate the instance, and asks again while the console is open. See explanation/security.md#consoles.
"""

import logging
from collections.abc import Iterator

import msgspec

from gantry import errors
from gantry.doors.luxi.services import SUBJECT, Services, cause
from gantry.operations.access import check
from gantry.rpc import calls
from gantry.rpc.calls import console
from gantry.rpc.calls.texts import Line

log = logging.getLogger(__name__)


class Arguments(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``[instance, kind, user]``, and whether to take the console over from the user who has it."""

    instance: str
    kind: console.ConsoleKind
    user: Line
    takes_over: bool = False

    def __iter__(self) -> Iterator[object]:
        return iter(msgspec.structs.astuple(self))


class Ticket(msgspec.Struct):
    """Where a console is reached, once, in the next seconds; if ``port`` is 0, ``user`` has the console.

    The node's certificate is one of ``authorities``, for one of ``keys`` if there are any. ``instance`` is the UUID.
    """

    node: str
    host: str
    port: int
    token: str
    authorities: str
    keys: list[str]
    user: str = ""
    instance: str = ""


async def open_for(services: Services, name: str, kind: console.ConsoleKind, user: str, takes_over: bool) -> Ticket:
    """Open a console of a running instance on its primary node; ForbiddenError if its subject may not operate it."""
    state = services.snapshot()
    vm = state.instance(name)
    right = check.check_operation(state, SUBJECT.get(), vm)
    node = state.nodes[vm.primary_node]
    if node.offline:
        raise errors.EnvironmentFaultError(f"primary node {node.name} of instance {vm.name} is offline")
    token = services.secret()
    call = calls.ConsoleOpen(
        token=token, hypervisor=vm.hypervisor, instance=vm.name, kind=kind, user=user, takes_over=takes_over
    )
    target = state.target(node)
    entrance = await services.nodes.call(target, call)
    if entrance.port:
        await services.note(cause(f"{kind} console of instance {vm.name} opened", right))
        log.info("%s opens the %s console of %s on %s", user, kind, vm.name, node.name)
    return Ticket(
        node=node.name,
        host=target.address,
        port=entrance.port,
        token=token if entrance.port else "",
        authorities=services.authorities(),
        keys=sorted(node.certificate.keys),
        user=entrance.user,
        instance=vm.uuid,
    )


async def check_for(services: Services, name: str) -> None:
    """Raise ForbiddenError if its subject may not operate an instance, NotFoundError if it does not exist."""
    state = services.snapshot()
    check.check_operation(state, SUBJECT.get(), state.instance(name))
