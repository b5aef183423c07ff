"""How the Neutron door says no: statuses, types and bodies as its clients know them (contracts/neutron-api.md#errors).

There are three forms. What the API itself refuses is ``{"NeutronError": {type, message, detail}}``; an object that is
hidden by a rule of access is the same without the wrapper; what stands before the API, authentication and extensions,
answers ``{"message", "code", "title"}``. An error of the master becomes a fault by ``of_error``; where the recorded
type is a narrower one, the resource's own table of refusals says which.
"""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from gantry import errors
from gantry.doors import http
from gantry.runtime import interface

_UNAUTHORIZED = (
    "This server could not verify that you are authorized to access the document you requested. Either you supplied "
    "the wrong credentials (e.g., bad password), or your browser does not understand how to supply the credentials "
    "required.<br /><br />\n\n\n"
)
_NOT_FOUND = "The resource could not be found."


class FaultError(http.RefusedError):
    """A request is refused with a type and a message; ``wrapped`` says in which of the forms."""

    def __init__(self, status: int, kind: str, message: str, *, wrapped: bool = True) -> None:
        super().__init__(status, message)
        self.kind = kind
        self.wrapped = wrapped


def bad_request(message: str) -> FaultError:
    """Return what a malformed request is refused with."""
    return FaultError(400, "HTTPBadRequest", message)


def invalid(name: str, reason: str) -> FaultError:
    """Return what an attribute's value is refused with."""
    return bad_request(f"Invalid input for {name}. Reason: {reason}")


def invalid_input(message: str) -> FaultError:
    """Return what a value is refused with that has not even the type of its attribute."""
    return FaultError(400, "InvalidInput", f"Invalid input for operation: {message}")


def forbidden(rule: str) -> FaultError:
    """Return what a user is told whose role a rule does not let pass."""
    text = rule if rule.startswith("(") else f"rule:{rule}"
    return FaultError(403, "PolicyNotAuthorized", f"{text} is disallowed by policy")


def hidden(*, wrapped: bool = True) -> FaultError:
    """Return what stands in the place of an object, or a path, that is not to be seen."""
    return FaultError(404, "HTTPNotFound", _NOT_FOUND, wrapped=wrapped)


def no_method() -> FaultError:
    """Return what a method is refused with that a path does not have."""
    told = "The server could not comply with the request since it is either malformed or otherwise incorrect."
    return FaultError(405, "HTTPMethodNotAllowed", told)


class MiddlewareError(http.RefusedError):
    """A request does not come as far as the API."""


def unauthorized(challenge: str = "") -> MiddlewareError:
    """Return what a request without valid credentials is answered with."""
    return MiddlewareError(401, _UNAUTHORIZED, headers={"WWW-Authenticate": challenge} if challenge else None)


def unavailable() -> MiddlewareError:
    """Return what a request is answered with while nobody can say who asks."""
    return MiddlewareError(503, "The Keystone service is temporarily unavailable.")


def no_role(roles: Iterable[str]) -> MiddlewareError:
    """Return what somebody is told who is known and has none of the roles that mean something here."""
    return MiddlewareError(403, f"The token gives none of these roles in a project: {', '.join(roles)}.")


def no_extension(alias: str) -> MiddlewareError:
    """Return what the question for an unknown extension is answered with."""
    return MiddlewareError(404, f"{_NOT_FOUND}<br /><br />\nExtension with alias {alias} does not exist\n\n")


def of_error(error: errors.GantryError) -> FaultError:
    """Return an error of the master as a fault, by its status: the types are those of the HTTP library upstream."""
    status = 409 if error.status == HTTPStatus.PRECONDITION_FAILED else error.status
    name = "".join(word.capitalize() for word in HTTPStatus(status).phrase.split())
    return FaultError(status, f"HTTP{name}", str(error))


def response(error: http.Failure) -> interface.HttpResponse:
    """Return a failure as bytes, in its form."""
    if isinstance(error, errors.GantryError):
        error = of_error(error)
    if isinstance(error, FaultError):
        content: dict[str, object] = {"type": error.kind, "message": str(error), "detail": ""}
        if error.wrapped:
            content = {"NeutronError": content}
    else:
        phrase = HTTPStatus(error.status).phrase
        content = {"message": str(error), "code": f"{error.status} {phrase}", "title": phrase}
    return interface.HttpResponse(error.status, msgspec.json.encode(content))
