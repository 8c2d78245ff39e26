"""Translates the statements of a function: each ``if`` and loop runs as it stands for a Python condition, and calls
``drjit.if_stmt`` or ``drjit.while_loop`` where the condition turns out to be an array.

A translated ``if`` looks like this (a loop is alike)::

    _dr_test1 = x > 0
    if _dr_test1 is not True and _dr_test1 is not False and _dr_vector(_dr_test1):
        x, y = _dr_if_stmt((x, y), _dr_test1, _if_true_12, _if_false_12, …)
    elif _dr_test1:
        …                        # the statements of the branch
    else:
        …

The functions of branches and loop bodies stand beside the translated function, and take all variables that they use as
arguments: so there is one copy of them, whichever function their construct is in. In them ``break``, ``continue`` and
``return`` become the end of the function, which returns the variables and, for each way out, whether it was taken; for
arrays these are masks, and what follows runs for the elements that have not left (:class:`.names.Guard`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .names import (
    TRY,
    Guard,
    Liveness,
    attributes,
    bound,
    captured,
    completes,
    escapes,
    is_true,
    nested_scopes,
    reads,
    touched,
    used,
    walk,
)
from .normalize import Normalizer, is_hint

__all__ = ["Translator"]

_HINTS = ("mode", "max_iterations", "label", "include", "exclude", "strict")
_SIMPLE = (ast.Name, ast.Constant, ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.NamedExpr, ast.Attribute,
           ast.expr_context, ast.cmpop, ast.boolop, ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor,
           ast.unaryop)


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([_store(name)], value)


def _tuple(names: Iterable[str]) -> ast.expr:
    return ast.Tuple([_load(name) for name in names], ast.Load())


def _strings(names: Iterable[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _call(name: str, args: list[ast.expr], **keywords: ast.expr) -> ast.expr:
    return ast.Call(_load(name), args, [ast.keyword(key, value) for key, value in keywords.items()])


def _same(name: str, value: ast.expr) -> ast.expr:
    return ast.Compare(_load(name), [ast.Is()], [value])


def _is_vector(name: str, bound_by: ast.expr | None = None) -> ast.expr:
    """A test for an array that costs next to nothing if the condition is a ``bool``."""
    return ast.BoolOp(ast.And(), [
        ast.Compare(bound_by or _load(name), [ast.IsNot()], [ast.Constant(True)]),
        ast.Compare(_load(name), [ast.IsNot()], [ast.Constant(False)]), _call("_dr_vector", [_load(name)])])


def _if_unset(names: Iterable[str]) -> list[ast.stmt]:
    """Make variables unassigned that were passed on as such."""
    return [ast.If(_same(name, _load("_dr_UNSET")), [ast.Delete([ast.Name(name, ast.Del())])], []) for name in names]


def _or_unset(names: Iterable[str]) -> list[ast.stmt]:
    """Make variables that may not be assigned ones that can be passed on."""
    return [ast.Try([ast.Expr(_load(name))], [ast.ExceptHandler(_load("NameError"), None, [
        _assign(name, _load("_dr_UNSET"))])], [], []) for name in names]


class _Hint:
    """A condition, and what ``drjit.hint`` says about it."""

    def __init__(self, test: ast.expr, refuse: Callable[[ast.AST, str], SyntaxError]) -> None:
        self.test, self.keywords = test, dict[str, ast.expr]()
        self.include, self.exclude = set[str](), set[str]()
        self.scalar = False
        if not is_hint(test):
            return
        assert isinstance(test, ast.Call)
        if len(test.args) != 1 or isinstance(test.args[0], ast.Starred):
            raise refuse(test, "drjit.hint() takes one positional argument, the condition.")
        self.test = test.args[0]
        for keyword in test.keywords:
            if keyword.arg not in _HINTS:
                raise refuse(test, f"drjit.hint() does not support the keyword argument '{keyword.arg}'; it has "
                             f"{', '.join(_HINTS)}.")
            if keyword.arg in ("include", "exclude"):
                value = keyword.value
                if not isinstance(value, (ast.List, ast.Tuple)) or \
                        not all(isinstance(entry, ast.Name) for entry in value.elts):
                    raise refuse(test, f"'{keyword.arg}' of drjit.hint() must be a list of local variables.")
                names = {entry.id for entry in value.elts if isinstance(entry, ast.Name)}
                setattr(self, keyword.arg, names)
            elif keyword.arg == "mode" and isinstance(keyword.value, ast.Constant) and keyword.value.value == "scalar":
                self.scalar = True
            else:
                self.keywords[keyword.arg] = keyword.value

    def of(self, *names: str) -> dict[str, ast.expr]:
        """The hints that a construct takes."""
        return {name: copy.deepcopy(value) for name, value in self.keywords.items() if name in names}


class _Exit(ast.stmt):
    """Where the function of a branch or loop body ends: replaced when its results are known."""

    _fields = ()

    def __init__(self, place: ast.AST, kind: str, assigned: Iterable[str], value: ast.expr | None = None) -> None:
        super().__init__()
        ast.copy_location(self, place)
        self.kind, self.assigned, self.value = kind, set(assigned), value


class _Scope:
    """The function that statements are translated into."""

    def __init__(self, main: bool, assigned: set[str], possible: set[str], loop: int | None = None) -> None:
        self.main = main
        self.assigned = set(assigned)  # variables that have a value
        self.start = frozenset(assigned)
        self.possible = set(possible)  # that may have one
        self.loops: list[int | None] = [loop]  # the loops that ``break`` leaves, from outside
        self.inline = [False]  # whether those are loops of this function
        self.flags = set[str]()  # flags that are set in this function
        self.exits: list[_Exit] = []
        self.received_result = False  # whether the value to return is an argument


class Translator:
    """Translates one function; ``functions`` are those of branches and loop bodies."""

    def __init__(self, function: ast.FunctionDef, is_range: Callable[[ast.expr], bool],
                 refuse: Callable[[ast.AST, str], SyntaxError], taken: set[str], in_class: bool = False,
                 recursive: bool = False) -> None:
        self.is_range, self.recursive = is_range, recursive
        self.name, self.refuse, self.taken = function.name, refuse, taken
        args = function.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        self.parameters = [arg.arg for arg in every if arg is not None]
        declared = {name for node in walk(function.body) if isinstance(node, (ast.Global, ast.Nonlocal))
                    for name in node.names}
        changed = bound(function.body)
        self.own = set(self.parameters) | changed
        #: Variables that functions in here, or others, know too.
        self.shared = declared & changed
        scopes = list(nested_scopes(function.body))
        lasting = [node for node in scopes if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp))]
        for node in lasting:
            self.shared |= reads(node) & self.own if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else \
                captured(node) & self.own
        #: Variables that functions in here assign: they are read only.
        self.theirs = {name for scope in scopes for node in ast.walk(scope) if isinstance(node, ast.Nonlocal)
                       for name in node.names} & self.own
        for node in walk(function.body):
            if isinstance(node, ast.Name) and node.id in ("locals", "vars", "eval", "exec", "dir"):
                self.shared |= self.own
        self.declarations = [node for node in walk(function.body) if isinstance(node, (ast.Global, ast.Nonlocal))]
        self.declared = declared
        self.functions: list[ast.FunctionDef] = []
        self.built = dict[int, Any]()
        self.count = 0
        self.super_of = self.parameters[0] if in_class and (args.posonlyargs or args.args) else None
        self.normalizer = Normalizer(is_range, self.own, refuse)

    def translate(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of the function, translated."""
        declared = [_Declarations().visit(node) for node in body]
        body = [_Super(self).visit(node) for node in declared if node is not None]
        body = self.normalizer.function(body)
        Liveness().block(body, set(self.shared))
        start = set(self.parameters)
        scope = _Scope(True, start, start | self.declared)
        result = self._block(body, scope)
        if "returned" in scope.flags:
            result.append(ast.copy_location(ast.Return(_load("_dr_result")), body[-1]))
        result = [*map(copy.deepcopy, self.declarations), *self._initialized(scope), *result]
        for node in result:
            self._locate(node, body[0])
        return result

    # --- small things ------------------------------------------------------------------------------------------------

    def _locate(self, node: ast.AST, place: ast.AST) -> None:
        """Put what was made where what it was made from stands."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)):
                self._locate(child, node if hasattr(node, "lineno") else place)
        if not hasattr(node, "lineno") and "lineno" in node._attributes:
            inner = [child for child in ast.iter_child_nodes(node) if hasattr(child, "lineno")]
            ast.copy_location(node, min(inner, key=lambda child: child.lineno) if inner else place)

    def _temporary(self, what: str) -> str:
        self.count += 1
        return f"_dr_{what}{self.count}_"

    def _function_name(self, what: str, node: ast.AST) -> str:
        name = base = f"_{what}_{node.lineno}"  # type: ignore[attr-defined]
        number = 1
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def _initialized(self, scope: _Scope, received: Iterable[str] = ()) -> list[ast.stmt]:
        """What flags and the value to return are at first."""
        found: list[ast.stmt] = []
        for flag in sorted(scope.flags):
            found.append(_assign(f"_dr_{flag}", ast.Constant(False)))
        if "returned" in scope.flags and "_dr_result" not in received:
            found.append(_assign("_dr_result", _load("_dr_UNSET")))
        return found

    @staticmethod
    def _flags(kinds: Iterable[str], loop: int | None) -> list[str]:
        """The flags of ways out of a construct."""
        names = {"break": f"broken{loop}", "continue": f"continued{loop}", "return": "returned"}
        return [names[kind] for kind in sorted(kinds)]

    def _make(self, what: str, node: ast.AST, args: Sequence[str], body: list[ast.stmt]) -> str:
        """Define a function beside the translated one."""
        name = self._function_name(what, node)
        arguments = ast.arguments([], [ast.arg(arg) for arg in args], None, [], [], None, [])
        function = ast.FunctionDef(name, arguments, body or [ast.Pass()], [], None)
        if "type_params" in ast.FunctionDef._fields:
            function.type_params = []  # type: ignore[attr-defined]
        self._locate_all(function, node)
        self.functions.append(function)
        return name

    def _locate_all(self, function: ast.FunctionDef, node: ast.AST) -> None:
        for statement in function.body:
            self._locate(statement, node)
        ast.copy_location(function, node)
        ast.fix_missing_locations(function)

    # --- statements --------------------------------------------------------------------------------------------------

    def _block(self, nodes: list[ast.stmt], scope: _Scope) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in nodes:
            found += self._statement(node, scope)
        return found or [ast.Pass()]

    def _statement(self, node: ast.stmt, scope: _Scope) -> list[ast.stmt]:
        if isinstance(node, ast.If):
            return self._if(node, scope)
        if isinstance(node, Guard):
            return self._guard(node, scope)
        if isinstance(node, ast.While):
            return self._while(node, scope)
        if isinstance(node, ast.For):
            return self._for(node, scope)
        if isinstance(node, (ast.Break, ast.Continue)):
            result = self._leave(node, scope)
            scope.assigned |= self.own
            return result
        if isinstance(node, ast.Return):
            value = None if node.value is None else self._expression(node.value, scope)
            result = [ast.copy_location(ast.Return(value), node)]
            if not scope.main:
                leave = _Exit(node, "return", set(scope.assigned), value or ast.Constant(None))
                scope.exits.append(leave)
                result = [leave]
            scope.assigned |= self.own
            return result
        if isinstance(node, ast.Raise):
            result = [self._expressions(node, scope)]
            scope.assigned |= self.own
            return result
        if isinstance(node, (ast.With, *TRY, ast.Match)):
            return [self._container(node, scope)]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if self.recursive:
                self._nested(node)
            result = [node]
        else:
            result = [self._expressions(node, scope)]
        names = bound(node)
        if isinstance(node, ast.Delete):
            scope.assigned -= names
        else:
            scope.assigned |= names
            scope.possible |= names
        return result

    def _nested(self, node: ast.stmt) -> None:
        """Translate a function in this one, and those in it."""
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                self._nested(inner)
        elif isinstance(node, ast.FunctionDef) and not any(
                isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in walk(node.body)):
            translator = Translator(node, self.is_range, self.refuse, self.taken, recursive=True)
            body = translator.translate(node.body)
            node.body = [*translator.functions, *body]

    def _leave(self, node: ast.Break | ast.Continue, scope: _Scope) -> list[ast.stmt]:
        if scope.inline[-1]:
            return [node]
        leave = _Exit(node, type(node).__name__.lower(), set(scope.assigned))
        scope.exits.append(leave)
        return [leave]

    def _container(self, node: ast.stmt, scope: _Scope) -> ast.stmt:
        before = set(scope.assigned)
        scope.possible |= bound(node)
        if isinstance(node, ast.With):
            node.items = [ast.withitem(self._expression(item.context_expr, scope), item.optional_vars)
                          for item in node.items]
            scope.assigned |= bound(node.items)
            inside = set(scope.assigned)
            node.body = self._block(node.body, scope)
            scope.assigned &= inside  # the rest may have been left by an exception that is suppressed
        elif isinstance(node, ast.Match):
            node.subject = self._expression(node.subject, scope)
            for case in node.cases:
                scope.assigned = before | bound(case.pattern)
                case.body = self._block(case.body, scope)
            scope.assigned = before
        else:
            assert isinstance(node, TRY)
            node.body = self._block(node.body, scope)
            if node.orelse:
                node.orelse = self._block(node.orelse, scope)
            after = scope.assigned
            for handler in node.handlers:
                scope.assigned = before | ({handler.name} if handler.name else set())
                handler.body = self._block(handler.body, scope)
                after = after & (scope.assigned - ({handler.name} if handler.name else set()))
            if node.finalbody:
                scope.assigned = set(before)
                node.finalbody = self._block(node.finalbody, scope)
                after = after | scope.assigned if not node.handlers else after
            scope.assigned = after
        return node

    def _if(self, node: ast.If, scope: _Scope) -> list[ast.stmt]:
        hint = _Hint(node.test, self.refuse)
        test = self._expression(hint.test, scope)
        assigned, possible = set(scope.assigned), set(scope.possible)
        original = copy.deepcopy(node)
        body = self._block(copy.deepcopy(node.body), scope)
        first, scope.assigned = scope.assigned, set(assigned)
        orelse = self._block(copy.deepcopy(node.orelse), scope) if node.orelse else []
        second = scope.assigned
        scope.assigned = first & second
        if hint.scalar or isinstance(test, ast.Constant):
            return [ast.copy_location(ast.If(test, body, orelse), node)]
        name = self._temporary("test")
        outer = _Scope(False, assigned, possible)
        vector = self._vector_if(original, node, hint, name, scope, outer)
        inner = ast.copy_location(ast.If(_load(name), body, orelse), node)
        return [ast.copy_location(_assign(name, test), node),
                ast.copy_location(ast.If(_is_vector(name), vector, [inner]), node)]

    def _guard(self, node: Guard, scope: _Scope) -> list[ast.stmt]:
        assigned, possible = set(scope.assigned), set(scope.possible)
        flags = self._flags(node.flags, scope.loops[-1])
        scope.flags |= set(flags)
        original = copy.deepcopy(node)
        body = self._block(copy.deepcopy(node.body), scope)
        test = ast.BoolOp(ast.And(), [_same(f"_dr_{flag}", ast.Constant(False)) for flag in flags]) \
            if len(flags) > 1 else _same(f"_dr_{flags[0]}", ast.Constant(False))
        name = self._temporary("test")
        hint = _Hint(ast.Constant(True), self.refuse)
        vector = self._vector_if(original, node, hint, name, scope, _Scope(False, assigned, possible), flags)
        vector.insert(0, _assign(name, _call("_dr_remaining", [_load(f"_dr_{flag}") for flag in flags])))
        return [ast.copy_location(ast.If(test, body, vector), node)]

    def _vector_if(self, node: ast.If | Guard, key: ast.stmt, hint: _Hint, test: str, scope: _Scope, outer: _Scope,
                   guard: Sequence[str] = ()) -> list[ast.stmt]:
        """The call for an array as the condition; ``outer`` says what is assigned before."""
        kinds = escapes(node)
        flags = self._flags(kinds, scope.loops[-1])
        built = self._built(node)
        if built is None:
            inner = [*node.body, *getattr(node, "orelse", [])]
            names = touched(inner) & self.own
            live_in, live_out = set(node.live_in), set(node.live_out)  # type: ignore[union-attr]
            args = (((live_in | self.shared) & names) | hint.include) - hint.exclude - self.theirs
            fixed = sorted((hint.exclude | self.theirs) & reads(inner) & self.own)
            args = {name for name in args if name in outer.possible}
            unsure = sorted(args - outer.assigned)
            results = (((live_out | self.shared) & names) | hint.include) - hint.exclude - self.theirs
            carried = ["_dr_result"] if guard and "return" in kinds else []
            sides, bodies = [], []
            for block in (node.body, getattr(node, "orelse", [])):
                side = _Scope(False, (args | set(fixed)) & outer.assigned, args | set(fixed), scope.loops[-1])
                side.received_result = bool(carried)
                statements = self._block(copy.deepcopy(block), side) if block else []
                self._end(block, node, statements, side)
                sides.append(side)
                bodies.append(statements)
            # What neither side assigns for sure, and is not there before, is not there afterwards.
            going_on = sides[:1] if guard else sides
            ends = [leave.assigned for side in going_on for leave in side.exits if leave.kind == "end"]
            results = {name for name in results
                       if name in outer.possible or all(name in end for end in ends)}
            gaps = sorted({name for side in sides for leave in side.exits for name in results - leave.assigned})
            ordered = sorted(args)
            outs = sorted(results)
            functions = []
            for what, side, statements in zip(("if_true", "if_false"), sides, bodies, strict=True):
                received = [*ordered, *carried, *fixed]
                statements = [*_if_unset(unsure), *self._initialized(side, received), *statements]
                statements = self._close(statements, outs, flags, "return" in kinds, side)
                functions.append(self._make(what, key, received, statements))
            end_gaps = sorted({name for end in ends for name in results - end})
            built = self._build(node, (ordered, unsure, outs, functions, carried, fixed, bool(gaps), end_gaps,
                                       self._attributes(inner, ordered)))
        args_, unsure_, outs_, functions, carried, fixed, gapped, end_gaps, changed = built
        simple = not (flags or gapped or unsure_ or guard or changed)
        values = _tuple([*args_, *carried])
        sides_ = [self._bound(function, fixed, [*args_, *carried]) for function in functions]
        labels = [*outs_, *([f"the result of {self.name}()"] if "return" in kinds else []), *flags]
        keywords: dict[str, ast.expr] = {"arg_labels": _strings([*args_, *carried]), "rv_labels": _strings(labels)}
        if not simple:
            if flags:
                keywords["flags"] = ast.Constant(len(flags))
            if "return" in kinds:
                keywords["result"] = ast.Constant(self.name)
            if guard:
                keywords["guard"] = ast.Constant(True)
            if changed:
                keywords["attributes"] = ast.Constant(changed)
        keywords |= hint.of("mode", "label", "strict")
        call = _call("_dr_if_stmt" if simple else "_dr_run_if", [values, _load(test), *sides_], **keywords)
        targets = [*outs_, *(["_dr_result"] if "return" in kinds else [])]
        found = [*_or_unset(unsure_), *self._unpacked(targets, flags, guard, call)]
        scope.flags |= set(flags)
        found += _if_unset(sorted({*unsure_, *end_gaps}))
        return found

    def _unpacked(self, targets: list[str], flags: list[str], guard: Sequence[str], call: ast.expr) -> list[ast.stmt]:
        """Assign the results of a call, and combine flags that were set before."""
        new = [f"_dr_new_{flag}" if flag in guard else f"_dr_{flag}" for flag in flags]
        names = [*targets, *new]
        if not names:
            return [ast.Expr(call)]
        found: list[ast.stmt] = [ast.Assign([ast.Tuple([_store(name) for name in names], ast.Store())], call)]
        for flag, name in zip(flags, new, strict=True):
            if flag in guard:
                found.append(_assign(f"_dr_{flag}", _call("_dr_either", [_load(f"_dr_{flag}"), _load(name)])))
        return found

    @staticmethod
    def _attributes(nodes: Iterable[ast.AST],
                    args: Sequence[str]) -> tuple[tuple[int, str, tuple[str, ...], bool], ...]:
        """Attributes of the arguments that statements change: where the object is, its name, and the way from there."""
        return tuple(sorted([(args.index(root), root, path, stored) for root, path, stored in attributes(nodes)
                             if root in args]))

    @staticmethod
    def _bound(function: str, fixed: Sequence[str], args: Sequence[str]) -> ast.expr:
        """A function whose last arguments are variables that are no part of the state."""
        if not fixed:
            return _load(function)
        arguments = ast.arguments([], [ast.arg(arg) for arg in args], None, [], [], None, [])
        return ast.Lambda(arguments, ast.Call(_load(function), [_load(name) for name in (*args, *fixed)], []))

    def _built(self, node: ast.AST) -> Any:
        return self.built.get(node.identity) if hasattr(node, "identity") else None

    def _build(self, node: ast.AST, value: Any) -> Any:
        self.built[node.identity] = value  # type: ignore[attr-defined]
        return value

    @staticmethod
    def _end(nodes: list[ast.stmt], place: ast.AST, statements: list[ast.stmt], scope: _Scope) -> None:
        """Where statements are over, also if that is where elements come that have left before."""
        if statements and isinstance(statements[-1], (ast.Raise, _Exit)):
            return
        going_on = completes(nodes)
        leave = _Exit(nodes[-1] if nodes else place, "end" if going_on else "dead",
                      scope.assigned if going_on else scope.start)
        scope.exits.append(leave)
        statements.append(leave)

    def _close(self, statements: list[ast.stmt], outs: Sequence[str], flags: Sequence[str], returns: bool,
               scope: _Scope) -> list[ast.stmt]:
        """Put in what the function of a branch or loop body returns."""
        return _Exits(outs, flags, returns, scope).statements(statements)

    # --- loops -------------------------------------------------------------------------------------------------------

    def _while(self, node: ast.While, scope: _Scope) -> list[ast.stmt]:
        hint = _Hint(node.test, self.refuse)
        kinds = escapes(node.body)
        endless = is_true(hint.test)
        flags: frozenset[str] = node.pending  # type: ignore[attr-defined]
        number = node.identity  # type: ignore[attr-defined]
        assigned = set(scope.assigned)
        scope.possible |= bound(node)
        possible = set(scope.possible)
        original = copy.deepcopy(node)
        name = self._temporary("test")
        test = self._expression(copy.deepcopy(hint.test), scope)
        after_test = set(scope.assigned)
        body = self._inline_body(node.body, scope, number)
        scope.assigned = assigned if endless else after_test
        if endless:
            scope.assigned = assigned
        normal = getattr(node, "normal", None)
        names = [f"_dr_{flag}" for flag in self._flags(flags, number)]
        vector: list[ast.stmt] = []
        if not hint.scalar and (not endless or flags):
            vector = self._vector_loop(original, hint, name, scope, _Scope(False, assigned, possible), number)
            if normal:
                vector.append(_assign(normal, _call("_dr_remaining", [
                    _load(f"_dr_{flag}") for flag in self._flags(kinds & {"break", "return"}, number)])))
        start: list[ast.stmt] = []
        if f"continued{number}" in scope.flags:
            start.append(_assign(f"_dr_continued{number}", ast.Constant(False)))
            scope.flags.discard(f"continued{number}")
        if endless and not vector:
            loop: list[ast.stmt] = [*start, *body]
        elif endless:
            left = [ast.Compare(_load(flag), [ast.IsNot()], [ast.Constant(False)]) for flag in names]
            pending = ast.BoolOp(ast.Or(), list(left)) if len(left) > 1 else left[0]
            loop = [ast.If(pending, [*vector, ast.Break()], []), *start, *body]
        else:
            exhausted: list[ast.stmt] = [ast.Break()]
            if normal:
                value = _call("_dr_remaining", [_load(flag) for flag in names]) if names else ast.Constant(True)
                exhausted.insert(0, _assign(normal, value))
            stop = ast.If(ast.UnaryOp(ast.Not(), _load(name)), exhausted, [])
            tests: list[ast.stmt] = [ast.If(_same(flag, ast.Constant(True)), [ast.Break()], []) for flag in names]
            tests += [ast.copy_location(_assign(name, test), node.test)]
            if vector:
                tests.append(ast.If(_is_vector(name), [*vector, ast.Break()], []))
            loop = [*tests, stop, *start, *body]
        found: list[ast.stmt] = []
        if f"broken{number}" in scope.flags:
            found.append(_assign(f"_dr_broken{number}", ast.Constant(False)))
            scope.flags.discard(f"broken{number}")
        for statement in loop:
            self._locate(statement, node)
        return [*found, ast.copy_location(ast.While(ast.Constant(True), loop, []), node)]

    def _inline_body(self, nodes: list[ast.stmt], scope: _Scope, number: int) -> list[ast.stmt]:
        scope.loops.append(number)
        scope.inline.append(True)
        body = self._block(copy.deepcopy(nodes), scope)
        scope.loops.pop()
        scope.inline.pop()
        return body

    def _vector_loop(self, node: ast.While, hint: _Hint, test: str, scope: _Scope, outer: _Scope,
                     number: int) -> list[ast.stmt]:
        """The call for an array as the condition, or for elements that have left an endless loop."""
        endless = is_true(hint.test)
        nodes: list[ast.stmt] = node.plain_body  # type: ignore[attr-defined]
        kinds = escapes(nodes) & {"break", "return"}
        flags = self._flags(kinds, number)
        built = self._built(node)
        if built is None:
            names = (touched(nodes) | touched(hint.test)) & self.own
            live = node.live_head | self.shared  # type: ignore[attr-defined]
            state = ((live & names) | hint.include) - hint.exclude - self.theirs
            fixed = sorted((hint.exclude | self.theirs) & (reads(nodes) | reads(hint.test)) & self.own)
            state = {name for name in state if name in outer.possible}
            unsure = sorted(state - outer.assigned)
            ordered = sorted(state)
            extra = (["_dr_result"] if "return" in kinds else []) + [f"_dr_{flag}" for flag in flags]
            received = [*ordered, *extra, *fixed]
            start = (state | set(fixed)) & outer.assigned
            inner = _Scope(False, start, state | set(fixed), number)
            condition = self._expression(copy.deepcopy(hint.test), inner)
            left = [_load(f"_dr_{flag}") for flag in flags]
            if endless:
                condition = _call("_dr_remaining", left)
            elif flags:
                condition = _call("_dr_going", [condition, *left])
            cond = self._make("loop_cond", node, received, [*_if_unset(unsure),
                                                            ast.copy_location(ast.Return(condition), node.test)])
            inner = _Scope(False, start, state | set(fixed), number)
            inner.received_result = "return" in kinds
            statements = self._block(copy.deepcopy(nodes), inner)
            self._end(nodes, node, statements, inner)
            statements = [*_if_unset(unsure), *self._initialized(inner, received), *statements]
            statements = self._close(statements, ordered, flags, "return" in kinds, inner)
            body = self._make("loop_body", node, received, statements)
            gapped = any(state - leave.assigned for leave in inner.exits)
            built = self._build(node, (ordered, unsure, cond, body, fixed, extra, gapped,
                                       self._attributes([*nodes, hint.test], ordered)))
        ordered, unsure, cond, body, fixed, extra, gapped, changed = built
        simple = not (flags or unsure or gapped or changed)
        args = [*ordered, *extra]
        labels = [*ordered, *([f"the result of {self.name}()"] if "return" in kinds else []), *flags]
        keywords: dict[str, ast.expr] = {"labels": _strings(labels)}
        if not simple:
            if flags:
                keywords["flags"] = ast.Constant(len(flags))
                keywords["test"] = ast.Constant(True) if endless else _load(test)
            if "return" in kinds:
                keywords["result"] = ast.Constant(self.name)
            if changed:
                keywords["attributes"] = ast.Constant(changed)
        keywords |= hint.of("mode", "label", "strict", "max_iterations")
        scope.flags |= set(flags)
        functions = [self._bound(function, fixed, args) for function in (cond, body)]
        call = _call("_dr_while_loop" if simple else "_dr_run_loop", [_tuple(args), *functions], **keywords)
        return [*_or_unset(unsure), *self._unpacked(args, [], (), call), *_if_unset(unsure)]

    def _for(self, node: ast.For, scope: _Scope) -> list[ast.stmt]:
        number = node.identity  # type: ignore[attr-defined]
        flags: frozenset[str] = node.pending  # type: ignore[attr-defined]
        iterable = self._expression(node.iter, scope)
        assigned = set(scope.assigned)
        scope.possible |= bound(node)
        possible = set(scope.possible)
        lowered: ast.While | None = copy.deepcopy(getattr(node, "lowered", None))
        scope.assigned |= bound(node.target)
        body = self._inline_body(node.body, scope, number)
        scope.assigned = set(assigned)
        normal = getattr(node, "normal", None)
        orelse: list[ast.stmt] = []
        names = [f"_dr_{flag}" for flag in self._flags(flags, number)]
        if normal:
            value = _call("_dr_remaining", [_load(flag) for flag in names]) if names else ast.Constant(True)
            orelse = [_assign(normal, value)]
        found: list[ast.stmt] = []
        vector: list[ast.stmt] = []
        name = self._temporary("range")
        if lowered is not None:
            at, stop, step = node.counters  # type: ignore[attr-defined]
            vector = [_assign(at, ast.Attribute(_load(name), "start", ast.Load())),
                      _assign(stop, ast.Attribute(_load(name), "stop", ast.Load())),
                      _assign(step, ast.Attribute(_load(name), "step", ast.Load()))]
            outer = _Scope(False, assigned | {at, stop, step}, possible | {at, stop, step})
            test = self._temporary("test")
            variable = node.variable  # type: ignore[attr-defined]
            needed = node.live_out | self.shared  # type: ignore[attr-defined]
            if isinstance(variable, ast.Name) and variable.id in needed and variable.id not in assigned:
                target = variable.id
                outer.assigned.add(target)
                vector += [*_or_unset([target]), ast.If(_same(target, _load("_dr_UNSET")),
                                                        [_assign(target, _load(at))], [])]
            hint = _Hint(lowered.test, self.refuse)
            inner_number = lowered.identity  # type: ignore[attr-defined]
            flags_of = escapes(lowered.plain_body) & {"break", "return"}  # type: ignore[attr-defined]
            if flags_of:
                vector.append(_assign(test, self._expression(copy.deepcopy(hint.test), scope)))
            for flag in self._flags(flags_of & {"break"}, inner_number):
                vector.append(_assign(f"_dr_{flag}", ast.Constant(False)))
            vector += self._vector_loop(lowered, hint, test, scope, outer, inner_number)
            scope.flags.discard(f"broken{inner_number}")
            if normal:
                vector.append(_assign(normal, _call("_dr_remaining", [
                    _load(f"_dr_{flag}") for flag in self._flags(flags_of, inner_number)])))
        start: list[ast.stmt] = []
        if f"continued{number}" in scope.flags:
            start.append(_assign(f"_dr_continued{number}", ast.Constant(False)))
            scope.flags.discard(f"continued{number}")
        if f"broken{number}" in scope.flags:
            found.append(_assign(f"_dr_broken{number}", ast.Constant(False)))
            scope.flags.discard(f"broken{number}")
        loop = ast.copy_location(ast.For(node.target, iterable, [*start, *body], orelse), node)
        if lowered is None:
            return [*found, loop]
        assert isinstance(iterable, ast.Call)
        iterable.func = ast.copy_location(_load("_dr_range"), iterable.func)
        loop.iter = _load(name)
        is_array = ast.Compare(ast.Attribute(_load(name), "__class__", ast.Load()), [ast.Is()],
                               [_load("_dr_ArrayRange")])
        result = [*found, _assign(name, iterable), ast.If(is_array, vector, [loop])]
        for statement in result:
            self._locate(statement, node)
        return result

    # --- expressions -------------------------------------------------------------------------------------------------

    def _expressions(self, node: Any, scope: _Scope) -> Any:
        """A statement with its expressions translated."""
        return _Expressions(self, scope).visit(node)

    def _expression(self, node: ast.expr, scope: _Scope) -> ast.expr:
        names = {inner.target.id for inner in walk(node) if isinstance(inner, ast.NamedExpr)}
        result = _Expressions(self, scope).visit(node)
        scope.possible |= names
        if not isinstance(node, (ast.BoolOp, ast.IfExp)):
            scope.assigned |= names
        return result  # type: ignore[no-any-return]


class _Declarations(ast.NodeTransformer):
    """Takes ``global`` and ``nonlocal`` out of statements."""

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node


class _Super(ast.NodeTransformer):
    """Tells ``super()`` what it would find in the frame of the method."""

    def __init__(self, owner: Translator) -> None:
        self.owner = owner

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords and \
                self.owner.super_of is not None:
            node.args = [ast.copy_location(_load(name), node) for name in ("__class__", self.owner.super_of)]
        return node


class _Exits(ast.NodeTransformer):
    """Replaces the ends of a branch or loop body by ``return`` of its results."""

    def __init__(self, outs: Sequence[str], flags: Sequence[str], returns: bool, scope: _Scope) -> None:
        self.outs, self.flags, self.returns, self.scope = outs, flags, returns, scope

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        holder = ast.Module(nodes, [])
        self.visit(holder)
        return holder.body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit__Exit(self, node: _Exit) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        values: list[ast.expr] = [_load(name) for name in self.outs]
        if node.kind == "return":
            assert node.value is not None
            found.append(_assign("_dr_result", node.value))
        found += _or_unset([name for name in self.outs if name not in node.assigned])
        if self.returns:
            known = node.kind == "return" or "returned" in self.scope.flags or self.scope.received_result
            values.append(_load("_dr_result" if known else "_dr_UNSET"))
        kind = {"break": "broken", "continue": "continued", "return": "returned"}.get(node.kind)
        for flag in self.flags:
            if kind is not None and flag.rstrip("0123456789") == kind:
                values.append(ast.Constant(True))
            elif flag in self.scope.flags and node.kind in ("end", "dead"):
                values.append(_load(f"_dr_{flag}"))
            else:
                values.append(ast.Constant(False))
        results: ast.expr = ast.Tuple(values, ast.Load())
        found.append(ast.Return(_call("_dr_Dead", [results]) if node.kind == "dead" else results))
        for statement in found:
            for inner in ast.walk(statement):
                if not hasattr(inner, "lineno"):
                    ast.copy_location(inner, node)
        return found


class _Expressions(ast.NodeTransformer):
    """Translates ``and``, ``or``, ``not`` and conditional expressions."""

    def __init__(self, owner: Translator, scope: _Scope) -> None:
        self.owner, self.scope = owner, scope

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp,
                             ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return node
        return super().visit(node)

    def _set(self, name: str, value: ast.expr) -> ast.expr:
        return ast.NamedExpr(_store(name), value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        name = self.owner._temporary("value")
        return _placed(ast.IfExp(_is_vector(name, self._set(name, node.operand)), _call("_dr_negated", [_load(name)]),
                                 ast.UnaryOp(ast.Not(), _load(name))), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        result = self.visit(node.values[0])
        conjunction = isinstance(node.op, ast.And)
        for position, second in enumerate(node.values[1:]):
            name = self.owner._temporary("value")
            other = self.visit(copy.deepcopy(second))
            if _is_simple(second):
                operator = ast.BitAnd() if conjunction else ast.BitOr()
                vector: ast.expr = ast.BinOp(_load(name), operator, copy.deepcopy(other))
            else:
                sides = (second, ast.Constant(False)) if conjunction else (ast.Constant(True), second)
                identity = (node.identity, position)  # type: ignore[attr-defined]
                vector = self._choice(second, identity, name, *sides)
            result = _placed(ast.IfExp(_is_vector(name, self._set(name, result)), vector,
                                       ast.BoolOp(node.op, [_load(name), other])), node)
        return result  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        hint = _Hint(node.test, self.owner.refuse)
        test = self.visit(hint.test)
        body, orelse = self.visit(copy.deepcopy(node.body)), self.visit(copy.deepcopy(node.orelse))
        if hint.scalar:
            return ast.copy_location(ast.IfExp(test, body, orelse), node)
        name = self.owner._temporary("test")
        vector = self._choice(node, node.identity, name, node.body, node.orelse,  # type: ignore[attr-defined]
                              hint.of("mode", "label", "strict"))
        return _placed(ast.IfExp(_is_vector(name, self._set(name, test)), vector,
                                 ast.IfExp(_load(name), body, orelse)), node)

    def _choice(self, node: ast.expr, identity: Any, test: str, first: ast.expr, second: ast.expr,
                hints: dict[str, ast.expr] | None = None) -> ast.expr:
        """The call for an array as the condition."""
        owner = self.owner
        parts: list[ast.AST] = [first, second]
        changed = sorted(_changed(parts) & owner.own - owner.theirs)
        args = [*changed, *sorted(set().union(*map(used, parts)) & owner.own - set(changed))]
        names: list[str] = owner.built.get(identity, [])
        for what, part in (("then", first), ("otherwise", second)) if not names else ():
            scope = _Scope(False, set(args), set(args))
            value = _Expressions(owner, scope).visit(copy.deepcopy(part))
            result = ast.Tuple([value, *[_load(name) for name in changed]], ast.Load())
            ends: list[ast.stmt] = [ast.copy_location(ast.Return(result), node)]
            names.append(owner._make(what, node, args, ends))
        owner.built[identity] = names
        call = _call("_dr_choice", [_tuple(args), _load(test), *[_load(name) for name in names], _strings(args),
                                    ast.Constant(1 + len(changed))], **(hints or {}))
        if not changed:
            return ast.Subscript(call, ast.Constant(0), ast.Load())
        result_name = owner._temporary("results")
        entries: list[ast.expr] = [self._set(result_name, call)]
        for k, name in enumerate(changed):
            entries.append(self._set(name, ast.Subscript(_load(result_name), ast.Constant(k + 1), ast.Load())))
        entries.append(ast.Subscript(_load(result_name), ast.Constant(0), ast.Load()))
        return ast.Subscript(ast.Tuple(entries, ast.Load()), ast.Constant(-1), ast.Load())


def _is_simple(node: ast.expr) -> bool:
    """Whether an expression may be computed where it is not needed."""
    return all(isinstance(inner, _SIMPLE) for inner in ast.walk(node)) and \
        not any(isinstance(inner, ast.NamedExpr) and not inner.target.id.startswith("_dr_") for inner in ast.walk(node))


def _changed(nodes: list[ast.AST]) -> set[str]:
    """Variables that an expression may change: it assigns them, or passes them to a function."""
    found = {inner.target.id for inner in walk(nodes) if isinstance(inner, ast.NamedExpr)
             and not inner.target.id.startswith("_dr_")}
    for node in walk(nodes):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                found |= reads(node.func)
            found |= reads([*node.args, *[keyword.value for keyword in node.keywords]])
    return found


def _placed(node: ast.expr, place: ast.AST) -> ast.expr:
    """An expression that was made, in the place of one of the program."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            ast.copy_location(inner, place)
    return node
