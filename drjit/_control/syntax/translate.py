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
arrays these are masks, and what follows runs for the elements that have not left (:class:`.names.Guard`). A branch also
says whether no element goes on, by whatever ways (``_dr_left``, :class:`.runtime.Dead`): what follows is not traced
then, since variables are not assigned there that no element needs.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .build import assign, call_of, if_unset, is_vector, load, or_unset, same, store, strings_of, tuple_of
from .exits import Exit, Exits, Scope
from .expressions import Expressions
from .hints import Hint, included, named_elsewhere
from .names import (
    TRY,
    Guard,
    Liveness,
    OwnScope,
    attributes,
    bound,
    captured,
    completes,
    escapes,
    is_true,
    kept,
    kept_across,
    nested_scopes,
    reads,
    touched,
    walk,
)
from .normalize import Normalizer

__all__ = ["Translator"]


class Translator:
    """Translates one function; ``functions`` are those of branches and loop bodies.

    ``enclosing`` are the variables of functions around it; ``is_global`` says whether a name is one of its module's.
    """

    def __init__(self, function: ast.FunctionDef, is_range: Callable[[ast.expr], bool],
                 refuse: Callable[[ast.AST, str], SyntaxError], taken: set[str], enclosing: set[str],
                 is_global: Callable[[str], bool], in_class: bool = False, recursive: bool = False) -> None:
        self.is_range, self.recursive, self.is_global = is_range, recursive, is_global
        self.name, self.refuse, self.taken = function.name, refuse, taken
        args = function.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        self.parameters = [arg.arg for arg in every if arg is not None]
        self.declarations = [node for node in walk(function.body) if isinstance(node, (ast.Global, ast.Nonlocal))]
        changed = bound(function.body)
        elsewhere = named_elsewhere(function)
        # what a hint makes part of the state is assigned, wherever the variable comes from
        others = included(function.body) - changed - {*self.parameters}
        self.declarations += self._declared(others, enclosing, elsewhere)
        declared = {name for node in self.declarations for name in node.names}
        changed |= others & declared
        self.own = set(self.parameters) | changed
        self.known = self.own | elsewhere
        #: The variables that functions in here find in this one, or around it.
        self.visible = enclosing | self.own - {
            name for node in self.declarations if isinstance(node, ast.Global) for name in node.names}
        #: Variables that functions in here, or others, know too.
        self.shared = declared & changed
        scopes = list(nested_scopes(function.body))
        lasting = [node for node in scopes if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp))]
        for node in lasting:
            self.shared |= reads(node) & self.own if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else \
                captured(node) & self.own
        self.shared |= kept(function.body) & self.own
        #: Variables that functions in here assign.
        self.assigned_within = {name for scope in scopes for node in ast.walk(scope) if isinstance(node, ast.Nonlocal)
                                for name in node.names} & self.own
        #: These, and variables that functions in here refer to when branches and loops assign them. Functions of
        #: branches and loop bodies that use them are functions in the translated one, and share the variables with it
        #: and those.
        self.theirs = self.assigned_within | (kept_across(function.body) & self.own - {
            name for node in walk(function.body) if isinstance(node, ast.Global) for name in node.names})
        for node in walk(function.body):
            if isinstance(node, ast.Name) and node.id in ("locals", "vars", "eval", "exec", "dir"):
                self.shared |= self.own
        self.declared = declared
        self.functions: list[ast.FunctionDef] = []
        self.inner_functions: list[ast.FunctionDef] = []
        self.built = dict[int, Any]()
        self.count = 0
        self.super_of = self.parameters[0] if in_class and (args.posonlyargs or args.args) else None
        self.normalizer = Normalizer(is_range, self.own, refuse)

    def translate(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of the function, translated."""
        declared = [_Declarations().visit(node) for node in body]
        body = [_Super(self.super_of).visit(node) for node in declared if node is not None]
        body = self.normalizer.function(body)
        Liveness().block(body, set(self.shared))
        start = set(self.parameters)
        scope = Scope(True, start, start | self.declared)
        result = self._block(body, scope)
        if "returned" in scope.flags:
            result.append(ast.copy_location(ast.Return(load("_dr_result")), body[-1]))
        result = [*map(copy.deepcopy, self.declarations), *self.inner_functions, *self._initialized(scope), *result]
        for node in result:
            self._locate(node, body[0])
        return result

    def _declared(self, names: set[str], enclosing: set[str], elsewhere: set[str]) -> list[ast.Global | ast.Nonlocal]:
        """Declarations of variables that the function has from around it, those aside that it declares itself."""
        names = names - {name for node in self.declarations for name in node.names}
        outer = sorted(names & enclosing)
        others = sorted(name for name in names - enclosing
                        if self.is_global(name) or name in elsewhere and not hasattr(builtins, name))
        return [kind(found) for kind, found in ((ast.Nonlocal, outer), (ast.Global, others)) if found]

    # --- small things ------------------------------------------------------------------------------------------------

    def _locate(self, node: ast.AST, place: ast.AST) -> None:
        """Put what was made where what it was made from stands."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)):
                self._locate(child, node if hasattr(node, "lineno") else place)
        if not hasattr(node, "lineno") and "lineno" in node._attributes:
            inner = [child for child in ast.iter_child_nodes(node) if hasattr(child, "lineno")]
            ast.copy_location(node, min(inner, key=lambda child: child.lineno) if inner else place)

    def temporary(self, what: str) -> str:
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

    def _initialized(self, scope: Scope, received: Iterable[str] = ()) -> list[ast.stmt]:
        """What flags and the value to return are at first."""
        found: list[ast.stmt] = []
        for flag in sorted(scope.flags):
            found.append(assign(f"_dr_{flag}", ast.Constant(False)))
        if scope.leaves:
            found.append(assign("_dr_left", ast.Constant(False)))
        if "returned" in scope.flags and "_dr_result" not in received:
            found.append(assign("_dr_result", load("_dr_UNSET")))
        return found

    @staticmethod
    def _flags(kinds: Iterable[str], loop: int | None) -> list[str]:
        """The flags of ways out of a construct."""
        names = {"break": f"broken{loop}", "continue": f"continued{loop}", "return": "returned"}
        return [names[kind] for kind in sorted(kinds)]

    def make(self, what: str, node: ast.AST, args: Sequence[str], body: list[ast.stmt]) -> str:
        """Define a function beside the translated one."""
        name = self._function_name(what, node)
        arguments = ast.arguments([], [ast.arg(arg) for arg in args], None, [], [], None, [])
        function = ast.FunctionDef(name, arguments, body or [ast.Pass()], [], None)
        if "type_params" in ast.FunctionDef._fields:
            function.type_params = []  # type: ignore[attr-defined]
        theirs = sorted(touched(function.body) & self.theirs)
        if theirs:
            function.body.insert(0, ast.Nonlocal(theirs))
        self._locate_all(function, node)
        (self.inner_functions if theirs else self.functions).append(function)
        return name

    def _locate_all(self, function: ast.FunctionDef, node: ast.AST) -> None:
        for statement in function.body:
            self._locate(statement, node)
        ast.copy_location(function, node)
        ast.fix_missing_locations(function)

    # --- statements --------------------------------------------------------------------------------------------------

    def _block(self, nodes: list[ast.stmt], scope: Scope) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in nodes:
            found += self._statement(node, scope)
        return found or [ast.Pass()]

    def _statement(self, node: ast.stmt, scope: Scope) -> list[ast.stmt]:
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
                leave = Exit(node, "return", set(scope.assigned), value or ast.Constant(None))
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
            translator = Translator(node, self.is_range, self.refuse, self.taken, self.visible, self.is_global,
                                    recursive=True)
            body = translator.translate(node.body)
            node.body = [*translator.functions, *body]

    def _leave(self, node: ast.Break | ast.Continue, scope: Scope) -> list[ast.stmt]:
        if scope.inline[-1]:
            return [node]
        leave = Exit(node, type(node).__name__.lower(), set(scope.assigned))
        scope.exits.append(leave)
        return [leave]

    def _container(self, node: ast.stmt, scope: Scope) -> ast.stmt:
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

    def _hint(self, node: ast.If | ast.While, construct: str, scope: Scope) -> Hint:
        """What a program says about a condition; refuses names of variables that cannot be part of the state."""
        hint = Hint(node.test, construct, self.refuse)
        possible = scope.possible | bound(node)
        for name in sorted(hint.include):
            if name not in self.own:
                raise self.refuse(node.test, f"'include' of drjit.hint() lists '{name}', which is no variable of "
                                  f"{self.name}(), of a function around it, or of its module.")
            if scope.main and name not in possible:
                raise self.refuse(node.test, f"'include' of drjit.hint() lists '{name}', which {self.name}() has not "
                                  "assigned before.")
        for name in sorted(hint.exclude - self.known):
            raise self.refuse(node.test, f"'exclude' of drjit.hint() lists '{name}', which {self.name}() does not use.")
        return hint

    def _if(self, node: ast.If, scope: Scope) -> list[ast.stmt]:
        hint = self._hint(node, "an 'if'", scope)
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
        name = self.temporary("test")
        outer = Scope(False, assigned, possible)
        vector = self._vector_if(original, node, hint, name, scope, outer)
        inner = ast.copy_location(ast.If(load(name), body, orelse), node)
        return [ast.copy_location(assign(name, test), node),
                ast.copy_location(ast.If(is_vector(name), vector, [inner]), node)]

    def _guard(self, node: Guard, scope: Scope) -> list[ast.stmt]:
        assigned, possible = set(scope.assigned), set(scope.possible)
        flags = self._flags(node.flags, scope.loops[-1])
        scope.flags |= set(flags)
        original = copy.deepcopy(node)
        body = self._block(copy.deepcopy(node.body), scope)
        test = ast.BoolOp(ast.And(), [same(f"_dr_{flag}", ast.Constant(False)) for flag in flags]) \
            if len(flags) > 1 else same(f"_dr_{flags[0]}", ast.Constant(False))
        name = self.temporary("test")
        hint = Hint(ast.Constant(True), "an 'if'", self.refuse)
        vector = self._vector_if(original, node, hint, name, scope, Scope(False, assigned, possible), flags)
        scope.leaves = True
        remaining = call_of("_dr_remaining", [load(f"_dr_{flag}") for flag in flags])
        vector.insert(0, assign(name, ast.IfExp(load("_dr_left"), ast.Constant(False), remaining)))
        return [ast.copy_location(ast.If(test, body, vector), node)]

    def _vector_if(self, node: ast.If | Guard, key: ast.stmt, hint: Hint, test: str, scope: Scope, outer: Scope,
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
            fixed = sorted((hint.exclude - self.theirs) & reads(inner) & self.own)
            args = {name for name in args if name in outer.possible}
            unsure = sorted(args - outer.assigned)
            results = (((live_out | self.shared) & names) | hint.include) - hint.exclude - self.theirs
            carried = ["_dr_result"] if guard and "return" in kinds else []
            sides, bodies = [], []
            for block in (node.body, getattr(node, "orelse", [])):
                side = Scope(False, (args | set(fixed)) & outer.assigned, args | set(fixed), scope.loops[-1])
                side.received_result, side.tells = bool(carried), bool(flags)
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
                statements = [*if_unset(unsure), *self._initialized(side, received), *statements]
                statements = self._close(statements, outs, flags, "return" in kinds, side)
                functions.append(self.make(what, key, received, statements))
            end_gaps = sorted({name for end in ends for name in results - end})
            built = self._build(node, (ordered, unsure, outs, functions, carried, fixed, bool(gaps), end_gaps))
        args_, unsure_, outs_, functions, carried, fixed, gapped, end_gaps = built
        simple = not (flags or gapped or unsure_ or guard)
        values = tuple_of([*args_, *carried])
        sides_ = [self._bound(function, fixed, [*args_, *carried]) for function in functions]
        labels = [*outs_, *([f"the result of {self.name}()"] if "return" in kinds else []),
                  *[f"the elements that {kind}" for kind in sorted(kinds)]]
        keywords: dict[str, ast.expr] = {"arg_labels": strings_of([*args_, *carried]), "rv_labels": strings_of(labels)}
        if not simple:
            if flags:
                keywords["flags"] = ast.Constant(len(flags))
            if "return" in kinds:
                keywords["result"] = ast.Constant(self.name)
            if guard:
                keywords["guard"] = ast.Constant(True)
        keywords |= hint.of("mode", "label", "strict")
        call = call_of("_dr_if_stmt" if simple else "_dr_run_if", [values, load(test), *sides_], **keywords)
        targets = [*outs_, *(["_dr_result"] if "return" in kinds else [])]
        found = [*or_unset(unsure_), *self._unpacked(targets, flags, guard, call, ["_dr_left"] if flags else [])]
        scope.flags |= set(flags)
        scope.leaves |= bool(flags)
        found += if_unset(sorted({*unsure_, *end_gaps}))
        return found

    def _unpacked(self, targets: list[str], flags: list[str], guard: Sequence[str], call: ast.expr,
                  behind: Sequence[str] = ()) -> list[ast.stmt]:
        """Assign the results of a call, and combine flags that were set before."""
        new = [f"_dr_new_{flag}" if flag in guard else f"_dr_{flag}" for flag in flags]
        names = [*targets, *new, *behind]
        if not names:
            return [ast.Expr(call)]
        found: list[ast.stmt] = [ast.Assign([ast.Tuple([store(name) for name in names], ast.Store())], call)]
        for flag, name in zip(flags, new, strict=True):
            if flag in guard:
                found.append(assign(f"_dr_{flag}", call_of("_dr_either", [load(f"_dr_{flag}"), load(name)])))
        return found

    @staticmethod
    def _bound(function: str, fixed: Sequence[str], args: Sequence[str]) -> ast.expr:
        """A function whose last arguments are variables that are no part of the state."""
        if not fixed:
            return load(function)
        arguments = ast.arguments([], [ast.arg(arg) for arg in args], None, [], [], None, [])
        return ast.Lambda(arguments, ast.Call(load(function), [load(name) for name in (*args, *fixed)], []))

    def _built(self, node: ast.AST) -> Any:
        return self.built.get(node.identity) if hasattr(node, "identity") else None

    def _build(self, node: ast.AST, value: Any) -> Any:
        self.built[node.identity] = value  # type: ignore[attr-defined]
        return value

    @staticmethod
    def _end(nodes: list[ast.stmt], place: ast.AST, statements: list[ast.stmt], scope: Scope) -> None:
        """Where statements are over, also if that is where elements come that have left before."""
        if statements and isinstance(statements[-1], (ast.Raise, Exit)):
            return
        going_on = completes(nodes)
        leave = Exit(nodes[-1] if nodes else place, "end" if going_on else "dead",
                      scope.assigned if going_on else scope.start)
        scope.exits.append(leave)
        statements.append(leave)

    def _close(self, statements: list[ast.stmt], outs: Sequence[str], flags: Sequence[str], returns: bool,
               scope: Scope) -> list[ast.stmt]:
        """Put in what the function of a branch or loop body returns."""
        return Exits(outs, flags, returns, scope).statements(statements)

    # --- loops -------------------------------------------------------------------------------------------------------

    def _while(self, node: ast.While, scope: Scope) -> list[ast.stmt]:
        hint = self._hint(node, "a loop", scope)
        kinds = escapes(node.body)
        endless = is_true(hint.test)
        flags: frozenset[str] = node.pending  # type: ignore[attr-defined]
        number = node.identity  # type: ignore[attr-defined]
        assigned = set(scope.assigned)
        scope.possible |= bound(node)
        possible = set(scope.possible)
        original = copy.deepcopy(node)
        name = self.temporary("test")
        test = self._expression(copy.deepcopy(hint.test), scope)
        after_test = set(scope.assigned)
        body = self._inline_body(node.body, scope, number)
        scope.assigned = assigned if endless else after_test
        normal = getattr(node, "normal", None)
        names = [f"_dr_{flag}" for flag in self._flags(flags, number)]
        vector: list[ast.stmt] = []
        if not hint.scalar and (not endless or flags):
            vector = self._vector_loop(original, hint, name, scope, Scope(False, assigned, possible), number)
            if normal:
                vector.append(assign(normal, call_of("_dr_remaining", [
                    load(f"_dr_{flag}") for flag in self._flags(kinds & {"break", "return"}, number)])))
        start = [*self._unset(f"continued{number}", scope), *self._staying(kinds, scope)]
        if endless and not vector:
            loop: list[ast.stmt] = [*start, *body]
        elif endless:
            left = [ast.Compare(load(flag), [ast.IsNot()], [ast.Constant(False)]) for flag in names]
            pending = ast.BoolOp(ast.Or(), list(left)) if len(left) > 1 else left[0]
            loop = [ast.If(pending, [*vector, ast.Break()], []), *start, *body]
        else:
            exhausted: list[ast.stmt] = [ast.Break()]
            if normal:
                value = call_of("_dr_remaining", [load(flag) for flag in names]) if names else ast.Constant(True)
                exhausted.insert(0, assign(normal, value))
            stop = ast.If(ast.UnaryOp(ast.Not(), load(name)), exhausted, [])
            tests: list[ast.stmt] = [ast.If(same(flag, ast.Constant(True)), [ast.Break()], []) for flag in names]
            tests += [ast.copy_location(assign(name, test), node.test)]
            if vector:
                tests.append(ast.If(is_vector(name), [*vector, ast.Break()], []))
            loop = [*tests, stop, *start, *body]
        found = self._unset(f"broken{number}", scope)
        for statement in loop:
            self._locate(statement, node)
        return [*found, ast.copy_location(ast.While(ast.Constant(True), loop, []), node), *self._staying(kinds, scope)]

    @staticmethod
    def _staying(kinds: Iterable[str], scope: Scope) -> list[ast.stmt]:
        """What says that elements are back which have left an iteration, or a loop."""
        return [assign("_dr_left", ast.Constant(False))] if scope.leaves and {"break", "continue"} & set(kinds) else []

    @staticmethod
    def _unset(flag: str, scope: Scope) -> list[ast.stmt]:
        """What sets a flag to false that is one within a loop only, if anything sets it."""
        if flag not in scope.flags:
            return []
        scope.flags.discard(flag)
        return [assign(f"_dr_{flag}", ast.Constant(False))]

    def _inline_body(self, nodes: list[ast.stmt], scope: Scope, number: int) -> list[ast.stmt]:
        scope.loops.append(number)
        scope.inline.append(True)
        body = self._block(copy.deepcopy(nodes), scope)
        scope.loops.pop()
        scope.inline.pop()
        return body

    def _vector_loop(self, node: ast.While, hint: Hint, test: str, scope: Scope, outer: Scope,
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
            fixed = sorted((hint.exclude - self.theirs) & (reads(nodes) | reads(hint.test)) & self.own)
            state = {name for name in state if name in outer.possible}
            unsure = sorted(state - outer.assigned)
            ordered = sorted(state)
            extra = (["_dr_result"] if "return" in kinds else []) + [f"_dr_{flag}" for flag in flags]
            received = [*ordered, *extra, *fixed]
            start = (state | set(fixed)) & outer.assigned
            inner = Scope(False, start, state | set(fixed), number)
            condition = self._expression(copy.deepcopy(hint.test), inner)
            left = [load(f"_dr_{flag}") for flag in flags]
            if endless:
                condition = call_of("_dr_remaining", left)
            elif flags:
                condition = call_of("_dr_going", [condition, *left])
            cond = self.make("loop_cond", node, received, [*if_unset(unsure),
                                                            ast.copy_location(ast.Return(condition), node.test)])
            inner = Scope(False, start, state | set(fixed), number)
            inner.received_result = "return" in kinds
            statements = self._block(copy.deepcopy(nodes), inner)
            self._end(nodes, node, statements, inner)
            statements = [*if_unset(unsure), *self._initialized(inner, received), *statements]
            statements = self._close(statements, ordered, flags, "return" in kinds, inner)
            body = self.make("loop_body", node, received, statements)
            gapped = any(state - leave.assigned for leave in inner.exits)
            changed = tuple(sorted([path for path in attributes([*nodes, hint.test]) if path[0] in ordered]))
            built = self._build(node, (ordered, unsure, cond, body, fixed, extra, gapped, changed))
        ordered, unsure, cond, body, fixed, extra, gapped, changed = built
        simple = not (flags or unsure or gapped or changed)
        args = [*ordered, *extra]
        labels = [*ordered, *([f"the result of {self.name}()"] if "return" in kinds else []),
                  *[f"the elements that {kind}" for kind in sorted(kinds)]]
        keywords: dict[str, ast.expr] = {"labels": strings_of(labels)}
        if test:
            keywords["test"] = ast.Constant(True) if endless else load(test)
        if not simple:
            if flags:
                keywords["flags"] = ast.Constant(len(flags))
            if "return" in kinds:
                keywords["result"] = ast.Constant(self.name)
            if changed:
                keywords["attributes"] = ast.Constant(changed)
        keywords |= hint.of("mode", "label", "strict", "max_iterations", "compress")
        scope.flags |= set(flags)
        functions = [self._bound(function, fixed, args) for function in (cond, body)]
        call = call_of("_dr_while_loop" if simple else "_dr_run_loop", [tuple_of(args), *functions], **keywords)
        return [*or_unset(unsure), *self._unpacked(args, [], (), call), *if_unset(unsure)]

    def _for(self, node: ast.For, scope: Scope) -> list[ast.stmt]:
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
            value = call_of("_dr_remaining", [load(flag) for flag in names]) if names else ast.Constant(True)
            orelse = [assign(normal, value)]
        vector: list[ast.stmt] = []
        scalar = False
        name = self.temporary("range")
        if lowered is not None:
            at, stop, step = node.counters  # type: ignore[attr-defined]
            vector = [assign(at, ast.Attribute(load(name), "start", ast.Load())),
                      assign(stop, ast.Attribute(load(name), "stop", ast.Load())),
                      assign(step, ast.Attribute(load(name), "step", ast.Load()))]
            outer = Scope(False, assigned | {at, stop, step}, possible | {at, stop, step})
            test = self.temporary("test")
            variable = node.variable  # type: ignore[attr-defined]
            needed = node.live_out | self.shared  # type: ignore[attr-defined]
            if isinstance(variable, ast.Name) and variable.id in needed and variable.id not in assigned:
                target = variable.id
                outer.assigned.add(target)
                vector += [*or_unset([target]), ast.If(same(target, load("_dr_UNSET")),
                                                        [assign(target, load(at))], [])]
            hint = self._hint(lowered, "a loop", scope)
            scalar = hint.scalar
            inner_number = lowered.identity  # type: ignore[attr-defined]
            flags_of = escapes(lowered.plain_body) & {"break", "return"}  # type: ignore[attr-defined]
            if flags_of:
                vector.append(assign(test, self._expression(copy.deepcopy(hint.test), scope)))
            for flag in self._flags(flags_of & {"break"}, inner_number):
                vector.append(assign(f"_dr_{flag}", ast.Constant(False)))
            vector += self._vector_loop(lowered, hint, test if flags_of else "", scope, outer, inner_number)
            scope.flags.discard(f"broken{inner_number}")
            if normal:
                vector.append(assign(normal, call_of("_dr_remaining", [
                    load(f"_dr_{flag}") for flag in self._flags(flags_of, inner_number)])))
        kinds = escapes(node.body)
        start = [*self._unset(f"continued{number}", scope), *self._staying(kinds, scope)]
        found = self._unset(f"broken{number}", scope)
        loop = ast.copy_location(ast.For(node.target, iterable, [*start, *body], orelse), node)
        if lowered is None or scalar:
            return [*found, loop, *self._staying(kinds, scope)]
        assert isinstance(iterable, ast.Call)
        iterable.func = ast.copy_location(load("_dr_range"), iterable.func)
        loop.iter = load(name)
        is_array = ast.Compare(ast.Attribute(load(name), "__class__", ast.Load()), [ast.Is()],
                               [load("_dr_ArrayRange")])
        result = [*found, assign(name, iterable), ast.If(is_array, vector, [loop]), *self._staying(kinds, scope)]
        for statement in result:
            self._locate(statement, node)
        return result

    # --- expressions -------------------------------------------------------------------------------------------------

    def _expressions(self, node: Any, scope: Scope) -> Any:
        """A statement with its expressions translated."""
        return Expressions(self, scope).visit(node)

    def _expression(self, node: ast.expr, scope: Scope) -> ast.expr:
        names = {inner.target.id for inner in walk(node) if isinstance(inner, ast.NamedExpr)}
        result = Expressions(self, scope).visit(node)
        scope.possible |= names
        if not isinstance(node, (ast.BoolOp, ast.IfExp)):
            scope.assigned |= names
        return result  # type: ignore[no-any-return]


class _Declarations(OwnScope):
    """Takes ``global`` and ``nonlocal`` out of statements."""

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)


class _Super(OwnScope):
    """Tells ``super()`` what it would find in the frame of the method: the class, and its first argument."""

    def __init__(self, first: str | None) -> None:
        super().__init__(comprehensions=True)
        self.first = first

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and not node.keywords and \
                self.first is not None:
            node.args = [ast.copy_location(load(name), node) for name in ("__class__", self.first)]
        return node
