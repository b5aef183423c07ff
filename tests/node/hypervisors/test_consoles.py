"""Graphical consoles without authentication are for users of the node alone."""

from pathlib import Path

import pytest

from gantry import errors
from gantry.node.hypervisors import consoles
from gantry.rpc import calls
from gantry.runtime.real import RealRuntime

DISK = RealRuntime().disk
VERIFIED: dict[str, calls.Value] = {"vnc_tls": True, "vnc_x509_verify": True, "vnc_x509_path": "/etc/gantry/x509"}


@pytest.mark.parametrize(
    "hvparams",
    [
        {},
        {"vnc_bind_address": "", "spice_bind": ""},
        {"vnc_bind_address": "127.0.0.1"},
        {"vnc_bind_address": "127.8.9.1", "spice_bind": "::1"},
        {"vnc_bind_address": "/run/vnc"},
        {"vnc_bind_address": "0.0.0.0", "vnc_password_file": "/etc/gantry/password"},
        {"vnc_bind_address": "::", **VERIFIED},
        {"spice_bind": "0.0.0.0", "spice_password_file": "/etc/gantry/password"},
    ],
)
def test_a_console_with_authentication_or_for_this_node_alone_is_allowed(hvparams: dict[str, calls.Value]) -> None:
    consoles.check(DISK, hvparams)


@pytest.mark.parametrize(
    ("hvparams", "hint"),
    [
        ({"vnc_bind_address": "0.0.0.0"}, "set vnc_password_file, or vnc_bind_address=127.0.0.1"),
        ({"vnc_bind_address": "::"}, "set vnc_password_file"),
        ({"vnc_bind_address": "192.0.2.1", "spice_password_file": "/p"}, "set vnc_password_file"),
        ({"vnc_bind_address": "0.0.0.0", **VERIFIED, "vnc_x509_verify": False}, "set vnc_password_file"),
        ({"vnc_bind_address": "0.0.0.0", **VERIFIED, "vnc_tls": False}, "set vnc_password_file"),
        ({"spice_bind": "0.0.0.0"}, "set spice_password_file, or spice_bind=127.0.0.1"),
        ({"spice_bind": "0.0.0.0", "spice_use_tls": True, **VERIFIED}, "set spice_password_file"),
        ({"vnc_bind_address": "127.0.0.1", "spice_bind": "192.0.2.1"}, "set spice_password_file"),
        ({"vnc_bind_address": "127.0.0.1:0,to=9"}, "'127.0.0.1:0,to=9' is not an IP address"),
        ({"spice_bind": "127.0.0.1,port=1"}, "is not an IP address"),
        ({"spice_bind": "/run/spice"}, "is not an IP address"),
    ],
)
def test_a_console_for_everybody_is_refused(hvparams: dict[str, calls.Value], hint: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        consoles.check(DISK, hvparams)
    assert hint in str(caught.value)


def test_an_empty_password_file_is_no_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("\n")
    with pytest.raises(errors.InvalidError, match="is empty"):
        consoles.check(DISK, {"vnc_bind_address": "0.0.0.0", "vnc_password_file": str(file)})
    file.write_text("s3cret\n")
    consoles.check(DISK, {"vnc_bind_address": "0.0.0.0", "vnc_password_file": str(file)})
