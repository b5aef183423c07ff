"""The documentation as the tests read it: its links, its commands, and what it says they print.

A block that begins with ```` ```console ```` is run. Lines after ``$`` are commands, on the first node, on another
after ``node2$``, or on all of them after ``all$``; a command continues over lines that end in a backslash. What follows
is its output, where ``...`` stands for any part of a line, or alone on a line for any lines; a command without output
may print what it likes. A command must fail where its output shows a failure, and succeed otherwise. A block that
begins with ```` ```sh PATH ````, ```` ```yaml PATH ```` or ```` ```python PATH ```` is the content of that file;
without a path its commands are only parsed. Ages at the end of a line, or of an event, may be others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"

ALL = 0
"""The number of the node of a command that is for all of them."""

PROMPT = re.compile(r"(?:node(\d)|all)?\$ (.*)")
FAILURE = re.compile(
    r"^(Failure: |Failed to |gantry-masterd: |error type: |Error from server |The \w+ \".*\" is invalid: )",
    re.MULTILINE,
)
# As kubectl shows it, in a column or in that of an event.
AGE = re.compile(r" (\d+m)?\d+s(?=$| gantry-kube )")
# What a command tells on the standard error when it has to wait, which depends on the machine.
NOTICE = re.compile(r"^Job \d+ is (waiting in queue|trying to acquire all necessary locks|running)\n", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind the fence, where it begins, its lines."""

    words: list[str]
    line: int
    lines: list[str]


@dataclass(frozen=True)
class File:
    """A file that a page tells to write."""

    line: int
    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, the number of the node it is for, and the output that the page shows of it."""

    line: int
    node: int
    text: str
    shown: str

    @property
    def fails(self) -> bool:
        return bool(FAILURE.search(self.shown))


def blocks(page: Path) -> Iterator[Block]:
    fence, words, start, lines = "", [""], 0, [""]
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not fence and (opening := re.match(r"```+", line)):
            fence, words, start, lines = opening[0], line[len(opening[0]) :].split(), number, []
        elif fence and line == fence:
            yield Block(words, start, lines)
            fence = ""
        else:
            lines.append(line)
    assert not fence, f"{page}: the block of line {start} has no end"


def steps(page: Path) -> Iterator[File | Command]:
    """Yield the files and commands of a page, in order."""
    for block in blocks(page):
        if block.words[:1] == ["console"]:
            yield from _commands(block)
        elif block.words[:1] in (["sh"], ["yaml"], ["python"]) and len(block.words) == 2:
            yield File(block.line, block.words[1], "".join(f"{line}\n" for line in block.lines))


def _commands(block: Block) -> Iterator[Command]:
    lines = list(enumerate(block.lines, block.line + 1))
    while lines:
        number, line = lines.pop(0)
        prompt = PROMPT.fullmatch(line)
        assert prompt, f"line {number} is not a command: {line}"
        node = ALL if line.startswith("all") else int(prompt[1] or 1)
        text = [prompt[2]]
        while text[-1].endswith("\\"):
            text.append(lines.pop(0)[1])
        output = []
        while lines and not PROMPT.fullmatch(lines[0][1]):
            output.append(lines.pop(0)[1])
        yield Command(number, node, "\n".join(text), "\n".join(output).strip("\n"))


def typed(page: Path) -> Iterator[str]:
    """Yield every command line of a page, also those that the tests do not run."""
    for step in steps(page):
        if isinstance(step, Command):
            yield from _joined(step.text)
    for block in blocks(page):
        if block.words == ["sh"]:
            yield from _joined("\n".join(block.lines))
    yield from _joined("\n".join(re.findall(r"^    +(.*)$", page.read_text(), flags=re.MULTILINE)))


def _joined(text: str) -> list[str]:
    return re.sub(r"\\\n", " ", text).splitlines()


def matches(expected: str, printed: str) -> bool:
    """Return whether the output is what the page shows; columns may have other widths, and the first be indented."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else _line(line) + r"\n" for line in expected.splitlines())
    lines = NOTICE.sub("", printed).strip("\n").splitlines()
    return re.fullmatch(pattern, "".join(f"{_single(line)}\n" for line in lines)) is not None


def _line(line: str) -> str:
    return ".*".join(map(re.escape, _single(line).split("...")))


def _single(line: str) -> str:
    return AGE.sub(" 1s", re.sub(r"[ \t]+", " ", line).strip())


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links, except those in code."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for match in re.finditer(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        yield match[1]
