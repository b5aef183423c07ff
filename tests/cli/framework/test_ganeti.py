"""What scripts for Ganeti pass: options without effect here, and options that are refused."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Gnt, Master

from gantry.cli import main
from gantry.cli.framework import ganeti

COMMANDS = """
gnt-backup: export import list list-fields remove
gnt-cluster: activate-master-ip add-tags command copyfile deactivate-master-ip destroy epo getmaster info init list-tags
  master-failover masterfailover master-ping modify queue redist-conf remove-tags rename renew-crypto repair-disk-sizes
  search-tags show show-ispecs-cmd upgrade verify verify-disks version watcher
gnt-debug: allocator delay iallocator locks metad submit-job test-jobqueue test-osparams wconfd
gnt-group: add add-tags assign-nodes evacuate info list list-fields list-tags modify remove remove-tags rename
  show-ispecs-cmd
gnt-instance: activate-disks add add-tags batch-create change-group console deactivate-disks failover grow-disk info
  list list-fields list-tags migrate modify move reboot recreate-disks reinstall remove remove-tags rename replace-disks
  show shutdown snapshot start startup stop
gnt-job: archive autoarchive cancel change-priority info list list-fields show wait watch
gnt-network: add add-tags connect disconnect info list list-fields list-tags modify remove remove-tags rename
gnt-node: add add-tags evacuate failover health info list list-drbd list-fields list-storage list-tags migrate modify
  modify-storage power powercycle remove remove-tags repair-storage restricted-command show volumes
gnt-os: diagnose info list modify show
"""
"""The commands and aliases in Ganeti's man pages."""
REFUSED = [
    (command, option, sentence) for command, options in ganeti.REFUSED.items() for option, sentence in options.items()
]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            "gnt-instance add -t diskless web1",
            "--no-name-check --no-ip-check --opportunistic-locking --file-driver loop -c no "
            "--helper-startup-timeout 60 --helper-shutdown-timeout=60",
        ),
        (
            "gnt-backup import web1",
            "--no-name-check --no-ip-check --opportunistic-locking --file-driver=loop --communication=no "
            "--helper-startup-timeout 60 --helper-shutdown-timeout 60 --compress gzip",
        ),
        ("gnt-instance modify -B memory=1g web1", "--file-driver loop -c no --force-variant"),
        ("gnt-instance startup web1", "--ignore-offline"),
        ("gnt-instance shutdown web1", "--ignore-offline"),
        ("gnt-instance rename web1 web2", "--no-name-check --no-ip-check"),
        ("gnt-instance migrate -f web1", "--no-runtime-changes --ignore-hvversions"),
        ("gnt-node evacuate -f node1", "--ignore-soft-errors"),
        ("gnt-node add --join-token T node2", "--no-ssh-key-check --no-node-setup --verbose"),
        ("gnt-backup export -n node2 web1", "--long-sleep --zeroing-timeout-fixed 9 --zeroing-timeout-per-mib 0.5"),
        ("gnt-cluster redist-conf", "--yes-do-it"),
        (
            "gnt-cluster modify -C 3",
            "--maintain-node-health no --use-external-mip-script no --drbd-usermode-helper /bin/true "
            "--enabled-data-collectors x --data-collector-interval x=5 --modify-etc-hosts no --max-tracked-jobs 25",
        ),
        ("gnt-debug delay 1", "-i"),
    ],
)
def test_an_option_without_effect_submits_the_same_job(gnt: Gnt, master: Master, line: str, options: str) -> None:
    program, subcommand, arguments = line.split(" ", 2) if line.count(" ") > 1 else (*line.split(" "), "")
    for words in ("", options):
        ran = gnt(f"{program} {subcommand} --submit {words} {arguments}")
        assert ran.code == 0, ran.err
    plain, with_options = master.ops
    del plain["reason"], with_options["reason"]
    assert with_options == plain


def test_verify_takes_the_options_that_leave_checks_out(gnt: Gnt, master: Master) -> None:
    master.results["OP_CLUSTER_VERIFY"] = True
    assert gnt("gnt-cluster verify --no-nplus1-mem --verify-ssh-clutter").code == 0


