"""Finds out whether a test asserts anything, from its source and from the source of the test helpers that it uses.

A helper is a function of the folder ``tests`` or a Hypothesis state machine that the source names, a method
that it calls (``guest.expect(x)``) of a class in a module of ``tests`` that the test's module imports, a nested
function, a function among the test's parameters, or a fixture that the test calls. Helpers of helpers are followed to
``DEPTH``. ``assert``, ``raise AssertionError``, ``pytest.raises``, ``pytest.fail``, ``pytest.warns`` and the methods
``assert_...`` of mocks are assertions; the product's own are not, and neither is the constant of ``assert True``.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType

import pytest
from hypothesis import stateful

DEPTH = 6
RAISING = frozenset({"raises", "fail", "warns", "RaisesGroup"})
"""The names in pytest that fail a test."""


def asserts(item: pytest.Function) -> bool:
    """Return whether a test, or a helper that it uses, has an assertion."""
    function = inspect.unwrap(item.function)
    roots = [getattr(getattr(function, "hypothesis", None), "inner_test", function), *_machine(item)]
    if spec := getattr(item, "callspec", None):
        roots += [value for value in spec.params.values() if isinstance(value, FunctionType)]
    called = {node.func.id for node in _calls(_tree(roots[0])) if isinstance(node.func, ast.Name)}
    info = getattr(item, "_fixtureinfo", None)
    definitions = info.name2fixturedefs if info else {}
    roots += [definition.func for name in called & definitions.keys() for definition in definitions[name]]
    return any(_asserts(root, DEPTH) for root in roots)


def _machine(item: pytest.Function) -> Iterator[object]:
    """Yield the rules of a Hypothesis state machine whose ``TestCase`` holds the test."""
    if item.cls is None or not item.cls.__qualname__.endswith(".TestCase"):
        return
    name = item.cls.__qualname__.removesuffix(".TestCase")
    yield getattr(item.module, name, None)


@cache
def _tree(code: object) -> ast.AST:
    """Return the syntax tree of a function or class; an empty one for what has no source."""
    if not isinstance(code, FunctionType | type):
        return ast.Module([], [])
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], [])


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@cache
def _asserts(code: object, depth: int) -> bool:
    tree = _tree(code)
    names = _names(code)
    return any(_is_assertion(node) for node in ast.walk(tree)) or (
        depth > 0 and any(_asserts(helper, depth - 1) for helper in _helpers(tree, names) if helper is not code)
    )


def _names(code: object) -> dict[str, object]:
    """Return the global names that a function or the methods of a class see."""
    if isinstance(code, type):
        return vars(inspect.getmodule(code) or code).copy()
    return getattr(code, "__globals__", {})


def _is_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assert(test=test):
            return not (isinstance(test, ast.Constant) and test.value)
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError")) | ast.Name(id="AssertionError")):
            return True
        case ast.Attribute(value=ast.Name(id="pytest"), attr=name):
            return name in RAISING
        case ast.Call(func=ast.Attribute(attr=name)):
            return name.startswith("assert_")
    return False


def _helpers(tree: ast.AST, names: dict[str, object]) -> Iterator[object]:
    for node in ast.walk(tree):
        helper: object = None
        if isinstance(node, ast.Name):
            helper = names.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = names.get(node.value.id)
            helper = getattr(owner, node.attr, None) if isinstance(owner, ModuleType | type) else None
        if isinstance(helper, FunctionType) and _of_tests(helper):
            yield inspect.unwrap(helper)
        if isinstance(helper, type) and issubclass(helper, stateful.RuleBasedStateMachine):
            yield helper
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and helper is None:
            yield from _methods(node.func.attr, names)


def _methods(name: str, names: dict[str, object]) -> Iterator[Callable[..., object]]:
    """Yield the methods of a name in the classes of tests that these global names reach."""
    for value in list(names.values()):
        holders = vars(value).values() if isinstance(value, ModuleType) and _of_tests(value) else [value]
        for holder in list(holders):
            method = vars(holder).get(name) if isinstance(holder, type) and _of_tests(holder) else None
            if isinstance(method, FunctionType):
                yield inspect.unwrap(method)


def _of_tests(value: object) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(name).split(".")[0] in ("tests", "test_it") or str(name).startswith("test_")
