"""The language check: texts and names use the words of ``docs/contributing/glossary.md``.

``make check`` runs it over the checkout: Python files and Markdown pages, outside of the folders in ``PENDING``. It
reports idioms that readers have to read twice, in docstrings, comments, strings and pages, and names of functions,
classes, arguments, constants, local variables and modules that do not name the thing. Attributes are exempt, as many
are names on a wire. ``python tools/language.py PATH...`` checks these files and folders instead, pending or not.

Idioms are searched in the plain text of a file, so a phrase is also found where it continues on the next line of a
comment or in the next literal of a string.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "changes", "demo", "docs", "os", "src", "tests", "tools")
FILES = ("README.md", "conftest.py")
EXEMPT = ("tools/language.py", "tests/tools/test_language.py", "docs/contributing/glossary.md")
"""Files that contain the idioms on purpose."""

PENDING: tuple[str, ...] = ()
"""Folders and files that are not checked yet."""

PENDING_LOCALS: tuple[str, ...] = ()
"""Folders and files whose local variables are not checked yet; everything else in them is."""


class Idiom(NamedTuple):
    """A phrase to avoid: a word that each occurrence contains, the expression, and what to write."""

    trigger: str
    pattern: re.Pattern[str]
    better: str


class Finding(NamedTuple):
    """A line of a file, and what to change there."""

    line: int
    message: str


_GAP = r"""(?:\s*["']\s*[fr]?["']|\s+(?:\#\s*)?)"""
"""What is between two words: spaces, a new line of a comment, or the end and beginning of string literals."""


def _idiom(trigger: str, expression: str, better: str) -> Idiom:
    return Idiom(trigger, re.compile(expression.replace(" ", _GAP)), better)


_FINE = r"(?P<fine>\bthere )?"
"""Begins a pattern which is good English in a sentence that begins so."""

_NOT_IDIOM = r"(?!(?:longer|more|matter|need|reason|match|other|way|one)\b)"

IDIOMS = (
    _idiom("anew", r"\banew\b", "'again', 'new', or a verb with 're-'"),
    _idiom("no", rf"{_FINE}\b(?:is|are|was|were) no {_NOT_IDIOM}[\w-]+ (?:of|for|that|which)\b", "'is not a ...'"),
    _idiom("no", rf"[}}'\"`] (?:is|are) no {_NOT_IDIOM}[\w-]+", "'... is not a ...'"),
    _idiom("be", r"\bbe it\b", "'whether', or 'may be'"),
    _idiom("many", r"\bso many\b", "the number, or 'that many'"),
    _idiom("long", r"\bso long as\b", "'while'"),
    _idiom("told", r"\b(?:is|are|was|were|be|been|being|not) told\b", "'is reported', 'is passed', 'receives'"),
    _idiom("tell", r"\btells? (?:whether|which)\b", "'return whether', 'report'"),
    _idiom("nobody", r"\bnobody else is there\b", "who is missing"),
    _idiom("nobody", r"\b(?:by|has to do with) nobody\b", "'not ... by any ...', 'without ...'"),
    _idiom("back", r"\b(?:give[sn]?|gave|giving) (?:it |them )?back\b", "'release', 'return', 'restore'"),
    _idiom("asked", r"\bwhat (?:\w+ )?(?:is|was|are|were) asked\b", "'the request', 'the requested ...'"),
    _idiom("word", r"\bha(?:s|ve|d) no (?:\w+ )?words? (?:for|of)\b", "'has no term for', 'cannot express'"),
    _idiom("notice", r"\bt(?:ake|akes|ook) no notice\b", "'ignore'"),
    _idiom("aside", r"\bput aside\b", "'offline', 'postponed', 'set aside'"),
    _idiom("of", r"\b(?:comes?|fail(?:s|ed)?) of\b", "'results from', 'fails with'"),
    _idiom("resting", r"(?<![\w.\"'`])resting\b(?!:)", "'quarantined'"),
    _idiom("waited", r"\b(?:is|are|was|were|be) waited for\b", "'wait for ...', '... is pending'"),
    _idiom("wanted", r"\b(?:is|are|was|were) wanted\b", "'is requested', 'is recorded'"),
    _idiom("mend", r"\bmend(?:s|ed|ing)?\b", "'fix', 'repair'"),
    _idiom("promis", r"(?<!/)\bpromis(?:e|es|ed|ing) (?:\w+ ){0,2}epochs?\b", "'grant', 'granted'"),
    _idiom("promis", r"\bepochs? (?:(?:is|are|was|were|has|been) )+promised\b", "'granted'"),
    _idiom("segment", r"\bjournal's (?:\w+ )?segments?\b", "'section'"),
    _idiom("segment", r"\bsegments? of (?:the|a) journal\b", "'section of the journal'"),
    _idiom("lest", r"\blest\b", "'so that ... not'"),
    _idiom("thereof", r"\bthereof\b", "'of it', or the thing"),
    _idiom("whence", r"\bwhence\b", "'from where'"),
)

VAGUE = {
    "one": "'instance', 'node'",
    "ones": "'instances', 'nodes'",
    "found": "'matching_pools'",
    "told": "'reported_status'",
    "made": "'created_disk'",
    "given": "'requested_address', 'parameters'",
    "wanted": "'requested_state'",
    "held": "'locks', 'reserved'",
    "left": "'remaining'",
    "others": "'other_nodes'",
    "said": "'output', 'message'",
    "asked": "'request', 'requested_...'",
    "heard": "'messages', 'events'",
    "shown": "'durable', 'displayed_...'",
    "nobody": "'absent', 'no_owner'",
    "place": "'position', 'location', 'owner', 'scope'",
    "places": "'positions', 'locations', 'owners', 'scopes'",
    "room": "'free_space', 'capacity', 'pool_space'",
    "rooms": "'free_space', 'folders'",
    "rest": "'quarantine', 'remaining', 'back_off_seconds'",
    "rests": "'quarantined'",
    "give": "'allocate', 'assign', 'provide'",
    "breath": "'yield_every'",
}
"""Names that do not name the thing, in lower case and without leading underscores, and what to name instead."""

PARTS = {
    "patience": "'timeout', with its unit",
    "anew": "'again', 'recreate', 'new'",
    "told": "'reported', 'logged'",
    "give_back": "'release'",
    "resting": "'quarantined'",
    "nobody": "'no_owner', 'nothing'",
}
"""Words that no name contains."""

CONSTANT_PARTS = {"pause": "'back_off', 'interval', with its unit", "rest": "'quarantine', 'back_off', with its unit"}
"""Words that no constant contains besides."""

_PART = re.compile(rf"(?<![a-z])(?:{'|'.join(PARTS)})(?![a-z])")
_CONSTANT_PART = re.compile(rf"(?<![a-z])(?:{'|'.join(CONSTANT_PARTS)})(?![a-z])")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _plain(name: str) -> str:
    """Return a name in lower case, with underscores between its words and none around it."""
    return _WORD.sub("_", name).strip("_").lower()


def _advice(name: str) -> str:
    """Return what to use instead of a name; empty if the name is good."""
    plain = _plain(name)
    if plain in VAGUE:
        return VAGUE[plain]
    if match := _PART.search(plain):
        return PARTS[match[0]]
    if name.isupper() and (match := _CONSTANT_PART.search(plain)):
        return CONSTANT_PARTS[match[0]]
    return ""


def _suspicious(code: CodeType) -> bool:
    """Return whether compiled code has any name that the check may report; far cheaper than a syntax tree."""
    names = {code.co_name, *code.co_varnames, *code.co_cellvars, *code.co_names}
    return any(map(_advice, names)) or any(_suspicious(each) for each in code.co_consts if isinstance(each, CodeType))


class _Names(ast.NodeVisitor):
    """The names that a module defines, with line and kind, in ``names``."""

    def __init__(self) -> None:
        self.names: list[tuple[int, str, str]] = []
        self._scope = "module variable"

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, kind: str, scope: str) -> None:
        self.names.append((node.lineno, kind, node.name))
        outer, self._scope = self._scope, scope
        before = len(self.names)
        self.generic_visit(node)
        if scope == "local":
            own = {name for _, _, name in self.names[before:]}
            if "right" in own:
                self.names[before:] = [entry for entry in self.names[before:] if entry[2] != "left"]
        self._scope = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node, "function", "local")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node, "function", "local")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._definition(node, "class", "attribute")

    def visit_arg(self, node: ast.arg) -> None:
        self.names.append((node.lineno, "argument", node.arg))
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        outer, self._scope = self._scope, "local"
        self.visit(node.target)
        self._scope = outer
        self.visit(node.iter)
        for condition in node.ifs:
            self.visit(condition)

    def visit_Starred(self, node: ast.Starred) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "rest"):
            self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name and node.name != "rest":
            self.names.append((node.lineno, self._scope, node.name))

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.names.append((node.lineno, self._scope, node.name))
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names.append((node.lineno, "local", node.name))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store) and (self._scope != "attribute" or node.id.isupper()):
            self.names.append((node.lineno, "constant" if node.id.isupper() else self._scope, node.id))