@pytest.mark.parametrize(
    ("line", "value", "because"),
    [
        ("gnt-instance add -t diskless --file-driver blktap web1", "blktap", "the hypervisor decides"),
        ("gnt-instance modify -c yes web1", "yes", "no network between an instance and its node"),
        ("gnt-cluster modify --maintain-node-health yes", "yes", "--stray-guests"),
        ("gnt-cluster modify --drbd-usermode-helper /sbin/drbdadm", "/sbin/drbdadm", "/bin/true"),
    ],
)
def test_a_value_that_requests_a_feature_which_does_not_exist_is_refused(
    gnt: Gnt, master: Master, line: str, value: str, because: str
) -> None:
    ran = gnt(line)
    assert ran.code != 0
    assert f"'{value}' is not available" in ran.err
    assert because in ran.err
    assert master.requests == []


@pytest.mark.parametrize(("command", "option", "sentence"), REFUSED)
def test_a_refused_option_says_in_one_line_what_serves_instead(
    gnt: Gnt, master: Master, command: str, option: str, sentence: str
) -> None:
    expected = f"{command}: Ganeti's option {option} does not exist here; {sentence}\n"
    for words in (f"{option} x", f"{option}=x" if option.startswith("--") else option):
        assert gnt(f"{command} {words} x") == (2, "", expected)
    assert master.requests == []


def test_refused_options_are_of_commands_that_do_not_have_them() -> None:
    declared = {
        f"{program} {subcommand.name}": {name for option in subcommand.options for name in option.names}
        for program in main.PROGRAMS
        for subcommand in main.commands(program)[0]
    }
    for command, options in ganeti.REFUSED.items():
        assert not options.keys() & declared[command]


def test_an_allocator_places_the_instances_of_a_file_that_have_no_node(
    gnt: Gnt, master: Master, tmp_path: Path
) -> None:
    entries = {"web1": {}, "web2": {"pnode": "node1"}, "web3": {"iallocator": "gantry"}}
    (tmp_path / "file").write_text(
        json.dumps({name: {"disk_template": "diskless", **entry} for name, entry in entries.items()})
    )
    assert gnt(f"gnt-instance batch-create --submit -I hail {tmp_path}/file").code == 0
    assert [op.get("iallocator") for op in master.ops] == ["hail", None, "gantry"]


def test_every_command_of_ganeti_is_here_or_has_a_sentence() -> None:
    for line in COMMANDS.replace("\n  ", " ").strip().splitlines():
        program, _, names = line.partition(":")
        known = {name for each in main.commands(program)[0] for name in (each.name, *each.aliases)}
        absent = ganeti.COMMANDS.get(program, {})
        assert set(names.split()) <= known | absent.keys()
        assert not known & absent.keys()


@pytest.mark.parametrize(
    ("program", "name", "sentence"),
    [(program, name, text) for program, names in ganeti.COMMANDS.items() for name, text in names.items()],
)
def test_a_command_that_is_elsewhere_is_one_line(gnt: Gnt, program: str, name: str, sentence: str) -> None:
    code = gnt(f"{program} frobnicate").code
    assert gnt(f"{program} {name} x --force") == (
        code,
        "",
        f"{program}: there is no command {name!r} here; {sentence}\n",
    )


@pytest.mark.parametrize("program", ganeti.PROGRAMS)
@pytest.mark.parametrize("words", ["", "list", "--help"])
def test_a_program_that_does_not_exist_says_what_serves_instead(gnt: Gnt, program: str, words: str) -> None:
    code = gnt("gnt-node frobnicate").code
    assert gnt(f"{program} {words}") == (code, "", f"{program} does not exist here; {ganeti.PROGRAMS[program]}\n")


def test_sentences_name_commands_that_exist() -> None:
    texts = [*ganeti.PROGRAMS.values(), *(text for texts in ganeti.COMMANDS.values() for text in texts.values())]
    texts += [text for options in ganeti.REFUSED.values() for text in options.values()]
    named = [match for text in texts for match in re.findall(r"\b(gnt-[a-z]+|gantry) ([a-z][a-z-]+)", text)]
    assert len(named) > 20
    for program, name in named:
        assert name in {each.name for each in main.commands(program)[0]}, (program, name)


@pytest.mark.parametrize("words", ["segment", "segment range", "segment range frobnicate"])
def test_the_beginning_of_a_command_lists_the_commands_that_begin_so(gnt: Gnt, words: str) -> None:
    ran = gnt(f"gantry {words}")
    assert (ran.code, ran.out) == (gnt("gantry frobnicate").code, "")
    assert "segment range create" in ran.err
    assert "history" not in ran.err
    assert ran.err.endswith(f"gantry: there is no command {words!r}; the commands are listed above\n")
    requested_help = gnt(f"gantry {words} --help")
    assert (requested_help.code, requested_help.err) == (0, "")
    assert requested_help.out == ran.err.rpartition("gantry: there")[0]
