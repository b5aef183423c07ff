"""The faults that can be put into a module: each replaces one piece of its text.

A mutation is found in the syntax tree of the standard library and made in the text, so that all lines but the mutated
ones stay as they are. What no test should hold is left alone: docstrings, the wording of logs and errors, type
annotations, the declarations of classes and decorators, ``__repr__`` and ``__str__``, assertions, and a little more of
a time, size or number that somebody chose: a timeout of 11 s instead of 10; and whether a time ends at its last moment
or after it.
"""

import ast
import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
"""What each operator is written as, and what takes its place."""

CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
"""The functions that are replaced by another one."""

MEASURE = re.compile(
    r"^_?(max|most)(_|$)|(attempts|batch|block|bounds|burst|bytes|characters|count|epoch|frame|interval|kept|limit|once"
    r"|seconds|timeout)$",
    re.IGNORECASE,
)
"""The names whose numbers are times, sizes or counts that somebody chose, or limits of them."""

MARGIN = 2
"""A number of a measure from this one on is chosen, not known, so that one more is as good: it is not counted up."""

NOW = {"now", "monotonic", "time"}
"""The names of variables and methods that give the time."""

MOMENTS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
"""Comparisons that differ from their swapped ones, for the time, by a moment of no length."""

LOGGERS = {"log", "_log", "LOG", "logger", "_logger"}
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
DESCRIBING = {"__repr__", "__str__"}
NEGATIONS = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose swapped operator is their negation already."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A fault: ``new`` in place of the bytes from ``start`` to ``end`` of a file.

    ``scope`` is the qualified name of the function or class, empty for a module. ``before`` and ``after`` are the
    touched lines without and with the fault, their white space made even. ``number`` counts the mutations of the
    scope that read the same. ``lines`` are the first and last line of the statement, or of its head if the statement
    has a body. ``imported`` is set where the statement runs while the module is imported.
    """

    path: str
    scope: str
    line: int
    lines: tuple[int, int]
    imported: bool
    start: int
    end: int
    new: str
    before: str
    after: str
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the mutation wherever its lines move to: file and scope, the text before, the text after."""
        return (f"{self.path}::{self.scope}", self.before, self.after)

    def apply(self, source: bytes) -> bytes:
        """Return the text of the file with the fault."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutations(path: str, source: bytes) -> list[Mutation]:
    """Return all mutations of a module, in the order of their place; a few of them may be no Python."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    numbers: Counter[tuple[str, str, str]] = Counter()
    numbered = []
    for mutation in sorted(finder.found, key=lambda mutation: (mutation.start, mutation.end, mutation.new)):
        numbered.append(dataclasses.replace(mutation, number=numbers[mutation.key]))
        numbers[mutation.key] += 1
    return numbered


