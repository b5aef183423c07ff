"""The comparison of a value with an allow-list: paths, options of programs, words."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry import security

PATH, SOCKET, OPTIONS = security.Form.PATH, security.Form.SOCKET, security.Form.OPTIONS


@pytest.mark.parametrize(
    ("entries", "value", "is_permitted"),
    [
        (["/srv/iso"], "/srv/iso/a.iso", True),
        (["/srv/iso/"], "/srv/iso/deep/er/a.iso", True),
        (["/srv/iso"], "/srv//iso/./a.iso", True),
        (["/srv/iso"], "/srv//iso/a.iso", True),
        (["/srv/iso"], "/srv/iso", True),
        (["/srv/iso"], "/srv/isolated/a.iso", False),
        (["/srv/iso"], "/srv", False),
        (["/srv/iso"], "/srv/iso/../../etc/shadow", False),
        (["/srv/iso"], "srv/iso/a.iso", False),
        (["/srv/iso"], "", False),
        (["/usr/bin/qemu-system-*"], "/usr/bin/qemu-system-x86_64", True),
        (["/usr/bin/qemu-system-*"], "/usr/bin/bash", False),
        (["/usr/bin/qemu-system-*"], "/bin/x/usr/bin/qemu-system-x86_64", False),
        (["/usr/bin/qemu.system"], "/usr/bin/qemu-system", False),
        (["/usr/*/kvm"], "/usr/local/bin/kvm", False),
        (["/"], "/any/file", True),
        ([], "/any/file", False),
        (["*"], "/any/file", False),
    ],
)
def test_a_path_is_that_of_an_entry_or_below_it(entries: list[str], value: str, is_permitted: bool) -> None:
    assert security.permits(entries, value, PATH) is is_permitted


@pytest.mark.parametrize(
    ("entries", "value", "is_permitted"),
    [
        (["-smbios type=1,serial=*"], "-smbios type=1,serial=abc", True),
        (["-smbios type=1,serial=*"], "-smbios 'type=1,serial=abc'", True),
        (["-smbios type=1,serial=*"], "-smbios type=1,serial=abc,file=/etc/shadow", False),
        (["-smbios type=1,serial=*"], "-smbios type=1,serial=abc -drive file=/etc/shadow", False),
        (["-smbios type=1,serial=*"], "-smbios type=1,serial='a -drive file=/etc/shadow'", False),
        (["-smbios *"], "-smbios a /etc/shadow", False),
        (["-smbios *", "-no-hpet"], "-no-hpet -smbios a", True),
        (["-no-hpet"], "disk.img -no-hpet", False),
        (["-a"], "-a 'unfinished", False),
        (["*"], "-anything with,any value", True),
        ([], "-no-hpet", False),
        ([], "", True),
    ],
)
def test_each_option_of_a_program_must_be_an_entry(entries: list[str], value: str, is_permitted: bool) -> None:
    assert security.permits(entries, value, OPTIONS) is is_permitted


def test_words_have_the_separator_of_their_parameter() -> None:
    assert security.permits(["usb-kbd", "usb-*"], "usb-kbd  usb-mouse", security.Form.SPACED)
    assert not security.permits(["usb-*"], "usb-kbd usb-host,hostbus=1", security.Form.SPACED)
    assert not security.permits(["usb-*"], "usb-kbd vfio-pci", security.Form.SPACED)
    assert security.permits(["0000:01:00.*"], "0000:01:00.0; 0000:01:00.1", security.Form.SEMICOLONS)
    assert not security.permits(["0000:01:00.*"], "0000:01:00.0;0000:02:00.0", security.Form.SEMICOLONS)


def test_an_address_is_no_folder_of_sockets() -> None:
    assert security.permits([], "127.0.0.1", SOCKET)
    assert security.permits(["/run/vnc"], "/run/vnc", SOCKET)
    assert not security.permits(["/run/vnc"], "/etc/cron.d", SOCKET)


@given(st.lists(st.sampled_from(["..", ".", "srv", "iso", "etc", ""]), max_size=8))
def test_no_path_outside_of_a_folder_is_permitted(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    if security.permits(["/srv/iso"], path, PATH):
        assert posixpath.normpath(path).startswith("/srv/iso")
