"""One call to a node over a connection: the request, the answer, and the errors that either can be.

``client`` makes the calls of a cluster by it, ``daemons.joining`` those of a machine that belongs to none yet. A server
that is too busy for a call says so before it has done anything: the call is sent again, until its timeout.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from gantry import __version__, errors
from gantry.rpc import calls, targets
from gantry.rpc.calls import protocol
from gantry.runtime import http_interface, limits

Result = TypeVar("Result")


class _Answer(msgspec.Struct, Generic[Result], array_like=True, forbid_unknown_fields=True):
    """``[ok, payload]``."""

    ok: bool
    payload: Result


_ANY_ANSWER = msgspec.json.Decoder(_Answer[msgspec.Raw])
_FAILURE = msgspec.json.Decoder(tuple[str, list[object]])
_BUSY = (429, 503)
"""Statuses with which a node's server refuses a call, before it reaches the node daemon."""


async def make(
    http: http_interface.Client,
    target: targets.Target,
    call: calls.Call[Result],
    *,
    headers: Mapping[str, str],
    on_answer: Callable[[targets.Target, Mapping[str, str]], None] = lambda target, headers: None,
) -> Result:
    """Make one call over connections to a server; raises its error, RemoteError if it does not answer.

    ``on_answer`` is called when the server has answered, whatever the answer is, with the headers of the answer.
    """
    name = call.procedure()
    sent = {calls.SOFTWARE_HEADER: __version__, protocol.HEADER: str(protocol.OWN), **headers}
    try:
        answer = await _send(http, target, call, headers=sent, on_answer=on_answer)
    except OSError as error:
        raise _unreachable(target, error, call=name, limit=call.LIMIT) from error
    if not call.ANY_PROTOCOL and answer.status != errors.IncompatibleError.status:
        _check_protocol(target, answer.headers)
    try:
        outcome = _ANY_ANSWER.decode(answer.body)
        if outcome.ok:
            return msgspec.json.decode(outcome.payload, type=calls.result_type(type(call)))
        kind, arguments = _FAILURE.decode(outcome.payload)
    except msgspec.DecodeError as error:
        raise errors.RemoteError(
            f"node {target.name} sent an invalid answer to {name} (HTTP {answer.status}): {error}",
            hint=f"is it gantry-noded that listens on {target.address} port {target.port}, and of this version?",
        ) from None
    for refusal in _BY_STATUS:
        if answer.status == refusal.status:
            failure = refusal(f"node {target.name}: {arguments[0] if arguments else kind}")
            if isinstance(failure, errors.UnknownCallerError):
                failure.obeyed = calls.obeyed_from_header(answer.headers.get(calls.OBEYED_HEADER, ""))
            raise failure
    raise _failure(target.name, kind, arguments=arguments)


async def _send(
    http: http_interface.Client,
    target: targets.Target,
    call: calls.Call[Result],
    *,
    headers: Mapping[str, str],
    on_answer: Callable[[targets.Target, Mapping[str, str]], None],
) -> http_interface.Response:
    """Return the answer to a call, which is sent again as long as the node's server is too busy for it."""
    body = msgspec.json.encode(call)
    end = asyncio.get_running_loop().time() + call.LIMIT
    remaining = call.LIMIT
    while True:
        answer = await http.post(
            target.address, target.port, f"/{call.procedure()}", body, headers=headers, timeout=remaining
        )
        on_answer(target, answer.headers)
        remaining = end - asyncio.get_running_loop().time() - limits.RETRY_SECONDS
        # The error of a driver may have the same status, but only a refusal of the server itself has no version.
        is_refused = answer.status in _BUSY and calls.SOFTWARE_HEADER not in answer.headers
        if not is_refused or "retry-after" not in answer.headers or remaining <= 0:
            return answer
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.RETRY_SECONDS):
                await asyncio.Event().wait()


_BY_STATUS = (
    errors.FencedError,
    errors.NotGrantedError,
    errors.UnknownCallerError,
    errors.UnprovenError,
    errors.IncompatibleError,
)
"""The errors of a node that the status of its answer tells from others of their kind."""


def _check_protocol(target: targets.Target, headers: Mapping[str, str]) -> None:
    header = headers.get(protocol.HEADER)
    if protocol.are_too_far_apart(header):
        its_version = protocol.described(headers.get(calls.SOFTWARE_HEADER, ""), header)
        own_version = protocol.described(__version__, str(protocol.OWN))
        raise errors.IncompatibleError(
            f"node {target.name} runs {its_version}, this machine {own_version}: they do not understand each other",
            hint="upgrade the older of the two, one release at a time (gnt-cluster upgrade)",
        )


def _failure(node: str, kind: str, *, arguments: list[object]) -> errors.GantryError:
    """Rebuild a node's error with the node's name before its message, unless it begins with it."""
    text = str(arguments[0]) if arguments else kind
    named = text if text.startswith(f"node {node} ") else f"node {node}: {text}"
    return errors.from_luxi(kind, [named, *arguments[1:]])


def _unreachable(target: targets.Target, error: OSError, *, call: str, limit: float) -> errors.RemoteError:
    node = f"node {target.name} ({target.address} port {target.port})"
    reason = error.strerror or str(error)
    if isinstance(error, TimeoutError):
        return errors.RemoteError(
            f"{node} did not answer {call} within {limit:.0f} s", hint="if it is down for good, mark it offline"
        )
    if "not yet valid" in reason or "has expired" in reason:
        return errors.RemoteError(
            f"{node}: no trusted connection: {reason}",
            hint="compare the clocks of both machines (date -u): certificates are valid between two dates",
        )
    if "SSL" in reason or "certificate" in reason.lower():
        return errors.RemoteError(
            f"{node}: no trusted connection: {reason}",
            hint="its certificate and ours must come from one cluster; if its machine has lost its files, "
            f"gnt-node add --readd {target.name} makes it the node again",
        )
    return errors.RemoteError(
        f"{node} cannot be reached: {reason}", hint="is gantry-noded running there? If not for long, mark it offline"
    )