def compiles(source: bytes) -> bool:
    """Return whether a text is Python."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Walks through a module; knows the scope and the statement of the visited node."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._path = path
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []
        self._functions = 0
        self._lines = (1, 1)
        self._is_measure = False

    def visit(self, node: ast.AST) -> None:
        """Remember the lines of a statement while its parts are visited."""
        outer = self._lines
        if isinstance(node, ast.stmt):
            self._lines = _head(node)
        super().visit(node)
        self._lines = outer

    # Scopes and what is left alone

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit defaults and body, not the annotations and decorators; leave out what an interface only declares."""
        if node.name in DESCRIBING or _is_declaration(node):
            return
        self._scope.append(node.name)
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults = [
            *zip(reversed(positional), reversed(node.args.defaults), strict=False),
            *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        ]
        for argument, default in defaults:
            if default is not None:
                with self._value_of(argument.arg):
                    self.visit(default)
        self._functions += 1
        for statement in node.body:
            self.visit(statement)
        self._functions -= 1
        self._scope.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Visit it like another function."""
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body only."""
        self._scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave the annotation alone."""
        if node.value:
            self._delete_if_stored(node, [node.target])
            with self._value_of(_name(node.target)):
                self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it alone: assertions are for readers and the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it alone: before Python 3.12 its parts have no position."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the wording alone."""
        self._add(node, "pass")

    # Statements

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            if _logs(call):
                return
            self._add(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing."""
        if node.value and not (isinstance(node.value, ast.Constant) and node.value.value in (None, False)):
            self._add(node, "return None")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Leave out the storing into an object."""
        self._delete_if_stored(node, node.targets)
        with self._value_of(_name(node.targets[0])):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Swap the operator; leave the statement out if the operator has no opposite."""
        if type(node.op) in SWAPS:
            old, new = SWAPS[type(node.op)]
            self._swap(node.target, node.value, f"{old}=", f"{new}=")
        else:
            self._add(node, "pass")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Leave it out."""
        self._add(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        """Continue."""
        self._add(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Stop."""
        self._add(node, "break")

    def visit_If(self, node: ast.If) -> None:
        """Negate the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Negate the condition."""
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    # Expressions

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negate the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Take what a condition would leave out."""
        for condition in node.ifs:
            self._add(condition, "True")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Swap each operator, unless it tells the time before a moment from the moment."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if not (isinstance(operator, MOMENTS) and (_tells_time(left) or _tells_time(right))):
                self._swap(left, right, *SWAPS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Swap each operator."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap(left, right, *SWAPS[type(node.op)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Swap the operator, unless it joins texts, or is outside functions and makes a union of types."""
        joins = any(
            isinstance(part, ast.JoinedStr | ast.Constant) and not _is_number(part) for part in (node.left, node.right)
        )
        union = isinstance(node.op, ast.BitOr) and not self._functions
        if type(node.op) in SWAPS and not joins and not union:
            self._swap(node.left, node.right, *SWAPS[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave ``not`` out."""
        if isinstance(node.op, ast.Not):
            start = self._offset(node.lineno, node.col_offset)
            self._replace(start, start + len("not "), "")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Call the opposite function; leave the wording of errors and the types of casts alone."""
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "errors"
        ):
            return
        if isinstance(function, ast.Name):
            if function.id in CALLS and (function.id != "sorted" or not node.keywords):
                self._add(function, CALLS[function.id])
            if function.id == "cast":
                self.visit(node.args[1])
                return
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Note what the value is of."""
        with self._value_of(node.arg or ""):
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Swap true and false; count one up, unless it is a margin."""
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int | float) and not (self._is_measure and node.value >= MARGIN):
            self._add(node, str(node.value + 1))

    # Places

    @contextlib.contextmanager
    def _value_of(self, name: str) -> Iterator[None]:
        """Note while a value is visited whether its name says that it is a time or a size."""
        outer, self._is_measure = self._is_measure, bool(MEASURE.search(name))
        yield
        self._is_measure = outer

    def _delete_if_stored(self, node: ast.stmt, targets: list[ast.expr]) -> None:
        if self._scope[-1:] != ["__init__"] and all(isinstance(t, ast.Attribute | ast.Subscript) for t in targets):
            self._add(node, "pass")

    def _negate(self, condition: ast.expr) -> None:
        swapped = (
            isinstance(condition, ast.Compare) and len(condition.ops) == 1 and isinstance(condition.ops[0], NEGATIONS)
        )
        if not swapped and not (isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)):
            start, end = self._span(condition)
            self._replace(start, end, f"not ({self._source[start:end].decode()})")

    def _swap(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        _, start = self._span(left)
        end, _ = self._span(right)
        offset = self._source[start:end].find(old.encode())
        if offset >= 0:
            self._replace(start + offset, start + offset + len(old), new)

    def _add(self, node: ast.expr | ast.stmt, new: str) -> None:
        self._replace(*self._span(node), new)

    def _replace(self, start: int, end: int, new: str) -> None:
        first = self._source.rfind(b"\n", 0, start) + 1
        last = self._source.find(b"\n", end)
        line = self._source.count(b"\n", 0, start) + 1
        before = self._source[first:last]
        after = self._source[first:start] + new.encode() + self._source[end:last]
        self.found.append(
            Mutation(
                self._path,
                ".".join(self._scope),
                line,
                self._lines,
                not self._functions,
                start,
                end,
                new,
                _even(before),
                _even(after),
            )
        )

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _head(node: ast.stmt) -> tuple[int, int]:
    """Return the first and last line of a statement without its body."""
    body: list[ast.stmt] = getattr(node, "body", [])
    end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return node.lineno, max(end, node.lineno)


def _name(target: ast.expr) -> str:
    """Return the name to which a value is assigned, empty if there are several."""
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _is_declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function has no body of its own: nothing executes it, so its defaults are for readers."""
    last = node.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def _tells_time(node: ast.expr) -> bool:
    """Return whether the value is the time, or calculated from it."""
    names = {part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in ast.walk(node)}
    return not names.isdisjoint(NOW)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _even(text: bytes) -> str:
    return " ".join(text.decode().split())


def _logs(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
        return False
    owner = function.value
    return (owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")) in LOGGERS
