"""The OpenID Connect options of gantry-rapi, and the log-in to the console that they configure."""

import argparse
import re
from dataclasses import dataclass

from gantry import errors, security
from gantry.doors.http import sessions
from gantry.doors.rapi.oidc import claims, login
from gantry.doors.rapi.oidc import provider as oidc_provider
from gantry.model import urls
from gantry.runtime import interface, paths

SCOPES = "openid profile"
_SCOPE = re.compile(r"[!#-\[\]-~]+")
"""A scope (RFC 6749, section 3.3)."""


@dataclass(frozen=True)
class SiteProvider:
    """The OpenID provider of the options, and how its users log in."""

    client: oidc_provider.Provider
    mapped: claims.Mapped
    name: str

    def sign_on(self, runtime: interface.Runtime, known: sessions.Sessions, *, secure: bool) -> login.SignOn:
        """Return the log-in of a server."""
        return login.SignOn(runtime, self.client, self.mapped, known, name=self.name, secure=secure)

    async def close(self) -> None:
        """End the connections to the provider."""
        await self.client.close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("OpenID Connect, for log-ins to the console")
    group.add_argument(
        "--oidc-issuer", default="", metavar="URL", help="issuer URL of the OpenID provider; without it, there is none"
    )
    group.add_argument("--oidc-client-id", default="", metavar="ID", help="name of the console at the provider")
    group.add_argument(
        "--oidc-client-secret-file", default="", metavar="FILE",
        help="file with the secret of the console at the provider, mode 0600 (default: lib/oidc-secret)",
    )  # fmt: skip
    group.add_argument(
        "--oidc-public-client", action="store_true", help="use no secret: the provider knows a public client"
    )
    group.add_argument(
        "--oidc-public-url", default="", metavar="URL",
        help="URL by which browsers reach this daemon, without a path; the provider has to know "
        "URL/2/session/oidc/callback",
    )  # fmt: skip
    group.add_argument(
        "--oidc-name", default="", metavar="NAME", help="name of the provider on the log-in page (default: its host)"
    )
    group.add_argument(
        "--oidc-scopes", default=SCOPES, metavar="SCOPES", help=f"scopes, separated by spaces (default: {SCOPES})"
    )
    group.add_argument(
        "--oidc-user-claim", default=claims.Mapped.user_claim, metavar="CLAIM",
        help=f"claim with the name of the user (default: {claims.Mapped.user_claim})",
    )  # fmt: skip
    group.add_argument(
        "--oidc-groups-claim", default=claims.Mapped.groups_claim, metavar="CLAIM",
        help=f"claim with the groups of the user (default: {claims.Mapped.groups_claim})",
    )  # fmt: skip
    group.add_argument(
        "--oidc-login-group", default="", metavar="NAME",
        help="let only members of this group of the provider log in (default: every user of the provider)",
    )  # fmt: skip
    group.add_argument(
        "--oidc-admin-group", default="", metavar="NAME",
        help="let members of this group of the provider do everything (default: nobody)",
    )  # fmt: skip
    group.add_argument(
        "--oidc-ca", default="", metavar="FILE", help="certificate authorities of the provider (default: the system's)"
    )


def provider(runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace) -> SiteProvider | None:
    """Return the provider of the options, None without one; raises InvalidError, ConfigurationError."""
    if not options.oidc_issuer:
        return None
    if not options.console:
        raise errors.InvalidError("--oidc-issuer is for the console, which --no-console switches off")
    issuer = urls.Url.parse(options.oidc_issuer, "the address of --oidc-issuer")
    if "?" in issuer.path:
        raise errors.InvalidError("the address of --oidc-issuer has a query", hint="write it as the provider does")
    if not options.oidc_client_id:
        raise errors.InvalidError(
            "the name of the console at the OpenID provider is missing", hint="add --oidc-client-id"
        )
    secret_file = "" if options.oidc_public_client else options.oidc_client_secret_file or folders.oidc_secret
    client = oidc_provider.Client(issuer, options.oidc_client_id, _public_url(options), secret_file, _scopes(options))
    client.secret(runtime.disk)
    mapped = claims.Mapped(
        options.oidc_user_claim, options.oidc_groups_claim, options.oidc_login_group, options.oidc_admin_group
    )
    if not mapped.user_claim:
        raise errors.InvalidError("--oidc-user-claim is empty: no claim would name the user")
    if not mapped.groups_claim and (mapped.login_group or mapped.admin_group):
        raise errors.InvalidError("without --oidc-groups-claim nobody is in a group of the OpenID provider")
    try:
        tls = security.service_client_context(options.oidc_ca) if issuer.secure else None
    except OSError as error:
        raise errors.ConfigurationError(
            f"cannot load the certificate authorities in {options.oidc_ca}: {error}"
        ) from None
    return SiteProvider(oidc_provider.Provider(runtime, client, tls=tls), mapped, options.oidc_name or issuer.host)


def _public_url(options: argparse.Namespace) -> urls.Url:
    url = urls.Url.parse(options.oidc_public_url, "the address of --oidc-public-url")
    if url.path != "/":
        raise errors.InvalidError(
            f"the address of --oidc-public-url has a path: {url.text}",
            hint="write, for example, https://gantry.example:5080",
        )
    return url


def _scopes(options: argparse.Namespace) -> tuple[str, ...]:
    scopes = tuple(options.oidc_scopes.split())
    if "openid" not in scopes or not all(map(_SCOPE.fullmatch, scopes)):
        raise errors.InvalidError(
            f"--oidc-scopes is {options.oidc_scopes!r}", hint="write names separated by spaces, one of them openid"
        )
    return scopes
