"""Error answers of the Neutron API: statuses, types and bodies that its clients expect.

There are four forms (contracts/neutron-api.md#errors). The API itself answers ``{"NeutronError": {type, message,
detail}}``; the answer for an object that policy hides is the same without the wrapper; authentication and extensions,
which are middleware, answer ``{"message", "code", "title"}``; identity calls answer these three as ``{"error": ...}``,
as Keystone does. ``of_error`` converts an error of the master to a fault;
if the recorded type is more specific, the resource's own table of refusals defines it.
"""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.runtime import http_interface

_UNAUTHORIZED = (
    "This server could not verify that you are authorized to access the document you requested. Either you supplied "
    "the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials "
    "required.<br /><br />\n\n\n"
)
MAX_COMPARED = 64
"""How many characters of an unknown name are compared with the known names."""

_NOT_FOUND = "The resource could not be found."
_UNAUTHENTICATED = "The request you have made requires authentication."


class FaultError(http.RefusedError):
    """A request is refused with a type and a message; ``wrapped`` selects the form with the wrapper."""

    def __init__(self, status: int, kind: str, message: str, *, wrapped: bool = True) -> None:
        super().__init__(status, message)
        self.kind = kind
        self.wrapped = wrapped


def bad_request(message: str) -> FaultError:
    """Return the fault for a malformed request."""
    return FaultError(400, "HTTPBadRequest", message)


def with_nearest(message: str, name: str, known: Iterable[str]) -> str:
    """Return Neutron's message about an unknown name, with the known name that it resembles, if there is one."""
    close = difflib.get_close_matches(name[:MAX_COMPARED], known, n=1, cutoff=0.7)
    return f"{message}; did you mean {close[0]}?" if close else message


def invalid(name: str, reason: str) -> FaultError:
    """Return the fault for an invalid value of an attribute."""
    return bad_request(f"Invalid input for {name}. Reason: {reason}")


def invalid_input(message: str) -> FaultError:
    """Return the fault for a value that does not have the type of its attribute."""
    return FaultError(400, "InvalidInput", f"Invalid input for operation: {message}")


def forbidden(rule: str) -> FaultError:
    """Return the fault for a user whose role a policy rule does not allow."""
    text = rule if rule.startswith("(") else f"rule:{rule}"
    return FaultError(403, "PolicyNotAuthorized", f"{text} is disallowed by policy")


def hidden(*, wrapped: bool = True) -> FaultError:
    """Return the fault for an object or path that does not exist, or that the user may not see."""
    return FaultError(404, "HTTPNotFound", _NOT_FOUND, wrapped=wrapped)


def no_method() -> FaultError:
    """Return the fault for a method that a path does not support."""
    message = "The server could not comply with the request since it is either malformed or otherwise incorrect."
    return FaultError(405, "HTTPMethodNotAllowed", message)


class MiddlewareError(http.RefusedError):
    """A request is refused by middleware, before it reaches the API."""


def unauthorized(challenge: str = "") -> MiddlewareError:
    """Return the error for a request without valid credentials."""
    return MiddlewareError(401, _UNAUTHORIZED, headers={"WWW-Authenticate": challenge} if challenge else None)


def unavailable() -> MiddlewareError:
    """Return the error for a request whose token Keystone cannot check now."""
    return MiddlewareError(503, "The Keystone service is temporarily unavailable.")


def no_role(roles: Iterable[str]) -> MiddlewareError:
    """Return the error for a known user without any of the roles that the API uses."""
    return MiddlewareError(403, f"The token gives none of these roles in a project: {', '.join(roles)}.")


def no_extension(alias: str) -> MiddlewareError:
    """Return the error for a query of an unknown extension."""
    return MiddlewareError(404, f"{_NOT_FOUND}<br /><br />\nExtension with alias {alias} does not exist\n\n")


class IdentityError(http.RefusedError):
    """An identity call is refused, in the form and words of Keystone."""


def unauthenticated(message: str = _UNAUTHENTICATED) -> IdentityError:
    """Return the error for a login that is refused; it does not say what in the login is wrong."""
    return IdentityError(401, message)


@contextlib.contextmanager
def in_identity_form() -> Iterator[None]:
    """Raise each refusal inside as an IdentityError with the same status."""
    try:
        yield
    except MiddlewareError as error:
        message = _UNAUTHENTICATED if error.status == HTTPStatus.UNAUTHORIZED else str(error)
        raise IdentityError(error.status, message, headers=error.headers) from None
    except http.RefusedError as error:
        raise IdentityError(error.status, str(error), headers=error.headers) from None


def of_error(error: errors.GantryError) -> FaultError:
    """Convert an error of the master to a fault by its status; the types are those of Neutron's HTTP library."""
    status = 409 if error.status == HTTPStatus.PRECONDITION_FAILED else error.status
    name = "".join(word.capitalize() for word in HTTPStatus(status).phrase.split())
    return FaultError(status, f"HTTP{name}", str(error))


def response(error: http.Failure) -> http_interface.Response:
    """Return the answer for a failure, in its form."""
    if isinstance(error, errors.GantryError):
        error = of_error(error)
    if isinstance(error, FaultError):
        content: dict[str, object] = {"type": error.kind, "message": str(error), "detail": ""}
        if error.wrapped:
            content = {"NeutronError": content}
    else:
        phrase = HTTPStatus(error.status).phrase
        if isinstance(error, IdentityError):
            content = {"error": {"code": error.status, "message": str(error), "title": phrase}}
        else:
            content = {"message": str(error), "code": f"{error.status} {phrase}", "title": phrase}
    return http_interface.Response(error.status, msgspec.json.encode(content))
