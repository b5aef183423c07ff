"""The settings that ``gnt-cluster`` and ``gnt-group`` share: node parameters, disk parameters, the instance policy.

    --disk-parameters drbd:protocol=C           by disk template
    --ipolicy-bounds-specs min:SPECS/max:SPECS  a range of sizes; // separates several ranges, one of which must fit

SPECS are ``memory-size=1g,cpu-count=2``; sizes may have a unit (contracts/commands.md#letters-of-options). A size that
an option does not name stays unchanged.
"""

import argparse
import re
import shlex
from collections.abc import Callable
from typing import TypeVar

from gantry.cli import client, errors
from gantry.cli.framework import command, query
from gantry.cli.grammar import syntax

SIZES = ("memory-size", "disk-size")

Parsed = TypeVar("Parsed")


def specs(text: str) -> dict[str, int | str]:
    """Parse sizes by name; the word ``default`` resets a size. Raises InvalidError."""
    sizes: dict[str, int | str] = {}
    for name, value in syntax.key_values(text).items():
        if not isinstance(value, str):
            raise errors.InvalidError(f"{text!r}: {name} needs a value, as in {name}=1")
        with_unit = name in SIZES and not value.isdecimal()
        parse = or_default(syntax.size if with_unit else syntax.number)
        sizes[name] = parse(value)
    return sizes


def bounds(text: str) -> list[dict[str, dict[str, int | str]]]:
    """Parse ``min:SPECS/max:SPECS``; ``//`` separates several ranges. Raises InvalidError."""
    ranges = []
    for pair in text.split("//"):
        sides = {}
        for part in pair.split("/"):
            side, _, specs_text = part.partition(":")
            if side not in ("min", "max") or side in sides:
                raise errors.InvalidError(
                    f"{part!r} is not a bound of a policy",
                    hint="write bounds as in min:memory-size=128/max:memory-size=32g",
                )
            sides[side] = specs(specs_text)
        ranges.append(sides)
    return ranges


def ratio(text: str) -> float:
    """Parse a non-negative number, which may have a fraction; raises InvalidError."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        raise errors.InvalidError(f"{text!r} is not a ratio: write a non-negative number, as in 2.5")
    return float(text)


def or_default(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed | str]:
    """Return a parser that also accepts the word that resets a setting."""
    return lambda text: text if text == syntax.RESET else parse(text)


FIELDS = {
    "ipolicy_bounds_specs": "minmax",
    "ipolicy_std_specs": "std",
    "ipolicy_disk_templates": "disk-templates",
    "ipolicy_vcpu_ratio": "vcpu-ratio",
    "ipolicy_spindle_ratio": "spindle-ratio",
}
"""Maps an option to the part of a policy."""


def opcode_fields(options: argparse.Namespace) -> syntax.Structure:
    """Return the opcode fields that the options of node parameters, disk parameters and policies set."""
    fields: syntax.Structure = {}
    if options.node_parameters is not None:
        fields["ndparams"] = options.node_parameters
    if options.disk_parameters:
        fields["diskparams"] = by_name(options.disk_parameters, option="-D", example="plain:stripes=2")
    policy = {field: getattr(options, name, None) for name, field in FIELDS.items()}
    if policy := {field: value for field, value in policy.items() if value is not None}:
        fields["ipolicy"] = policy
    return fields


def by_name(pairs: list[tuple[str, syntax.Parameters]], *, option: str, example: str) -> dict[str, syntax.Parameters]:
    """Return the parameters of ``NAME:PARAMS`` by name; raises InvalidError if a name is missing."""
    named: dict[str, syntax.Parameters] = {}
    for name, parameters in pairs:
        if not name:
            raise errors.InvalidError(f"{option} needs a name before the colon, as in {example}")
        named[name] = named.get(name, {}) | parameters
    return named


def command_words(value: object) -> list[str]:
    """Return the options that set the sizes of a policy; ``value`` is the policy as queries return it."""
    policy = value if isinstance(value, dict) else {}
    words = []
    if policy.get("std"):
        words += ["--ipolicy-std-specs", _specs_text(policy["std"])]
    if policy.get("minmax"):
        sides = [
            [f"{side}:{_specs_text(pair[side])}" for side in ("min", "max") if pair.get(side)]
            for pair in policy["minmax"]
        ]
        words += ["--ipolicy-bounds-specs", "//".join(map("/".join, sides))]
    return words


def _specs_text(sizes: dict[str, object]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(sizes.items()))


def show_cluster(call: command.Call) -> int:
    """Print the command that creates a cluster with the instance sizes of this cluster."""
    cluster = call.client.cluster_info()
    print(shlex.join(["gnt-cluster", "init", *command_words(cluster["ipolicy"]), str(cluster["name"])]))
    return 0


def show_groups(call: command.Call) -> int:
    """Print the commands that create node groups with the instance sizes of these groups."""
    where = query.names_filter(call.arguments, query.Listing("group", ()))
    field = "ipolicy" if call.options.include_defaults else "custom_ipolicy"
    for group in call.client.records("group", ["name", field], where=where):
        # The standard instance is the cluster's alone.
        bounds_alone = {"minmax": client.expect(group[field], dict).get("minmax")}
        print(shlex.join(["gnt-group", "add", *command_words(bounds_alone), str(group["name"])]))
    return 0


INCLUDE_DEFAULTS = command.Option(("--include-defaults",), "Also print the sizes that a group has from the cluster")
STD = command.Option(
    ("--ipolicy-std-specs",), "Set the standard instance, for capacity planning", "SPECS", parse=or_default(specs)
)
OPTIONS = (
    command.Option(
        ("--node-parameters",), "Set node parameters, as in cpu_speed=1.5", "PARAMS", parse=syntax.parameters
    ),
    command.Option(
        ("-D", "--disk-parameters"),
        "Set parameters of a disk template, as in plain:stripes=2",
        "TEMPLATE:PARAMS",
        repeatable=True,
        parse=syntax.hypervisor,
    ),
    command.Option(
        ("--ipolicy-bounds-specs",),
        "Set how large an instance may be, as in min:memory-size=128/max:memory-size=32g,disk-size=1t; "
        "// separates several ranges, one of which must fit",
        "BOUNDS",
        parse=or_default(bounds),
    ),
    command.Option(
        ("--ipolicy-disk-templates",),
        "Set the disk templates that instances may have",
        "NAMES",
        parse=or_default(syntax.words),
    ),
    command.Option(
        ("--ipolicy-vcpu-ratio",),
        "Set how many virtual processors share a processor",
        "RATIO",
        parse=or_default(ratio),
    ),
    command.Option(
        ("--ipolicy-spindle-ratio",), "Set how much spindle use a spindle takes", "RATIO", parse=or_default(ratio)
    ),
)
