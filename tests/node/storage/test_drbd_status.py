import pytest

from gantry.node.storage.drbd import setup, status
from gantry.node.storage.drbd.status import Configuration, Minor

PROC = """version: 8.4.11 (api:1/proto:86-101)
srcversion: 059B1B470318F053F5077D5
 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    ns:16384 nr:0 dw:0 dr:16384 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
 1: cs:SyncTarget ro:Secondary/Primary ds:Inconsistent/UpToDate C r-----
    ns:0 nr:20480 dw:20480 dr:0 al:0 bm:0 lo:0 pe:1 ua:0 ap:0 ep:1 wo:f oos:45056
\t[=====>..............] sync'ed: 31.3% (45056/65536)K
\tfinish: 1:02:04 speed: 10,240 (10,240) want: 20,480 K/sec
 2: cs:Unconfigured

12: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----
    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
"""

SHOW = """resource resource1 {
    options {
    }
    net {
        cram-hmac-alg   \t"sha256";
        shared-secret   \t"s3 {cret";
        timeout         \t60; # 1/10 seconds
    }
    _remote_host {
        address\t\t\tipv4 192.0.2.2:11001;
    }
    _this_host {
        address\t\t\tipv4 192.0.2.1:11001;
        volume 0 {
            device\t\t\tminor 1;
            disk\t\t\t"/dev/xenvg/a_data";
            meta-disk\t\t\t"/dev/xenvg/a_meta";
            disk {
                on-io-error     \tdetach;
            }
        }
    }
}
"""


def test_the_kernels_table_is_read() -> None:
    parsed = status.minors(PROC)
    assert parsed[0] == Minor("Connected", "Primary", "UpToDate", "UpToDate")
    assert parsed[1] == Minor("SyncTarget", "Secondary", "Inconsistent", "UpToDate", 31.3, 3724)
    assert parsed[2] == Minor("Unconfigured")
    assert parsed[12] == Minor("StandAlone", "Primary", "UpToDate", "DUnknown")
    assert [parsed[number].degraded for number in sorted(parsed)] == [False, True, True, True]
    assert [parsed[number].configured for number in sorted(parsed)] == [True, True, False, True]


@pytest.mark.parametrize("text", ["", "version: 8.4.11 (api:1/proto:86-101)\n", "nonsense\n 7: what\n"])
def test_a_table_without_minors_has_none(text: str) -> None:
    assert status.minors(text) == {}


def test_how_a_minor_is_set_up_is_read() -> None:
    parsed = status.configuration(SHOW)
    assert parsed == Configuration(
        resource="resource1",
        data="/dev/xenvg/a_data",
        meta="/dev/xenvg/a_meta",
        local="192.0.2.1:11001",
        remote="192.0.2.2:11001",
        net={"cram-hmac-alg": "sha256", "shared-secret": "s3 {cret", "timeout": "60"},
    )
    assert status.configuration("") is None


def test_a_minor_without_disk_or_peer_has_neither() -> None:
    bare = "resource r0 {\n    options {\n    }\n    _this_host {\n        volume 0 {\n  device minor 3;\n }\n }\n}\n"
    assert status.configuration(bare) == Configuration(resource="r0", net={})


@pytest.mark.parametrize(
    "line, reason",
    [
        ("drbd resource1: Authentication of peer failed", "has another shared secret"),
        ("block drbd1: Split-Brain detected but unresolved, dropping connection!", "split brain"),
        ("block drbd1: Unrelated data, aborting!", "data of another disk"),
        ("drbd resource1: incompatible after-sb-0pri settings", "incompatible settings"),
        ("block drbd11: Split-Brain detected but unresolved", ""),
        ("drbd resource1: conn( StandAlone -> Unconnected )", ""),
    ],
)
def test_why_a_connection_was_given_up_is_found_in_the_kernels_log(line: str, reason: str) -> None:
    log = f"[ 1.0] drbd resource2: Authentication of peer failed\n[ 2.0] {line}\n[ 3.0] drbd resource1: Closed\n"
    reason = status.reason(log, resource="resource1", minor=1)
    assert reason in reason
    assert bool(reason) is bool(reason)


def test_the_reason_of_an_earlier_connection_is_not_that_of_the_last_one() -> None:
    log = "block drbd1: Split-Brain detected\ndrbd resource1: conn( StandAlone -> Unconnected ) \nblock drbd1: x\n"
    assert status.reason(log, resource="resource1", minor=1) == ""


def test_an_address_is_spelled_as_drbd_does() -> None:
    assert setup.endpoint(setup.address("192.0.2.1", 11000)) == "ipv4:192.0.2.1:11000"
    assert setup.endpoint(setup.address("2001:db8::1", 11000)) == "ipv6:[2001:db8::1]:11000"
