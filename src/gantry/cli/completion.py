"""Shell completion, made from the tables of commands: ``python -m gantry.cli.completion bash|zsh|fish``.

The script that it prints is static and needs no Python to complete programs, commands and options; names of
instances, nodes and the like come from the list commands when they are asked for.
"""

import sys
from collections.abc import Iterator, Sequence

from gantry.cli import command, main

NAMES = {
    "instance": "gnt-instance list --no-headers -o name",
    "node": "gnt-node list --no-headers -o name",
    "network": "gnt-network list --no-headers -o name",
    "group": "gnt-group list --no-headers -o name",
    "os": "gnt-os list --no-headers",
    "job": "gnt-job list --no-headers -o id",
}
"""What an option or argument completes to the command that prints the names."""

HEAD = "# Completion of the gnt-* commands for {}; made by: python -m gantry.cli.completion {}"


def _programs() -> Iterator[tuple[str, Sequence[command.Command]]]:
    for program in main.PROGRAMS:
        yield program, main.commands(program)[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _options(one: command.Command) -> tuple[command.Option, ...]:
    return (*one.options, *command.EVERY)


def _argument_kind(one: command.Command) -> str:
    """Return what the arguments of a command are; later ones may be something else than the first, which is rare."""
    return one.arguments[0].completes if one.arguments else ""


def _name_function(name: str, *, before: str) -> list[str]:
    cases = [f"        {kind}) {words} ;;" for kind, words in NAMES.items()]
    return [f"{name}() {{", f"    case {before} in", *cases, "    esac 2>/dev/null", "}"]


def _value_cases(one: command.Command, indent: str) -> Iterator[str]:
    """Say what may follow each option that takes a value."""
    for option in _options(one):
        if option.takes_value:
            values, kind = _quoted(" ".join(option.choices)), option.completes or "none"
            yield f"{indent}{'|'.join(option.names)}) values={values}; kind={kind} ;;"


def bash() -> str:
    """Return the script for bash."""
    lines = [HEAD.format("bash", "bash"), "", *_name_function("_gantry_names", before="$1"), "", "_gantry() {"]
    lines += [
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
        "    local program=${COMP_WORDS[0]##*/} command=${COMP_WORDS[1]} options= values= kind=",
        "    COMPREPLY=()",
        '    [ "$COMP_CWORD" -gt 1 ] || command=',
        '    case "$program $command" in',
    ]
    for program, commands in _programs():
        names = " ".join(name for one in commands for name in (one.name, *one.aliases))
        lines.append(f"        {_quoted(program + ' ')}) values={_quoted(names)} ;;")
        for one in commands:
            patterns = "|".join(_quoted(f"{program} {name}") for name in (one.name, *one.aliases))
            options = " ".join(name for option in _options(one) for name in option.names)
            lines.append(f"        {patterns})")
            lines.append(f"            options={_quoted(options)}; kind={_argument_kind(one) or 'none'}")
            lines += ["            case $previous in", *_value_cases(one, " " * 16), "            esac ;;"]
    lines += [
        "    esac",
        '    if [ "$kind" = file ]; then COMPREPLY=($(compgen -f -- "$current")); return; fi',
        '    [ -z "$kind" ] || [ "$kind" = none ] || values=$(_gantry_names "$kind")',
        "    case $current in -*) values=$options ;; esac",
        '    COMPREPLY=($(compgen -W "$values" -- "$current"))',
        "}",
        f"complete -F _gantry {' '.join(main.PROGRAMS)}",
    ]
    return "\n".join(lines)


def zsh() -> str:
    """Return the script for zsh; it goes into a folder of ``$fpath`` as ``_gantry``."""
    lines = [f"#compdef {' '.join(main.PROGRAMS)}", HEAD.format("zsh", "zsh"), ""]
    lines += [*_name_function("_gantry_names", before="$1"), "", "_gantry() {"]
    lines += [
        "    local program=${words[1]:t} command=${words[2]} previous=${words[CURRENT-1]} values= kind=",
        "    local -a options",
        "    (( CURRENT > 2 )) || command=",
        '    case "$program $command" in',
    ]
    for program, commands in _programs():
        names = [f"{name}:{one.help}" for one in commands for name in (one.name, *one.aliases)]
        lines.append(f"        {_quoted(program + ' ')}) options=({' '.join(map(_quoted, names))}) ;;")
        for one in commands:
            patterns = "|".join(_quoted(f"{program} {name}") for name in (one.name, *one.aliases))
            described = [f"{name}:{option.help}" for option in _options(one) for name in option.names]
            lines.append(f"        {patterns})")
            lines.append(f"            options=({' '.join(map(_quoted, described))})")
            lines.append(f"            kind={_argument_kind(one) or 'none'}")
            lines += ["            case $previous in", *_value_cases(one, " " * 16), "            esac ;;"]
    lines += [
        "    esac",
        "    if [[ -z $command || $PREFIX == -* ]]; then _describe 'word' options; return; fi",
        "    if [[ $kind == file ]]; then _files; return; fi",
        '    [[ $kind == none ]] || values=$(_gantry_names "$kind")',
        "    compadd -- ${=values}",
        "}",
        '_gantry "$@"',
    ]
    return "\n".join(lines)


def fish() -> str:
    """Return the script for fish."""
    cases = [line for kind, words in NAMES.items() for line in (f"        case {kind}", f"            {words}")]
    names = ["function __gantry_names", "    switch $argv[1]", *cases, "    end 2>/dev/null", "end"]
    lines = [HEAD.format("fish", "fish"), "", *names]
    for program, commands in _programs():
        lines += ["", f"complete -c {program} -f"]
        for one in commands:
            words = " ".join((one.name, *one.aliases))
            for name in (one.name, *one.aliases):
                lines.append(f"complete -c {program} -n __fish_use_subcommand -a {name} -d {_quoted(one.help)}")
            where = f"complete -c {program} -n '__fish_seen_subcommand_from {words}'"
            lines += [f"{where} {_fish_option(option)}" for option in _options(one)]
            if _argument_kind(one):
                lines.append(f"{where} {_fish_values(_argument_kind(one))}")
    return "\n".join(lines)


def _fish_option(option: command.Option) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    value = ""
    if option.choices:
        value = f" -x -a {_quoted(' '.join(option.choices))}"
    elif option.takes_value:
        value = f" -r {_fish_values(option.completes)}".rstrip()
    return f"{names}{value} -d {_quoted(option.help)}"


def _fish_values(kind: str) -> str:
    if kind == "file":
        return "-F"
    return f"-a '(__gantry_names {kind})'" if kind else ""


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SHELLS:
        sys.exit(f"usage: python -m gantry.cli.completion {'|'.join(SHELLS)}")
    print(SHELLS[sys.argv[1]]())
