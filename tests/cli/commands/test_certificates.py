"""``gnt-cluster renew-crypto``: what is typed becomes the opcode; what does not exist is named."""

from pathlib import Path

import pytest
from tests.cli.conftest import Gnt, Master

RENEW = "OP_CLUSTER_RENEW_CRYPTO"


@pytest.fixture(autouse=True)
def result(master: Master) -> None:
    master.results[RENEW] = []


@pytest.mark.parametrize("options", ["", "-v", "--verbose", "-f -v"])
def test_verbose_renews_what_the_command_renews_without_it(gnt: Gnt, master: Master, options: str) -> None:
    assert gnt(f"gnt-cluster renew-crypto {options}").code == 0
    assert [op["OP_ID"] for op in master.ops] == [RENEW]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--new-ssh-keys", ["--new-ssh-keys: nothing to renew: no SSH keys are managed"]),
        ("--ssh-key-type ecdsa", ["--ssh-key-type: nothing to renew: no SSH keys are managed"]),
        ("--ssh-key-bits 4096", ["--ssh-key-bits: nothing to renew: no SSH keys are managed"]),
        (
            "--new-spice-certificate --new-cluster-domain-secret --no-ssh-key-check",
            ["--new-spice-certificate", "--new-cluster-domain-secret", "--no-ssh-key-check"],
        ),
    ],
)
def test_options_about_what_does_not_exist_renew_nothing_and_say_so(
    gnt: Gnt, master: Master, options: str, words: list[str]
) -> None:
    ran = gnt(f"gnt-cluster renew-crypto {options}")
    assert (ran.code, master.ops) == (0, [])
    assert all(word in ran.out for word in words)


def test_options_without_effect_leave_those_beside_them_alone(gnt: Gnt, master: Master) -> None:
    assert gnt("gnt-cluster renew-crypto --new-ssh-keys --ssh-key-type rsa --new-node-certificates").code == 0
    assert [(op["OP_ID"], op["node_certificates"]) for op in master.ops] == [(RENEW, True)]


@pytest.mark.parametrize("value", ["--ssh-key-type ed25519", "--ssh-key-bits many"])
def test_values_that_mean_nothing_are_refused(gnt: Gnt, master: Master, value: str) -> None:
    ran = gnt(f"gnt-cluster renew-crypto {value}")
    assert ran.code
    assert master.ops == []


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ("--spice-certificate FILE --spice-ca-certificate FILE", "vnc_x509_path on each node; copy"),
        ("--spice-ca-certificate FILE", "vnc_x509_path on each node; copy"),
        ("--cluster-domain-secret FILE", "no moves between clusters, and so no secret for them; omit the option"),
        ("--new-rapi-certificate --rapi-certificate FILE", "exclude each other"),
        ("--new-spice-certificate --spice-certificate FILE", "exclude each other"),
        ("--new-cluster-domain-secret --cluster-domain-secret FILE", "exclude each other"),
    ],
)
def test_a_file_that_would_not_be_used_is_refused_before_anything_is_renewed(
    gnt: Gnt, master: Master, tmp_path: Path, options: str, advice: str
) -> None:
    path = tmp_path / "file.pem"
    path.write_text("")
    ran = gnt(f"gnt-cluster renew-crypto --new-cluster-certificate {options.replace('FILE', str(path))}")
    assert ran.code
    assert advice in ran.err
    assert master.ops == []
