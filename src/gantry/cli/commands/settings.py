"""``gnt-cluster modify``, and the settings that it shares with ``gnt-cluster init``: options, and what they become.

Where the seed and today's users have an option each, both are there: ``--defaults bridge=br5`` is ``-N link=br5``,
``--hypervisor-defaults`` is ``-H`` (seed "gnt-cluster commands"; contract: command line). The word ``default`` takes a
setting back.
"""

import argparse

from gantry.cli import errors
from gantry.cli.commands import policies
from gantry.cli.framework import command, submit
from gantry.cli.grammar import syntax

Structure = syntax.Structure

FIELDS = {
    "enabled_hypervisors": "enabled_hypervisors",
    "enabled_disk_templates": "enabled_disk_templates",
    "candidate_pool_size": "candidate_pool_size",
    "max_running_jobs": "max_running_jobs",
    "mac_prefix": "mac_prefix",
    "master_netdev": "master_netdev",
    "ipam_hold_time": "ipam_hold_time",
    "vg_name": "vg_name",
    "default_iallocator": "default_iallocator",
    "default_iallocator_params": "default_iallocator_params",
    "prealloc_wipe_disks": "prealloc_wipe_disks",
    "network_thresholds": "network_thresholds",
    "segment_ranges": "segment_ranges",
    "segment_fallback": "segment_fallback",
    "backend_parameters": "beparams",
    "nic_parameters": "nicparams",
}
"""Option to the field of OP_CLUSTER_SET_PARAMS that takes its value as it is."""

DEFAULTS = {"hypervisor": "default_hypervisor", "disksize": "default_disk_size", "bridge": "nicparams"}
"""What ``--defaults`` knows, and the field that takes it."""


def given(options: argparse.Namespace) -> Structure:
    """Return the settings that options name, as the opcode has them; raises InvalidError."""
    found = {field: getattr(options, name) for name, field in FIELDS.items() if getattr(options, name) is not None}
    found |= policies.given(options)
    if options.hypervisor:
        found["hvparams"] = _by_hypervisor(options.hypervisor)
    for key, value in (options.defaults or {}).items():
        if key == "bridge":
            found["nicparams"] = _with_bridge(found.get("nicparams") or {}, str(value))
        else:
            found[DEFAULTS[key]] = value
    return found


def _by_hypervisor(pairs: list[tuple[str, syntax.Parameters]]) -> dict[str, syntax.Parameters]:
    return policies.by_name(pairs, option="-H", example="kvm:accel=tcg")


def _with_bridge(nic: syntax.Parameters, bridge: str) -> syntax.Parameters:
    if "link" in nic or nic.get("mode", "bridged") != "bridged":
        raise errors.InvalidError("-N and --defaults bridge= say both what NICs are plugged in", hint="give one")
    return {**nic, "mode": syntax.RESET if bridge == syntax.RESET else "bridged", "link": bridge}


def modify(call: command.Call) -> int:
    """Change settings of the cluster."""
    op = {"OP_ID": "OP_CLUSTER_SET_PARAMS", **given(call.options)}
    for field in ("ipam_driver", "ipam_database"):
        if (value := getattr(call.options, field)) is not None:
            op[field] = value
    if call.options.force:
        op["force"] = True
    return submit.carry_out(call, op)


def modify_system(call: command.Call) -> int:
    """Change the cluster's defaults for an operating system (``gnt-os modify``)."""
    name, options = call.arguments[0], call.options
    op: syntax.Structure = {"OP_ID": "OP_CLUSTER_SET_PARAMS"}
    if options.os_parameters:
        op["osparams"] = {name: options.os_parameters}
    if options.os_parameters_private:
        op["osparams_private_cluster"] = {name: options.os_parameters_private}
    for field in ("hidden", "blacklisted"):
        if word := getattr(options, field):
            op[f"{field}_os"] = [["add" if word == "yes" else "remove", name]]
    if options.hypervisor:
        op["os_hvp"] = {name: _by_hypervisor(options.hypervisor)}
    return submit.carry_out(call, op)


def _thresholds(text: str) -> list[int]:
    parts = [syntax.number(word) for word in syntax.words(text)]
    if len(parts) != 2:
        raise errors.InvalidError(f"{text!r} is not two percentages, as in 80,95")
    return parts


