"""Refuses graphical consoles that everybody in the network could use: VNC and SPICE servers without authentication.

A server on a loopback address, or on a socket below a folder, is for users of the node alone. On other addresses a VNC
server needs a password or certificates of its clients, a SPICE server a password.
"""

import ipaddress
from collections.abc import Mapping

from gantry import errors
from gantry.rpc import calls
from gantry.runtime import interface

Parameters = Mapping[str, calls.Value]


def check(disk: interface.Disk, hvparams: Parameters) -> None:
    """Raise InvalidError for a server that others reach without authentication, or an address that is none."""
    with_certificates = all(hvparams.get(name) for name in ("vnc_tls", "vnc_x509_verify", "vnc_x509_path"))
    for bind, file, is_verified in (
        ("vnc_bind_address", "vnc_password_file", with_certificates),
        ("spice_bind", "spice_password_file", False),
    ):
        address = str(hvparams.get(bind, ""))
        if not address or (bind == "vnc_bind_address" and address.startswith("/")):
            continue
        path = str(hvparams.get(file, ""))
        if path and disk.exists(path) and not disk.read(path).strip():
            raise errors.InvalidError(f"{file}: {path} is empty", hint="write the password into it")
        if not (_is_loopback(bind, address) or path or is_verified):
            raise errors.InvalidError(
                f"{bind}: everybody who reaches {address} could use the console without a password",
                hint=f"set {file}, or {bind}=127.0.0.1",
            )


def _is_loopback(name: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise errors.InvalidError(f"{name}: {address!r} is not an IP address", hint="write one, as 127.0.0.1") from None
