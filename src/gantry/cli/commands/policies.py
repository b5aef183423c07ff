"""What ``gnt-cluster`` and ``gnt-group`` both set: parameters of nodes and disks, and the policy of instances.

    --disk-parameters drbd:protocol=C           by kind of disk
    --ipolicy-bounds-specs min:SPECS/max:SPECS  a range of sizes; // separates several, of which one has to fit

SPECS are ``memory-size=1g,cpu-count=2``; sizes may have a unit (contract: command line).
"""

import argparse
import re
import shlex
from collections.abc import Callable

from gantry.cli import errors
from gantry.cli.framework import command, query
from gantry.cli.grammar import syntax

SIZES = ("memory-size", "disk-size")


def specs(text: str) -> dict[str, int]:
    """Parse sizes by name; raises InvalidError."""
    found = {}
    for name, value in syntax.key_values(text).items():
        if not isinstance(value, str):
            raise errors.InvalidError(f"{text!r}: {name} has no value, as in {name}=1")
        found[name] = syntax.size(value) if name in SIZES and not value.isdecimal() else syntax.number(value)
    return found


def bounds(text: str) -> list[dict[str, dict[str, int]]]:
    """Parse ``min:SPECS/max:SPECS``, several with ``//`` between them; raises InvalidError."""
    found = []
    for pair in text.split("//"):
        sides = {}
        for part in pair.split("/"):
            side, _, rest = part.partition(":")
            if side not in ("min", "max") or side in sides:
                raise errors.InvalidError(
                    f"{part!r} is no bound of a policy", hint="as in min:memory-size=128/max:memory-size=32g"
                )
            sides[side] = specs(rest)
        found.append(sides)
    return found


def ratio(text: str) -> float:
    """Parse a number that may have a fraction; raises InvalidError."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        raise errors.InvalidError(f"{text!r} is not a number that is not negative, as in 2.5")
    return float(text)


def or_default(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return what lets the word pass that takes a setting back."""
    return lambda text: text if text == syntax.RESET else parse(text)


FIELDS = {
    "ipolicy_bounds_specs": "minmax",
    "ipolicy_std_specs": "std",
    "ipolicy_disk_templates": "disk-templates",
    "ipolicy_vcpu_ratio": "vcpu-ratio",
    "ipolicy_spindle_ratio": "spindle-ratio",
}
"""Option to the part of a policy."""


def given(options: argparse.Namespace) -> syntax.Structure:
    """Return what options set, as the opcodes of both have it."""
    found: syntax.Structure = {}
    if options.node_parameters is not None:
        found["ndparams"] = options.node_parameters
    if options.disk_parameters:
        found["diskparams"] = by_name(options.disk_parameters, option="-D", example="plain:stripes=2")
    policy = {field: getattr(options, name, None) for name, field in FIELDS.items()}
    if set_here := {field: value for field, value in policy.items() if value is not None}:
        found["ipolicy"] = set_here
    return found


def by_name(pairs: list[tuple[str, syntax.Parameters]], *, option: str, example: str) -> dict[str, syntax.Parameters]:
    """Gather ``NAME:PARAMS`` by name; raises InvalidError without a name."""
    found: dict[str, syntax.Parameters] = {}
    for name, parameters in pairs:
        if not name:
            raise errors.InvalidError(f"{option} needs a name in front, as in {example}")
        found[name] = found.get(name, {}) | parameters
    return found


def words(holds: object) -> list[str]:
    """Return the options that set the sizes of a policy, which is as queries have it: those that it has."""
    policy = holds if isinstance(holds, dict) else {}
    found = []
    if policy.get("std"):
        found += ["--ipolicy-std-specs", _specs_text(policy["std"])]
    if policy.get("minmax"):
        sides = [
            [f"{side}:{_specs_text(pair[side])}" for side in ("min", "max") if pair.get(side)]
            for pair in policy["minmax"]
        ]
        found += ["--ipolicy-bounds-specs", "//".join(map("/".join, sides))]
    return found


def _specs_text(sizes: dict[str, object]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(sizes.items()))


def show_cluster(call: command.Call) -> int:
    """Print the command that makes a cluster with this one's sizes of instances."""
    found = call.client.cluster_info()
    print(shlex.join(["gnt-cluster", "init", *words(found["ipolicy"]), str(found["name"])]))
    return 0


def show_groups(call: command.Call) -> int:
    """Print the commands that make node groups with the sizes of instances that these set."""
    where = query.names_filter(call.arguments, query.Listing("group", ()))
    for found in call.client.records("group", ["name", "custom_ipolicy"], where=where):
        print(shlex.join(["gnt-group", "add", *words(found["custom_ipolicy"]), str(found["name"])]))
    return 0


STD = command.Option(
    ("--ipolicy-std-specs",), "The standard instance, for those who plan capacity", "SPECS", parse=or_default(specs)
)
OPTIONS = (
    command.Option(
        ("--node-parameters",), "Parameters of nodes, as in cpu_speed=1.5", "PARAMS", parse=syntax.parameters
    ),
    command.Option(
        ("-D", "--disk-parameters"),
        "Parameters of a kind of disks, as in plain:stripes=2",
        "TEMPLATE:PARAMS",
        many=True,
        parse=syntax.hypervisor,
    ),
    command.Option(
        ("--ipolicy-bounds-specs",),
        "How large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; "
        "with // before other bounds, of which one has to fit",
        "BOUNDS",
        parse=or_default(bounds),
    ),
    command.Option(
        ("--ipolicy-disk-templates",),
        "Kinds of disks that instances may have",
        "NAMES",
        parse=or_default(syntax.words),
    ),
    command.Option(
        ("--ipolicy-vcpu-ratio",),
        "Virtual processors that a processor is planned for",
        "RATIO",
        parse=or_default(ratio),
    ),
    command.Option(
        ("--ipolicy-spindle-ratio",), "Spindle use that a spindle is planned for", "RATIO", parse=or_default(ratio)
    ),
)