def _defaults(text: str) -> syntax.Parameters:
    found = syntax.parameters(text)
    unknown = [key for key in found if key not in DEFAULTS]
    if unknown:
        raise errors.InvalidError(f"--defaults: unknown {', '.join(unknown)}", hint=f"there are {', '.join(DEFAULTS)}")
    wrong = [key for key, value in found.items() if not isinstance(value, str) or not value]
    if wrong:
        raise errors.InvalidError(f"--defaults: {', '.join(wrong)} has no value")
    if found.get("disksize", syntax.RESET) != syntax.RESET:
        found["disksize"] = syntax.size(str(found["disksize"]))
    return found


OPTIONS = (
    command.Option(
        ("--enabled-hypervisors",), "Hypervisors, the default one first, as in kvm,fake", "NAMES", parse=syntax.words
    ),
    command.Option(
        ("--enabled-disk-templates",),
        "Kinds of disks, the default one first, as in file,diskless",
        "NAMES",
        parse=syntax.words,
    ),
    command.Option(
        ("--defaults",),
        "Hypervisor, size of disks, and bridge of NICs where none is said",
        "hypervisor=HV,disksize=SIZE,bridge=BRIDGE",
        parse=_defaults,
    ),
    command.Option(
        (*command.HYPERVISOR_NAMES, "--hypervisor-defaults"),
        "Defaults of a hypervisor, as in kvm:accel=tcg",
        "HV:PARAMS",
        dest="hypervisor",
        many=True,
        parse=syntax.hypervisor,
    ),
    command.BACKEND,
    command.Option(
        ("-N", "--nic-parameters"), "Defaults of NICs, as in mode=bridged,link=br0", "PARAMS", parse=syntax.parameters
    ),
    *policies.OPTIONS,
    policies.STD,
    command.Option(("-m", "--mac-prefix"), "First half of MAC addresses, as in aa:00:00", "PREFIX"),
    command.Option(
        ("-C", "--candidate-pool-size"),
        "How many nodes keep a copy of the state, the master among them",
        "COUNT",
        parse=policies.or_default(syntax.number),
    ),
    command.Option(
        ("--max-running-jobs",),
        "How many jobs run at once; the others wait",
        "COUNT",
        parse=policies.or_default(syntax.number),
    ),
    command.Option(
        ("--ipam-hold-time",),
        "For how long an address rests that an instance has given back, as in 3600 or 1h; 0 at first",
        "TIME",
        parse=policies.or_default(syntax.seconds),
    ),
    command.Option(
        ("--network-thresholds",),
        "Percent of a network's pools in use from which verify warns, and from which it fails; 80,95 at first",
        "WARNING,CRITICAL",
        parse=policies.or_default(_thresholds),
    ),
    command.Option(
        ("-I", "--default-iallocator"), "Program that places instances, such as hail; empty for the built-in", "NAME"
    ),
    command.Option(
        ("--default-iallocator-params",), "Its options, as in algorithm=tight", "PARAMS", parse=syntax.parameters
    ),
    command.Option(("--vg-name",), "Volume group of disks that name none; xenvg at first", "GROUP"),
    command.Option(
        ("--prealloc-wipe-disks",),
        "Overwrite new disks with zeros before they are used: yes or no",
        "YES|NO",
        choices=("yes", "no", syntax.RESET),
    ),
    command.Option(
        ("--segment-ranges",),
        "Let segment ranges be made besides those of segments.ini: yes or no; off at first",
        "YES|NO",
        choices=("yes", "no", syntax.RESET),
    ),
    command.Option(
        ("--segment-fallback",),
        "Let a project that has used up its own segment ranges take from the shared ones: yes or no; off at first",
        "YES|NO",
        choices=("yes", "no", syntax.RESET),
    ),
    command.Option(("--master-netdev",), "Network device of the master's own address", "DEVICE"),
)
TEXT = """
    What is not named stays. The word default takes a setting back, as in -C default or -B vcpus=default. A hypervisor
    or a kind of disks that an instance uses cannot be left out. Nodes check the values before anything is changed.
    With -C nodes are promoted or demoted until the pool of master candidates has that size.
"""
MODIFY = command.Command(
    "modify",
    modify,
    "Change settings of the cluster",
    options=(
        *OPTIONS,
        command.Option(
            ("--ipam-driver",),
            "Who has the last word on addresses: embedded, the cluster alone, or sql, a database that others use too",
            "DRIVER",
            choices=("embedded", "sql"),
        ),
        command.Option(("--ipam-database",), "That database, sqlite:///FILE or postgresql://USER@HOST/DATABASE", "URL"),
        command.Option(("-f", "--force"), "Go on though nodes or a database cannot be asked, or have no such bridge"),
        *command.JOB,
    ),
    text=TEXT,
)
