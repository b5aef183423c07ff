"""The identity calls that the stock client needs to log in and to look up projects.

    GET  /v3                            the version
    POST /v3/auth/tokens                a token for a name and a password of the users file
    GET  /v3/projects[/ID][?name=NAME]  projects

A project's id is its name; users other than administrators see only their own project. Sites with an own identity
service do not serve these calls. Refusals have Keystone's form; a login for an unknown project is refused
like a wrong password, for administrators too. ``/v2.0/tenants`` is for clients without an identity endpoint, which look
up projects here.

See contracts/neutron-api.md#identity.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gantry.doors.neutron import access, faults
from gantry.runtime import bounded_json, http_interface, interface

DOMAIN = {"id": "default", "name": "Default"}
_UPDATED = "2016-10-06T00:00:00Z"


class _Named(msgspec.Struct):
    """A user or a project, by name or id; domains are ignored, as there is only one."""

    name: str = ""
    id: str = ""
    password: str = ""

    @property
    def key(self) -> str:
        """Return the id, or else the name."""
        return self.id or self.name


class _Password(msgspec.Struct):
    user: _Named


class _Identity(msgspec.Struct):
    methods: list[str]
    password: _Password | None = None


class _Scope(msgspec.Struct):
    project: _Named | None = None


class _Auth(msgspec.Struct):
    identity: _Identity
    scope: _Scope | str = ""


class _Login(msgspec.Struct):
    """The body of a request for a token."""

    auth: _Auth


class Projects:
    """Projects and tokens of the users; without ``passwords`` there are no users, and any name is a project's."""

    def __init__(self, runtime: interface.Runtime, passwords: access.Passwords | None) -> None:
        self._clock = runtime.clock
        self._passwords = passwords

    def is_open(self, method: str, path: Sequence[str]) -> bool:
        """Return whether a path requires no authentication."""
        return not path or (method == "POST" and tuple(path) == ("auth", "tokens"))

    async def answer(
        self,
        method: str,
        path: Sequence[str],
        *,
        person: access.Person | None,
        query: Mapping[str, Sequence[str]],
        body: bytes,
        base: str,
        peer: str,
    ) -> http_interface.Response:
        """Answer a request below ``/v3`` from ``peer``; ``person`` is None for paths without authentication."""
        match method, *path:
            case ["GET"]:
                return _response(200, {"version": version(base)})
            case ["POST", "auth", "tokens"]:
                return await self._token(body, base, peer=peer)
            case ["GET", "projects"]:
                name = (query.get("name") or [""])[-1]
                names = [name] if self._has(name, person) else [] if name else self._all(person)
                links = {"self": f"{base}/v3/projects", "next": None, "previous": None}
                return _response(200, {"links": links, "projects": [_project(each, base) for each in names]})
            case ["GET", "projects", name]:
                if not self._has(name, person):
                    raise faults.IdentityError(404, f"Could not find project: {name}.")
                return _response(200, {"project": _project(name, base)})
            case ["GET", "domains", "default"]:
                return _response(200, {"domain": {**DOMAIN, "enabled": True}})
        raise faults.hidden()

    def tenant(self, name: str, base: str, *, person: access.Person) -> dict[str, object]:
        """Return a project in the format of the older API; FaultError 404."""
        if not self._has(name, person):
            raise faults.hidden()
        return {"tenant": _project(name, base)}

    def _has(self, name: str, person: access.Person | None) -> bool:
        return bool(name) and (self._passwords is None or name in self._all(person))

    def _all(self, person: access.Person | None) -> Sequence[str]:
        """Return the projects that the user may see: its own, or all for administrators."""
        known = self._passwords.projects() if self._passwords else [access.PROJECT]
        return [name for name in known if person and (person.is_admin or person.project == name)]

    async def _token(self, body: bytes, base: str, *, peer: str) -> http_interface.Response:
        """Issue a token for a name and a password; IdentityError 401 or 400."""
        try:
            login = bounded_json.decode(body, _Login).auth
        except bounded_json.UnreadableError:
            raise _malformed() from None
        if "password" not in login.identity.methods:
            raise faults.unauthenticated("Attempted to authenticate with an unsupported method.")
        if login.identity.password is None:
            raise _malformed()
        user, scope = login.identity.password.user, login.scope
        person = await self._passwords.check(user.key, user.password, peer=peer) if self._passwords else None
        project = scope.project.key if isinstance(scope, _Scope) and scope.project else ""
        if self._passwords is None or person is None:
            raise faults.unauthenticated()
        if project and not self._passwords.may_enter(person, project):
            raise faults.unauthenticated()
        person = access.Person(person.user, project or person.project, person.role)
        token, until = self._passwords.issue(person)
        content = {"token": _token_content(person, now=self._clock.now(), until=until, base=base)}
        response = _response(201, content)
        return http_interface.Response(201, response.body, headers={"X-Subject-Token": token})


def _malformed() -> faults.IdentityError:
    return faults.IdentityError(400, "The body is not a valid request for a token by password.")


def version(base: str) -> dict[str, object]:
    """Return the version of the identity API."""
    kind = {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
    links = [{"rel": "self", "href": f"{base}/v3/"}]
    return {"id": "v3.14", "status": "stable", "updated": _UPDATED, "links": links, "media-types": [kind]}


def _project(name: str, base: str) -> dict[str, object]:
    return {
        "id": name,
        "name": name,
        "domain_id": DOMAIN["id"],
        "parent_id": DOMAIN["id"],
        "description": "",
        "enabled": True,
        "is_domain": False,
        "tags": [],
        "options": {},
        "links": {"self": f"{base}/v3/projects/{name}"},
    }


def _token_content(person: access.Person, *, now: float, until: float, base: str) -> dict[str, object]:
    role = person.role.name.lower()
    return {
        "methods": ["password"],
        "user": {"id": person.user, "name": person.user, "domain": DOMAIN, "password_expires_at": None},
        "project": {"id": person.project, "name": person.project, "domain": DOMAIN},
        "roles": [{"id": role, "name": role}],
        "is_domain": False,
        "issued_at": access.timestamp(now),
        "expires_at": access.timestamp(until),
        "audit_ids": [],
        "catalog": [
            _service("network", "neutron", base),
            _service("identity", "keystone", f"{base}/v3"),
        ],
    }


def _service(kind: str, name: str, url: str) -> dict[str, object]:
    endpoints = [
        {"id": f"{kind}-{each}", "interface": each, "region": "RegionOne", "region_id": "RegionOne", "url": url}
        for each in ("public", "internal", "admin")
    ]
    return {"id": kind, "type": kind, "name": name, "endpoints": endpoints}


def _response(status: int, content: object) -> http_interface.Response:
    return http_interface.Response(status, msgspec.json.encode(content))