def names(source: str, *, local: bool = True) -> Iterator[Finding]:
    """Return the names in Python source that do not name the thing; ``local`` includes local variables."""
    if not _suspicious(compile(source, "", "exec", dont_inherit=True)):
        return
    visitor = _Names()
    visitor.visit(ast.parse(source))
    for line, kind, name in sorted(set(visitor.names)):
        if (kind != "local" or local) and (advice := _advice(name)):
            yield Finding(line, f"{kind} {name!r}: name the thing, {advice}")


def idioms(text: str) -> Iterator[Finding]:
    """Return the idioms to avoid in a text, in lower case."""
    lower = text.lower()
    for idiom in IDIOMS:
        if idiom.trigger in lower:
            for match in idiom.pattern.finditer(lower):
                if match.groupdict().get("fine"):
                    continue
                phrase = re.sub(_GAP, " ", match[0])
                yield Finding(text.count("\n", 0, match.start()) + 1, f"{phrase!r}: write {idiom.better}")


def _below(root: Path, paths: Iterable[str]) -> Iterator[Path]:
    """Return the files with Python or Markdown at paths, which may be folders."""
    for name in paths:
        path = root / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".md") and file.is_file():
                yield file


def _in(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def lines(root: Path, paths: Iterable[str] = ()) -> Iterator[str]:
    """Return a line for each finding: file, line and what to change.

    ``paths`` are files and folders to check, pending or not, relative to ``root`` or absolute; without them all is
    checked that is not pending.
    """
    named = list(paths)
    for path in _below(root, named or (*FOLDERS, *FILES)):
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        if name in EXEMPT or (not named and _in(name, PENDING)):
            continue
        text = path.read_text()
        findings = list(idioms(text))
        if path.suffix == ".py":
            findings += names(text, local=bool(named) or not _in(name, PENDING_LOCALS))
            if advice := _advice(path.stem):
                findings.append(Finding(1, f"module {path.stem!r}: name the thing, {advice}"))
        yield from (f"{name}:{line}: {message}" for line, message in sorted(findings))


def main(arguments: list[str]) -> int:
    """Print what to change in the given paths, or in this checkout; return the exit code.

    A path that does not exist, among the arguments or the pending ones, is an error: exit code 2.
    """
    named = [str(Path(argument).resolve()) for argument in arguments]
    if missing := [path for path in (*named, *PENDING, *PENDING_LOCALS) if not (ROOT / path).exists()]:
        print(f"no such file or folder: {', '.join(missing)}", file=sys.stderr)
        return 2
    faults = list(lines(ROOT, named))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
