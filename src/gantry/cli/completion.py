"""Shell completion, made from the tables of commands: ``python -m gantry.cli.completion bash|zsh|fish``.

The script that it prints is static and needs no Python to complete programs, commands and options; names of
instances, nodes and the like come from the list commands when they are asked for.
"""

import sys
from collections.abc import Iterator, Sequence

from gantry.cli import main
from gantry.cli.framework import command

NAMES = {
    "instance": "gnt-instance list --no-headers -o name",
    "node": "gnt-node list --no-headers -o name",
    "network": "gnt-network list --no-headers -o name",
    "group": "gnt-group list --no-headers -o name",
    "os": "gnt-os list --no-headers",
    "job": "gnt-job list --no-headers -o id",
    "range": "gantry segment range list --no-headers -o uuid",
}
"""What an option or argument completes to the command that prints the names."""

HEAD = "# Completion of the gnt-* commands for {}; made by: python -m gantry.cli.completion {}"


def _programs() -> Iterator[tuple[str, Sequence[command.Command]]]:
    for program in main.PROGRAMS:
        yield program, main.commands(program)[0]


def _beginnings(commands: Sequence[command.Command]) -> dict[str, list[str]]:
    """Return what commands whose names are several words begin with, and the words that may follow each."""
    found: dict[str, list[str]] = {}
    for one in commands:
        words = one.name.split()
        for count in range(1, len(words)):
            known = found.setdefault(" ".join(words[:count]), [])
            known += [words[count]] if words[count] not in known else []
    return found


def _first_words(commands: Sequence[command.Command]) -> list[tuple[str, str]]:
    """Return the words that may follow a program, each with its help."""
    known = [(name, one.help) for one in commands for name in (one.name, *one.aliases)]
    alone = {name.split()[0]: about if " " not in name else f"{name.split()[0]} commands" for name, about in known}
    return [*alone.items()]


def _depths() -> Iterator[tuple[str, int]]:
    """Yield the programs with their first words behind which more words name the command, and how many do at most."""
    for program, commands in _programs():
        names = [one.name.split() for one in commands]
        for first in dict.fromkeys(words[0] for words in names if len(words) > 1):
            yield f"{program} {first}", max(len(words) for words in names if words[0] == first)


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
        *(
            f"        {_quoted(start)}) command=${{COMP_WORDS[*]:1:COMP_CWORD > {depth} ? {depth} : COMP_CWORD - 1}} ;;"
            for start, depth in _depths()
        ),
        "    esac",
        '    case "$program $command" in',
    ]
    for program, commands in _programs():
        following = {"": [word for word, _ in _first_words(commands)], **_beginnings(commands)}
        for start, words in following.items():
            lines.append(f"        {_quoted(f'{program} {start}')}) values={_quoted(' '.join(words))} ;;")
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
        *(
            f'        {_quoted(start)}) command="${{(j: :)words[2,CURRENT > {last} ? {last} : CURRENT - 1]}}" ;;'
            for start, last in ((start, depth + 1) for start, depth in _depths())
        ),
        "    esac",
        '    case "$program $command" in',
    ]
    for program, commands in _programs():
        names = [f"{word}:{about}" for word, about in _first_words(commands)]
        lines.append(f"        {_quoted(program + ' ')}) options=({' '.join(map(_quoted, names))}) ;;")
        for start, words in _beginnings(commands).items():
            offered = f"values={_quoted(' '.join(words))}; kind=none"
            lines.append(f"        {_quoted(f'{program} {start}')}) {offered} ;;")
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
        for word, about in _first_words(commands):
            lines.append(f"complete -c {program} -n __fish_use_subcommand -a {word} -d {_quoted(about)}")
        for start, following in _beginnings(commands).items():
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in start.split())
            unseen = f"not __fish_seen_subcommand_from {' '.join(following)}"
            lines.append(f"complete -c {program} -n '{seen}; and {unseen}' -a {_quoted(' '.join(following))}")
        for one in commands:
            where = f"complete -c {program} -n '{_fish_seen(one)}'"
            lines += [f"{where} {_fish_option(option)}" for option in _options(one)]
            if _argument_kind(one):
                lines.append(f"{where} {_fish_values(_argument_kind(one))}")
    return "\n".join(lines)


def _fish_seen(one: command.Command) -> str:
    """Return the condition that a command was typed, by its name or an alias."""
    if " " not in one.name:
        return f"__fish_seen_subcommand_from {' '.join((one.name, *one.aliases))}"
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in one.name.split())


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
