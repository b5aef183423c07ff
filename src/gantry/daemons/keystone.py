"""The Keystone options of gantry-rapi, and the token check of the Neutron API that they configure."""

import argparse

from gantry import errors, security
from gantry.doors.neutron import keystone, tokens
from gantry.runtime import interface, paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("Keystone, for --neutron-auth keystone")
    group.add_argument(
        "--keystone-url", default="", metavar="URL", help="URL of the Keystone API; also sent to clients"
    )
    group.add_argument("--keystone-user", default="gantry", metavar="NAME", help="Gantry's account (default: gantry)")
    group.add_argument(
        "--keystone-project", default="service", metavar="NAME", help="project of the account (default: service)"
    )
    group.add_argument(
        "--keystone-domain",
        default="default",
        metavar="ID",
        help="id of the domain of account and project (default: default)",
    )
    group.add_argument(
        "--keystone-password-file", default="", metavar="FILE",
        help="file with the account's password, mode 0600 (default: lib/keystone-password)",
    )  # fmt: skip
    group.add_argument(
        "--keystone-ca", default="", metavar="FILE", help="certificate authorities of Keystone (default: the system's)"
    )
    group.add_argument(
        "--keystone-cache", type=float, default=tokens.CACHE_SECONDS, metavar="SECONDS",
        help=f"how long Keystone's answer about a token is cached (default: {tokens.CACHE_SECONDS:.0f})",
    )  # fmt: skip


def authenticator(
    runtime: interface.Runtime, folders: paths.Paths, options: argparse.Namespace
) -> tokens.Tokens | None:
    """Return the check of tokens, None for another authentication; raises InvalidError, ConfigurationError."""
    if options.neutron_auth != "keystone":
        return None
    if not options.keystone_url:
        raise errors.InvalidError("the address of Keystone is missing", hint="add --keystone-url")
    address = keystone.Address.parse(options.keystone_url)
    account = keystone.Account(
        options.keystone_user,
        options.keystone_project,
        options.keystone_domain,
        options.keystone_password_file or folders.keystone_password,
    )
    account.password(runtime.disk)
    try:
        tls = security.service_client_context(options.keystone_ca) if address.secure else None
    except OSError as error:
        raise errors.ConfigurationError(
            f"cannot load the certificate authorities in {options.keystone_ca}: {error}"
        ) from None
    service = keystone.Service(runtime, address, account, tls=tls)
    return tokens.Tokens(runtime, service, address=options.keystone_url, lifetime=options.keystone_cache)
