"""``@dr.syntax``: functions mean the same for Python numbers, undecorated, and element by element for arrays."""

from __future__ import annotations

import contextlib
import functools
import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import hint as _other_name
from drjit.llvm import Array2f, Bool, Float, Int, UInt, ad
from tests.control.programs import define, program

FIRST, SECOND = [0, 1, 2, 5, 9, 17, 100, 255], [3, 0, 5, 7, 1, 90, 2, 128]


@contextlib.contextmanager
def mode(symbolic: bool) -> Iterator[None]:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        yield


def elements(value: Any, count: int) -> list[Any]:
    """What a function returned, for each element."""
    if isinstance(value, tuple):
        return list(zip(*[elements(entry, count) for entry in value], strict=True))
    if isinstance(value, dr.ArrayBase):
        flat = value.numpy().tolist()
        return flat * count if len(flat) == 1 else flat
    return [value] * count


# --- the table: functions of two numbers -----------------------------------------------------------------------------

TABLE: list[Callable[..., Any]] = []


def row(function: Callable[..., Any]) -> Callable[..., Any]:
    TABLE.append(function)
    return function


@row
def branch(x, y):
    if x > y:
        x = x - y
    else:
        y += 1
    return x, y


@row
def elif_chain(x, y):
    if x < 2:
        y = y + 1
    elif x < 6:
        y = y * 2
    elif x < 20:
        pass
    else:
        y = x * 0
    return y


@row
def defined_by_both(x, y):
    if x > 5:
        z = x * 2
    else:
        z = y * 3
    return z


@row
def temporary_of_one_branch(x, y):
    if x > 5:
        z = x * 2
        y = z + 1
    return y


@row
def one_return(x, y):
    if x > y:
        return x * 2
    return y


@row
def returns_everywhere(x, y):
    if x > y:
        if x > 50:
            return x
        else:
            return y + 1
    elif x == 0:
        return x + 7
    y += x
    return y * 2


@row
def return_in_loop(x, y):
    k = x * 0
    while k < 5:
        if k + x > 8:
            return k * 100
        k += 1
    return y


@row
def return_in_nested_loops(x, y):
    i = x * 0
    while i < 4:
        j = x * 0
        while j < 4:
            if i * j == x:
                return i * 10 + j
            if j > i:
                break
            j += 1
        i += 1
    return y + 1000


@row
def endless(x, y):
    n = x * 0
    while True:
        n += 1
        if n * n > x:
            break
        y += n
    return n, y


@row
def leaves_at_once(x, y):
    while x < 5:
        x += 1
        break
    return x + y


@row
def continues(x, y):
    k = x * 0
    total = y * 0
    while k < 6:
        k += 1
        if k == y:
            continue
        if k > x:
            break
        total += k
    return total


@row
def loop_else(x, y):
    k = x * 0
    while k < 4:
        k += 1
        if k == x:
            break
    else:
        y += 1000
    return y


@row
def for_constant(x, y):
    for k in range(4):
        if k == x:
            y += 10
            continue
        y += k
        if y > 100:
            break
    else:
        y += 500
    return y


@row
def for_array(x, y):
    for k in range(x & 7):
        y += k
        if y > 40:
            break
    return y


@row
def for_array_bounds(x, y):
    for k in range(x & 3, y & 7, 2):
        x += k * 3
    return x


@row
def for_downwards(x, y):
    for k in range(x & 7, 0, -1):
        y = y * 2 + k & 255
        if y == 3:
            return y
    return y


@row
def for_variable_afterwards(x, y):
    for k in range(1, (x & 3) + 2):
        y += k
    return y + k


@row
def for_keeps_its_course(x, y):
    total = y
    for k in range(x & 7):
        k = k + 5
        total += k
    return total


@row
def nested_for(x, y):
    for i in range(x & 3):
        for j in range(i, 3):
            if j == 1:
                continue
            y += i * 2 + j
        if y > 50:
            break
    return y


@row
def conditional_expressions(x, y):
    return (x if x > y else y) + (1 if x > 5 else 2 if y > 5 else 3)


@row
def logic(x, y):
    total = x * 0
    if x > 1 and y > 1:
        total += 1
    if x > 100 or not y > 50:
        total += 2
    if 1 < x < 20 != y:
        total += 4
    if not (x > 3 and (y < 5 or x == 9)):
        total += 8
    return total


@row
def logic_with_calls(x, y):
    def helper(a, b):
        return a * 2 > b
    total = x * 0
    if helper(x, y) and helper(y, x) or helper(x, 100):
        total += 1
    while total < 3 and helper(total, x):
        total += 2
    return total


@row
def walrus(x, y):
    if (z := x * 2) > y:
        y = z
    while (y := y + 3) < 20:
        x += 1
    return x, y, z


@row
def middle_is_computed_once(x, y):
    calls = []

    def middle():
        calls.append(1)
        return x + 1
    if y < middle() < 50:
        y += 1
    return y + len(calls) * 0


@row
def tuples(x, y):
    while x < y:
        x, y = y - 1, x + 5
        if x > 20:
            return x, y
    (a, *rest) = x, y, x
    if rest[0] > 3:
        a, rest[1] = rest[1] + 1, a
    return a, rest[1]


@row
def containers(x, y):
    data = {"a": x, "b": [y, x]}
    if x > 3:
        data["a"] = data["a"] + 1
        data["b"][0] += 2
    while data["a"] < 20:
        data["a"] += 5
    return data["a"], data["b"][0]


@row
def with_and_try(x, y):
    with contextlib.nullcontext(3) as three:
        if x > 5:
            y += three
            if y > 50:
                return y
        try:
            if x > 1:
                y += 1
                return y * 2
        finally:
            x += 1
    return x + y


@row
def matched(x, y):
    match ("point", 3):
        case ("point", n):
            if x > n:
                return y
            y += n
        case _:
            y = x
    return y + 1


@row
def deleted(x, y):
    z = x + 1
    if z > 4:
        y += z
        del z
    else:
        del z
    return y


@row
def scalar_conditions(x, y):
    flag, n = True, 0
    while n < 3:
        n += 1
        if flag and n == 2:
            flag = False
            continue
        if not flag or n > 5:
            if x > 3:
                y += n
        y = y + 1 if flag else y + 2
    return y


@row
def comprehensions(x, y):
    values = [x + k for k in range(3) if k != 1]
    f = lambda v: v + y  # noqa: E731
    if x > 4:
        y += sum(values)
    return f(x)


@row
def unreached(x, y):
    while x < 10:
        x += 3
        if x > y:
            return x
            x += 100
        continue
    else:
        if y > 2:
            return y
    return x + y


@row
def defined_in_loop(x, y):
    k = x * 0
    while k < 3:
        last = k + y
        if last > 6:
            y += last
        k += 1
    return y


@row
def defined_before_leaving(x, y):
    k = x * 0
    while True:
        k += 1
        if k > 3:
            break
        if x > k:
            if y > 5:
                continue
            z = x + k
        else:
            z = y + k
        y += z & 3
    return y


@pytest.mark.parametrize("symbolic", [True, False], ids=["symbolic", "evaluated"])
@pytest.mark.parametrize("function", TABLE, ids=lambda f: f.__name__)
def test_arrays_are_like_their_elements(function: Callable[..., Any], symbolic: bool) -> None:
    expected = [function(x, y) for x, y in zip(FIRST, SECOND, strict=True)]
    with mode(symbolic):
        found = dr.syntax(function)(Int(FIRST), Int(SECOND))
        assert elements(found, len(FIRST)) == expected


@pytest.mark.parametrize("function", TABLE, ids=lambda f: f.__name__)
def test_numbers_are_as_without_the_decorator(function: Callable[..., Any]) -> None:
    decorated = dr.syntax(function)
    for x, y in zip(FIRST, SECOND, strict=True):
        assert decorated(x, y) == function(x, y)


@pytest.mark.parametrize("function", TABLE, ids=lambda f: f.__name__)
def test_single_elements(function: Callable[..., Any]) -> None:
    decorated = dr.syntax(function)
    for x, y in zip(FIRST[3:6], SECOND[3:6], strict=True):
        assert elements(decorated(Int(x), Int(y)), 1) == [function(x, y)]


# --- random programs -------------------------------------------------------------------------------------------------


def check(seed: int) -> None:
    text = program(seed)
    function = define(text, str(seed))
    values = np.random.default_rng(seed).integers(0, 256, (3, 16)).tolist()
    scalar = seed % 5
    expected = [function(*entries, scalar, 0) for entries in zip(*values, strict=True)]
    decorated = dr.syntax(function)
    assert [decorated(*entries, scalar, 0) for entries in zip(*values, strict=True)] == expected, text
    for symbolic in (True, False):
        with mode(symbolic):
            found = decorated(*map(UInt, values), scalar, UInt(0))
            assert elements(found, 16) == expected, text


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + 20):
        check(seed)


def _left_by_all(a: Any, b: Any, c: Any) -> Any:
    if b > 38:
        d = a
    else:
        for _ in range(2):
            if not (c < c):
                return a + 1
        d = b
    return d


def _left_by_all_in_two_ways(a: Any, b: Any, c: Any) -> Any:
    if b > 38:
        d = a
    else:
        for _ in range(2):
            if b > 20:
                return b
            if not (c < c):
                return a + 1
        d = b
    if d > 5:
        a = a + d
    return a


def _left_by_break_and_return(a: Any, b: Any, c: Any, number: int = 3) -> Any:
    while c < 9:
        c = c + 1
        if b > 35:
            d = a
        else:
            if a > 2:
                break
            if number > 2:
                return a + c
            d = c
        a = a + d
    return a + b


def _left_by_break_and_continue(a: Any, b: Any, c: Any, number: int = 3) -> Any:
    for _ in range(number):
        if b > 35:
            d = a
        else:
            if a > 2:
                break
            if number > 2:
                a = a + 1
                continue
            d = c
        a = a + d
    return a + b


def _continued_by_all(a: Any, b: Any, c: Any) -> Any:
    while c < 9:
        c = c + 1
        if b > 35:
            a = a + c
            continue
        if a > 20:
            a = a + 1
            continue
        a = a + 2
        continue
    return a + b


def _left_by_none_in_an_iteration(a: Any, b: Any, c: Any) -> Any:
    for k in range(c, 9):
        if k <= 7:
            for _ in range(b & 1, 4):
                if a > 26:
                    return a + 0
            a = a + k
        a = a ^ a
    return a


@pytest.mark.parametrize("function", [
    _left_by_all, _left_by_all_in_two_ways, _left_by_break_and_return, _left_by_break_and_continue, _continued_by_all,
    _left_by_none_in_an_iteration])
@pytest.mark.parametrize("symbolic", [True, False])
def test_what_follows_where_all_elements_are_known_to_have_left(function: Any, symbolic: bool) -> None:
    """Variables are not assigned there, and nobody uses them."""
    values = [1, 2, 3, 50], [50, 30, 20, 39], [5, 6, 7, 8]
    with mode(symbolic):
        assert elements(dr.syntax(function)(*map(UInt, values)), 4) == [
            function(*entries) for entries in zip(*values, strict=True)]


def test_an_else_of_a_loop_within_the_else_of_another_one() -> None:
    """It was left out, as nothing leaves the outer loop: what follows that was not looked at as statements."""
    def f(a: Any, c: Any) -> Any:
        for _ in range(2):
            a = a + c
        else:
            for _ in range(3):
                c = c + 1
                if a < 0:
                    c = c * 5
            else:
                while c < 0:
                    a = a + 1
                else:
                    a = a * 2 + c
        return a

    assert dr.syntax(f)(3, 1) == f(3, 1) == 14
    for symbolic in (True, False):
        with mode(symbolic):
            assert dr.syntax(f)(UInt(3, 4), UInt(1, 2)).numpy().tolist() == [14, 21]


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(200, 10_000, 100))
def test_many_random_programs(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)


# --- what surrounds a function ---------------------------------------------------------------------------------------

TOTAL = 0


def test_globals_nonlocals_and_closures() -> None:
    offset, count = 5, UInt(0, 0)

    @dr.syntax
    def f(x):
        nonlocal count
        global TOTAL
        if x > 1:
            count += offset
        if True:
            TOTAL = TOTAL + 1
        return x + offset

    before = TOTAL
    assert f(UInt(1, 2)).numpy().tolist() == [6, 7]
    offset = 7  # the cell is shared
    assert f(UInt(1, 2)).numpy().tolist() == [8, 9]
    assert count.numpy().tolist() == [0, 12]
    assert before + 2 == TOTAL


def test_globals_that_are_changed_in_a_loop() -> None:
    names: dict[str, Any] = {"dr": dr}
    function = define("def f(x):\n    global total\n    while x < 5:\n        total += x\n        x += 1\n", "global",
                      **names)
    function.__globals__["total"] = UInt(0, 0)
    dr.syntax(function)(UInt(3, 4))
    assert function.__globals__["total"].numpy().tolist() == [7, 4]


def test_closures_of_locals_see_changes() -> None:
    @dr.syntax
    def f(x):
        k = UInt(1)
        later = lambda: k + 1  # noqa: E731
        if x > 1:
            k = k + 10
        return later()

    assert f(UInt(1, 2)).numpy().tolist() == [2, 12]


class Base:
    def step(self, x):
        return x + 1


class Derived(Base):
    __hidden = 100

    def __init__(self) -> None:
        self.state = UInt(0, 0, 0)

    @dr.syntax
    def step(self, x):
        if x > 1:
            x = super().step(x) + self.__hidden
        elif __class__ is None:
            pass
        return x

    @classmethod
    @dr.syntax
    def of_class(cls, x):
        if x > 1:
            x += cls.__hidden
        return x

    @dr.syntax
    @staticmethod
    def without(x):
        if x > 1:
            x = x * 2
        return x

    @dr.syntax
    def accumulate(self, x):
        while x < 4:
            self.state += x
            x += 1


def test_methods() -> None:
    derived = Derived()
    assert derived.step(UInt(1, 2)).numpy().tolist() == [1, 103]
    assert derived.step(2) == 103
    assert Derived.of_class(UInt(1, 2)).numpy().tolist() == [1, 102]
    assert Derived.without(UInt(1, 2)).numpy().tolist() == [1, 4]
    assert inspect.signature(Derived.step) == inspect.signature(Base.step)


@pytest.mark.parametrize("symbolic", [True, False])
def test_attributes_of_objects(symbolic: bool) -> None:
    with mode(symbolic):
        derived = Derived()
        derived.accumulate(UInt(1, 3, 5))
        assert derived.state.numpy().tolist() == [6, 3, 0]


class Plain:
    pass


@pytest.mark.parametrize("symbolic", [True, False])
def test_attributes_in_nested_constructs(symbolic: bool) -> None:
    @dr.syntax
    def f(x, obj):
        while obj.count < x:
            if obj.count == 2:
                obj.inner.total = obj.inner.total * 10
                if x > 4:
                    return obj.rng.next_uint32()
            elif obj.rng.next_uint32() & 1 == 7:
                return x
            obj.inner.total += 1
            obj.count += 1
        return x

    from drjit.llvm import PCG32

    def make() -> Plain:
        obj, obj.inner = Plain(), Plain()
        obj.count, obj.inner.total, obj.rng = UInt(0), UInt(0), PCG32(size=4)
        return obj

    with mode(symbolic):
        obj, rng = make(), PCG32(size=4)
        found = f(UInt(0, 1, 3, 6), obj)
        assert obj.count.numpy().tolist() == [0, 1, 3, 2]
        assert obj.inner.total.numpy().tolist() == [0, 1, 21, 20]
        drawn = [rng.next_uint32().numpy() for _ in range(4)]
        assert found.numpy().tolist() == [0, 1, 3, drawn[2][3]]
        assert obj.rng.next_uint32().numpy().tolist() == [drawn[n][k] for k, n in enumerate([0, 1, 2, 3])]

    before = obj.count

    @dr.syntax
    def fails(x, obj):
        while x < 3:
            obj.count += x
            raise KeyError
        return x

    with pytest.raises(KeyError):
        fails(UInt(1, 2, 3, 4), obj)
    if symbolic:
        assert obj.count is before and "symbolic" not in repr(obj.count)


def test_attributes_that_are_no_arrays() -> None:
    @dr.syntax
    def f(x, obj):
        while x < 3:
            obj.count = obj.count + 1
            x += 1
        return x

    obj = Plain()
    obj.count = 0
    with pytest.raises(RuntimeError, match=r"'obj\.count'"):
        f(UInt(1, 2), obj)
    assert obj.count == 0
    assert f(0, obj) == 3 and obj.count == 3


def test_defaults_annotations_and_names() -> None:
    def f(x: UInt, /, y: int = 3, *rest: int, z: float = 2.5, **others: int) -> UInt:
        """What it does."""
        if x > y:
            x = x + int(z)
        return x

    g = dr.syntax(f)
    assert inspect.signature(g) == inspect.signature(f)
    assert (g.__name__, g.__qualname__, g.__doc__, g.__module__) == \
        (f.__name__, f.__qualname__, f.__doc__, f.__module__)
    assert g.__defaults__ == (3,) and g.__kwdefaults__ == {"z": 2.5} and g.__annotations__ == f.__annotations__
    assert g.__wrapped__ is f
    assert g(UInt(3, 4)).numpy().tolist() == [3, 6]
    assert g(UInt(3, 4), 2, z=1.0).numpy().tolist() == [4, 5]


def test_other_decorators() -> None:
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args) * 2
        return wrapper

    @twice
    @dr.syntax
    def above(x):
        if x > 1:
            x = x + 1
        return x

    @dr.syntax
    @twice
    def below(x):
        if x > 1:
            x = x + 1
        return x

    assert above(UInt(1, 2)).numpy().tolist() == below(UInt(1, 2)).numpy().tolist() == [2, 6]


def test_recursive() -> None:
    @dr.syntax(recursive=True)
    def f(x):
        def inner(y):
            while y < 10:
                y *= 2
            return y
        return inner(x) if x > 1 else x

    assert f(UInt(1, 3, 20)).numpy().tolist() == [1, 12, 20]

    @dr.syntax
    def g(x):
        def inner(y):
            return y if y > 1 else y + 1
        return inner(x)

    with pytest.raises(RuntimeError):
        g(UInt(1, 2))


@dr.syntax
def _halved_until_odd(x, depth):
    if depth > 0:
        if x % 2 == 0:
            x //= 2
        x = _halved_until_odd(x, depth - 1)
    return x


class _Counter:
    STEP = 2

    @dr.syntax
    def up_to(self, x, limit):
        while x < limit:
            x += _Counter.STEP
        return self.up_to(x, limit - 1) if limit is None else x

    @staticmethod
    @dr.syntax
    def doubled(x, count):
        if count > 0:
            x = _Counter.doubled(x * 2, count - 1)
        return x


def test_functions_and_methods_of_modules_may_name_themselves_and_their_class() -> None:
    assert _halved_until_odd(UInt(8, 12, 7), 3).numpy().tolist() == [1, 3, 7]
    assert _Counter().up_to(UInt(1, 2), 6).numpy().tolist() == [7, 6]
    assert _Counter.doubled(UInt(1, 3), 3).numpy().tolist() == [8, 24]


# --- what is evaluated when ------------------------------------------------------------------------------------------


def test_conditions_are_evaluated_once_and_in_order() -> None:
    def f(log):
        def note(name, value):
            log.append(name)
            return value
        n = 0
        while note("while", n < 2):
            n += 1
            if note("a", n > 1) and note("b", False) or note("c", True):
                note("body", 0)
        x = note("yes", 1) if note("test", n == 2) else note("no", 2)
        assert 1 < note("middle", x + 1) < note("right", 5)
        return not note("not", x)

    logs: list[list[str]] = [[], []]
    assert f(logs[0]) == dr.syntax(f)(logs[1])
    assert logs[0] == logs[1]


class _Steps:
    def __init__(self) -> None:
        self.i, self.calls = UInt(0, 0), 0

    def step(self) -> UInt:
        self.i += 1
        self.calls += 1
        return self.i

    def replace(self) -> UInt:
        self.i = self.i + 1
        self.calls += 1
        return self.i


def _step(steps: _Steps) -> UInt:
    return steps.step()


def _replace(steps: _Steps) -> UInt:
    return steps.replace()


def _stepping(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint(_step(steps) < n, mode=mode):
        x += 1
    return x


def _replacing(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint(_replace(steps) < n, mode=mode):
        x += 1
    return x


def _stepping_and_breaking(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint(_step(steps) < n, mode=mode):
        x += 1
        if x == 7:
            break
    return x


def _stepping_and_returning(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint(_replace(steps) < n, mode=mode):
        x += 1
        if x == 7:
            return x
    return x


def _method(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint(steps.step() < n, mode=mode, max_iterations=-1, compress=False, label="steps", strict=True):
        x += 1
    return x


def _assigning(n, steps, mode):
    x = UInt(0, 0)
    while dr.hint((i := steps.replace()) < n, mode=mode, max_iterations=None):
        x += 1
    return x + i - i


@pytest.mark.parametrize("function", [_stepping, _replacing, _stepping_and_breaking, _stepping_and_returning, _method,
                                      _assigning], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["symbolic", "evaluated"])
def test_conditions_that_change_what_they_are_given(function: Callable[..., Any], kind: str) -> None:
    """An evaluated loop does not compute the condition once more that the program has computed; symbolic ones let a
    body do so where it can be seen that a condition may change anything."""
    steps, visible = _Steps(), function in (_method, _assigning)
    if kind == "symbolic" and not visible:
        with pytest.raises(RuntimeError, match="the condition of this symbolic loop changes"):
            dr.syntax(function)(UInt(2, 6), steps, kind)
        return
    x = dr.syntax(function)(UInt(2, 6), steps, kind)
    assert x.numpy().tolist() == [1, 5]
    assert steps.i.numpy().tolist() == [2, 6]
    assert kind == "symbolic" or steps.calls == 6


@pytest.mark.parametrize("kind", ["symbolic", "evaluated", None])
def test_hints_of_loops_whose_condition_changes_something(kind: str | None) -> None:
    class Log:
        def __init__(self) -> None:
            self.symbolic: list[bool] = []

        def noted(self, value: Any) -> Any:
            self.symbolic.append(dr.flag(dr.JitFlag.SymbolicScope))
            return value

    @dr.syntax
    def f(i, log):
        while dr.hint(log.noted(i < 3), mode=kind, label="counting"):
            i += 1
        return i

    log = Log()
    assert f(UInt(0, 2), log).numpy().tolist() == [3, 3]
    assert log.symbolic == ([False] * 4 if kind == "evaluated" else [False, True])


@pytest.mark.parametrize("kind", ["symbolic", "evaluated"])
@pytest.mark.parametrize("text", [
    "    if dr.hint(x > 1, mode=kind):\n        y = Float(1)\n    else:\n        y = UInt(1)\n    return y\n",
    "    y = [x]\n    if dr.hint(x > 1, mode=kind):\n        y = [x, x]\n    return y\n",
    "    return Float(1) if dr.hint(x > 1, mode=kind) else 'a'\n"])
def test_messages_call_the_sides_what_the_program_does(text: str, kind: str) -> None:
    with pytest.raises(RuntimeError, match=r"'if' and 'else' must return .* in 'if' and .* in 'else'"):
        dr.syntax(define(f"def f(x, kind):\n{text}", f"sides {len(text)}", dr=dr, Float=Float, UInt=UInt))(
            UInt(0, 2), kind)


def test_an_else_that_no_break_avoids_is_no_branch() -> None:
    """Whatever the condition is: what stands in it happens as behind the loop."""
    @dr.syntax
    def f(n):
        found = []
        while (half := n // 2) > 0:
            n = half
        else:
            found.append(n)
        return found

    assert [list(each) for each in f(UInt(1, 6, 0))] == [[1, 1, 0]]
    assert f(9) == [1]


def test_values_of_logic_are_those_of_python() -> None:
    @dr.syntax
    def f(a, b):
        return a and b, a or b, not a, a if a else b

    for a in ([], [1], 0, 5, None, "x", True, False):
        for b in (3, "", None, [2]):
            assert f(a, b) == (a and b, a or b, not a, a if a else b)


def test_scalar_code_calls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **keywords: Any) -> None:
        raise AssertionError

    @dr.syntax
    def f(n):
        total = 0
        for k in range(n):
            if k == 3:
                continue
            while total < 5:
                total += 1
            if k > 5 and total:
                break
            total += k
        return total

    monkeypatch.setattr("drjit._control.syntax.runtime.branch", refuse)
    monkeypatch.setattr("drjit._control.syntax.runtime.loop", refuse)
    assert f(10) == 5 + 1 + 2 + 4 + 5


def test_right_sides_run_for_the_elements_that_need_them() -> None:
    table = Float(1, 2, 3)

    @dr.syntax
    def f(i):
        if i < 3 and dr.gather(Float, table, i) > 1:
            return i + 10
        return dr.gather(UInt, UInt(5, 6, 7), i) if i < 3 else 0

    assert f(UInt(0, 1, 2, 1 << 30)).numpy().tolist() == [5, 11, 12, 0]


def test_generators_of_random_numbers_in_conditional_expressions() -> None:
    @dr.syntax
    def f(x, rng):
        y = rng.next_float32() if x > 1 else 0
        return y, rng.next_float32()

    @dr.syntax
    def g(x, rng):
        y = Float(0)
        if x > 1:
            y = rng.next_float32()
        return y, rng.next_float32()

    from drjit.llvm import PCG32

    for symbolic in (True, False):
        with mode(symbolic):
            one, two = (h(UInt(1, 2, 3), PCG32(size=3)) for h in (f, g))
            assert elements(one, 3) == elements(two, 3)


# --- variables -------------------------------------------------------------------------------------------------------


def test_variables_of_one_branch() -> None:
    @dr.syntax
    def f(x):
        if x > 1:
            y = x * 2
        return y

    assert f(2) == 4
    for x in (UInt(1, 2), 1):
        with pytest.raises(UnboundLocalError, match="'y'"):
            f(x)


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("symbolic", [True, False])
def test_variables_of_one_branch_that_seem_to_be_needed(symbolic: bool, second: bool) -> None:
    """An exception in ``with`` may be suppressed, so that ``z`` could be what it was in the iteration before."""
    @dr.syntax
    def f(n, y):
        i = n * 0
        while i < n:
            if (i % 2 == 1) == second:
                with contextlib.nullcontext():
                    z = y * 2
                y = y + z
            else:
                y = y + 5
            i += 1
        return y

    @dr.syntax
    def g(n, y):
        i = n * 0
        while i < n:
            if (i % 2 == 1) == second:
                y = y + 5
            else:
                with contextlib.nullcontext():
                    z = y * 2
                y = y + z
            i += 1
        return y

    for h in (f, g):
        expected = [h(n, 1) for n in range(5)]
        with mode(symbolic):
            assert h(UInt(0, 1, 2, 3, 4), UInt(1)).numpy().tolist() == expected


def test_ranges_of_unsigned_numbers_down_to_zero() -> None:
    @dr.syntax
    def f(x):
        total = x * 0
        for k in range(x - 1, -1, -1):
            total = total * 10 + UInt(k)
        return total

    assert f(UInt(0, 1, 4)).numpy().tolist() == [0, 0, 3210]


@pytest.mark.parametrize("symbolic", [True, False])
def test_variables_that_may_be_assigned_before(symbolic: bool) -> None:
    @dr.syntax
    def f(x, given):
        if given:
            y = x + 100
        if x > 1:
            y = x * 2
        return y

    with mode(symbolic):
        assert f(UInt(1, 2), True).numpy().tolist() == [101, 4]
        with pytest.raises(UnboundLocalError, match="'y'"):
            f(UInt(1, 2), False)


def test_variables_of_a_loop() -> None:
    @dr.syntax
    def f(x):
        while x < 5:
            y = x + 1
            x = y
        return y

    assert f(2) == 5
    with pytest.raises(UnboundLocalError, match="'y'"):
        f(UInt(1, 2))


def test_python_numbers_that_differ_are_refused() -> None:
    @dr.syntax
    def f(x):
        if x < 4:
            y = 3
        else:
            y = 5
        return y

    with pytest.raises(RuntimeError, match=r"'y'.*\bint\b.*3 and 5"):
        f(UInt(1, 6))

    @dr.syntax
    def g(x):
        if dr.hint(x < 4, strict=False):
            y = 3
        else:
            y = 5
        return x + y * 0

    assert g(UInt(1, 6)).numpy().tolist() == [1, 6]


def test_returned_values_of_different_types() -> None:
    @dr.syntax
    def f(x):
        if x > 1:
            return Float(x)
        return x

    @dr.syntax
    def g(x):
        while x < 5:
            if x == 3:
                return x, x
            x += 1
        return x

    @dr.syntax  # noqa: RET503
    def nothing(x):
        if x > 1:
            return x

    for function in (f, g, nothing):
        with pytest.raises(TypeError, match=rf"drjit.syntax: {function.__name__}\(\) must return values of the same"):
            function(UInt(1, 2, 8))
    assert nothing(0) is None


def test_returned_structures() -> None:
    @dr.syntax
    def f(x):
        if x > 3:
            return {"a": x, "b": [Array2f(x, 1)]}
        x += 1
        while x < 3:
            x += 1
            if x == 2:
                return {"a": x * 100, "b": [Array2f(2)]}
        return {"a": x, "b": [Array2f(0, x)]}

    for symbolic in (True, False):
        with mode(symbolic):
            found = f(UInt(0, 2, 5))
            assert found["a"].numpy().tolist() == [200, 3, 5]
            assert found["b"][0].numpy().tolist() == [[2, 0, 5], [2, 3, 1]]


def test_nothing_is_returned() -> None:
    @dr.syntax
    def f(x, target):
        if x > 2:
            dr.scatter_add(target, UInt(1), 0)
            return
        if x > 1:
            dr.scatter_add(target, UInt(1), 1)

    for symbolic in (True, False):
        with mode(symbolic):
            target = dr.zeros(UInt, 2)
            assert f(UInt(0, 1, 2, 3, 4), target) is None
            assert target.numpy().tolist() == [2, 1]


@pytest.mark.parametrize("symbolic", [True, False])
def test_writes_happen_once(symbolic: bool) -> None:
    @dr.syntax
    def f(x, target):
        while x < 10:
            dr.scatter_add(target, UInt(1), x)
            if x == 4:
                break
            x += 1
            if x == 8:
                break
        return x + target[0] * 0, target

    with mode(symbolic):
        found, target = f(UInt(0, 3, 6, 9), dr.zeros(UInt, 10))
        assert found.numpy().tolist() == [4, 4, 8, 10]
        assert target.numpy().tolist() == [1, 1, 1, 2, 2, 0, 1, 1, 0, 1]


def test_derivatives() -> None:
    from drjit.llvm.ad import Float as ADFloat

    @dr.syntax
    def f(x):
        if x > 2:
            return x * x
        return x * 3 if x > 1 else -x

    x = ADFloat(0.5, 1.5, 3)
    dr.enable_grad(x)
    dr.backward(f(x))
    assert x.grad.numpy().tolist() == [-1, 3, 6]


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("writes", [False, True])
def test_derivatives_of_loops_that_elements_leave_by_return(symbolic: bool, writes: bool) -> None:
    from drjit.llvm.ad import Float as ADFloat
    from drjit.llvm.ad import UInt as ADUInt

    @dr.syntax
    def f(x, total):
        i = ADUInt(0)
        while dr.hint(i < 6, max_iterations=8):
            x = x * 1.5
            i += 1
            if writes:
                dr.scatter_add(total, x, dr.arange(ADUInt, 4))
            if x > 8:
                return x * x
            if i == 4:
                return x * dr.gather(ADFloat, total, dr.arange(ADUInt, 4)) if writes else x * 3
        return x

    def reference(x: float) -> float:
        total = 0.0
        for i in range(1, 7):
            x *= 1.5
            total += x
            if x > 8:
                return x * x
            if i == 4:
                return x * (total if writes else 3)
        return x

    start = [0.5, 1.0, 2.0, 4.0]
    with mode(symbolic):
        x, total = ADFloat(start), dr.zeros(ADFloat, 4)
        dr.enable_grad(x)
        y = f(x, total)
        assert np.allclose(y.numpy(), [reference(value) for value in start])
        dr.backward(y)
    expected = [(reference(value + 1e-6) - reference(value - 1e-6)) / 2e-6 for value in start]
    assert np.allclose(x.grad.numpy(), expected, rtol=1e-5)
    if writes:  # once, also where what was traced has no derivative
        assert np.allclose(total.numpy(), [6.09375, 12.1875, 24.375, 15])


# --- modes that flags choose within symbolic constructs --------------------------------------------------------------


@dr.syntax
def rounds_in_rounds(n, flag, mode=None):
    i = UInt(0)
    total = UInt(0)
    while i < n:
        with dr.scoped_set_flag(flag, False):
            j = UInt(0)
            while dr.hint(j < i, mode=mode):
                total += 1
                j += 1
            total = dr.switch(i & 1, [lambda x: x + 1, lambda x: x + 2], total)
        i += 1
    return total


@dr.syntax
def leaves_an_inner_loop(n):
    i = UInt(0)
    while i < n:
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
            while True:
                i += 1
                if i > 5:
                    return i
                if i > 2:
                    break
        i += 1
    return i + 100


@pytest.mark.parametrize("flag, function", [
    (dr.JitFlag.SymbolicLoops, "drjit.while_loop"), (dr.JitFlag.SymbolicCalls, "drjit.switch")])
def test_evaluated_mode_by_flag_within_symbolic_constructs_is_symbolic(flag: dr.JitFlag, function: str) -> None:
    message = rf"{function}\(\): this is part of a symbolic loop.*{flag.name} is switched off"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        found = rounds_in_rounds(UInt(0, 1, 3), flag)
    assert found.numpy().tolist() == [0, 1, 7]
    assert {entry.filename for entry in caught} == {__file__}


def test_loops_that_return_within_symbolic_constructs_are_symbolic() -> None:
    with pytest.warns(RuntimeWarning, match="although drjit.JitFlag.SymbolicLoops is switched off"):
        found = leaves_an_inner_loop(UInt(0, 1, 7))
    assert found.numpy().tolist() == [100, 104, 7]


def test_evaluated_mode_by_request_within_symbolic_constructs_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="this array is symbolic"):
        rounds_in_rounds(UInt(0, 1, 3), dr.JitFlag.Debug, "evaluated")
    with pytest.raises(RuntimeError, match="this array is symbolic"):
        dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: (
            dr.switch(i & 1, [lambda i: i + 1, lambda i: i + 2], i, mode="evaluated"),), mode="symbolic")


# --- hints -----------------------------------------------------------------------------------------------------------


def test_hint_is_the_identity() -> None:
    value = object()
    assert dr.hint(value, mode="evaluated", label="x", max_iterations=3, include=[], exclude=[], strict=False,
                   compress=True) is value
    with pytest.raises(TypeError):
        dr.hint(1, other=2)


def test_other_functions_named_hint() -> None:
    class Other:
        @staticmethod
        def hint(x, other):
            return x > other

    @dr.syntax
    def f(x):
        if Other.hint(x, other=1):
            x += 1
        return x

    assert f(UInt(1, 2)).numpy().tolist() == [1, 3]


def test_methods_named_hint() -> None:
    """Of arguments, and of what a function returns."""
    class Other:
        @staticmethod
        def hint(x: Any, other: int = 2) -> Any:
            return x > other

    def make() -> Any:
        return Other()

    @dr.syntax
    def f(other: Any, x: Any) -> Any:
        while other.hint(x, other=3):
            x = x - 1
        if make().hint(x):
            x = x * 10
        return x

    @dr.syntax
    def g(hint: Any, x: Any) -> Any:
        from drjit import hint as own
        if own(hint(x), label="a hint"):
            x = x * 10
        return x

    assert list(f(Other(), UInt(1, 3, 9))) == [1, 30, 30]
    assert list(g(Other.hint, UInt(1, 3, 9))) == [1, 30, 90]


def test_hints_of_mode() -> None:
    seen = []

    @dr.syntax
    def f(x, how):
        while dr.hint(x < 3, mode=how, label="a loop", max_iterations=5):
            if dr.hint(x > 0, mode=how):
                seen.append(1)
            x += 1
        return x

    assert f(UInt(0, 5), "evaluated").numpy().tolist() == [3, 5]
    assert len(seen) == 3
    assert f(UInt(0, 5), "symbolic").numpy().tolist() == [3, 5]
    assert f(0, "evaluated") == 3

    @dr.syntax
    def scalar(x):
        if dr.hint(x > 1, mode="scalar"):
            return 1
        return 2

    assert scalar(UInt(3)) == 1
    with pytest.raises(RuntimeError):
        scalar(UInt(1, 3))


def test_hints_of_compression() -> None:
    widths = []

    @dr.syntax
    def f(x, how):
        while dr.hint(x < 3, mode="evaluated", compress=how):
            widths.append(dr.width(x))
            x += 1
        return x

    assert f(UInt(0, 5, 2), True).numpy().tolist() == [3, 5, 3]
    assert widths[-1] < 3
    widths.clear()
    assert f(UInt(0, 5, 2), False).numpy().tolist() == [3, 5, 3]
    assert widths == [3, 3, 3]
    with pytest.raises(TypeError, match="'compress' must be a bool"):
        f(UInt(0, 5), "yes")


def translated(text: str) -> Callable[..., Any]:
    """The function ``f`` of a program."""
    return dr.syntax(define(text, f"hints {len(text)}", dr=dr))


@pytest.mark.parametrize("hints, message", [
    ("include=[x + 1]", r"'include' of drjit.hint\(\) must be a list of variables.*found x \+ 1"),
    ("exclude=['x']", r"'exclude' of drjit.hint\(\) must be a list of variables.*found 'x'"),
    ("include=x", r"'include' of drjit.hint\(\) must be a list of variables.*found x"),
    ("include=[nothing]", r"'include' of drjit.hint\(\) lists 'nothing', which is no variable of f\(\), of a function "
                          r"around it, or of its module"),
    ("include=[len]", r"lists 'len', which is no variable of f\(\)"),
    ("include=[later]", r"lists 'later', which f\(\) has not assigned before"),
    ("exclude=[nothing]", r"'exclude' of drjit.hint\(\) lists 'nothing', which f\(\) does not use"),
    ("include=[x], exclude=[x]", r"drjit.hint\(\) both includes and excludes 'x'"),
    ("other=3", r"around the condition of CONSTRUCT does not support the keyword argument 'other'; it has mode"),
    ("**options", r"does not support arguments given by '\*\*'"),
    ("mode='backwards'", r"'mode' of drjit.hint\(\) must be 'scalar', .*, found 'backwards'"),
    ("mode=['scalar']", r"'mode' of drjit.hint\(\) must be 'scalar', .*, found \['scalar'\]"),
    ("label=1", r"'label' of drjit.hint\(\) must be a str or None, found 1"),
    ("strict=None", r"'strict' of drjit.hint\(\) must be a bool, found None"),
])
@pytest.mark.parametrize("construct", ["if", "while", "for"])
def test_wrong_hints_are_refused(construct: str, hints: str, message: str) -> None:
    """Also if the condition turned out to be a Python number, which needs no hint."""
    condition = f"for k in dr.hint(range(x), {hints})" if construct == "for" else f"{construct} dr.hint(x < 3, {hints})"
    what = "an 'if'" if construct == "if" else "a loop"
    with pytest.raises(SyntaxError, match=r":2\): .*" + message.replace("CONSTRUCT", what)):
        translated(f"def f(x):\n    {condition}:\n        x += 1\n    later = x\n    return later\n")


#: Programs whose loops and branches have variables of other scopes as state: how ``count`` comes to be known there.
PLACES = {
    "a variable of the function around it": """
def f(n, mode):
    count = UInt(0, 0, 0)
    @dr.syntax
    def inner(n):
        {declaration}
        {statements}
    inner(n)
    return count
""",
    "of one that is translated together with it": """
@dr.syntax(recursive=True)
def f(n, mode):
    count = UInt(0, 0, 0)
    def inner(n):
        {declaration}
        {statements}
    inner(n)
    return count
""",
    "of one further out": """
@dr.syntax(recursive=True)
def f(n, mode):
    count = UInt(0, 0, 0)
    def between(n):
        def inner(n):
            {declaration}
            {statements}
        inner(n)
    between(n)
    return count
""",
    "of the module": """
count = UInt(0, 0, 0)
@dr.syntax
def f(n, mode):
    {declaration}
    {statements}
    return count
""",
}
INCLUDED = {
    "a loop": """i = UInt(0)
        while dr.hint(i < n, include=[count], mode=mode):
            {change}
            i += 1""",
    "a range": """for i in dr.hint(range(n), include=[count], mode=mode):
            {change}""",
    "a branch": """i = UInt(0)
        if dr.hint(i < n, include=[count], mode=mode):
            {change}""",
}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", INCLUDED)
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_state_includes_variables_from_outside(place: str, declared: bool, construct: str, mode: str) -> None:
    for change in ("dr.scatter_add(count, UInt(1), i)", "count += 1"):
        if change == "count += 1" and not declared:
            continue  # a variable of the function itself, for Python
        word = "global" if place == "of the module" else "nonlocal"
        statements = INCLUDED[construct].replace("{change}", change)
        text = PLACES[place].replace("{declaration}", f"{word} count" if declared else "pass")
        indent = text[:text.index("{statements}")].rpartition("\n")[2]
        text = text.replace("{statements}", statements.replace("\n        ", f"\n{indent}"))
        f = define(text, f"included {place} {declared} {construct} {change}", dr=dr, UInt=UInt)
        found = f(UInt(2, 0, 3), mode).numpy().tolist()
        rounds = [min(n, 1) for n in (2, 0, 3)] if construct == "a branch" else [2, 0, 3]
        assert found == (rounds if change == "count += 1" else [sum(i < n for n in rounds) for i in range(3)])


def test_included_arrays_from_outside_stay_the_objects_that_they_are() -> None:
    table = held = UInt(0, 0, 0)

    @dr.syntax
    def fill(n: Any) -> None:
        for i in dr.hint(range(n), include=[table]):
            dr.scatter_add(table, UInt(1), i)

    fill(UInt(1, 3))
    assert table is held
    held[0] = 7
    assert table.numpy().tolist() == [7, 1, 1]


def test_included_variables_from_outside_have_derivatives() -> None:
    @dr.syntax(recursive=True)
    def power(x: Any, n: Any) -> Any:
        result = type(x)(1)

        def multiply(n: Any) -> None:
            nonlocal result
            i = type(n)(0)
            while dr.hint(i < n, include=[result], max_iterations=4):
                result = result * x
                i += 1

        multiply(n)
        return result

    x = ad.Float(2, 3)
    dr.enable_grad(x)
    dr.backward(power(x, ad.UInt(3, 2)))
    assert dr.grad(x).numpy().tolist() == [12, 6]


@pytest.mark.parametrize("hints", ["max_iterations=3", "compress=True", "max_iterations=None"])
def test_hints_of_loops_are_refused_elsewhere(hints: str) -> None:
    name = hints.split("=")[0]
    for body, construct in (
            (f"    if dr.hint(x < 3, {hints}):\n        x += 1\n", "an 'if'"),
            (f"    if x < 1:\n        pass\n    elif dr.hint(x < 3, {hints}):\n        x += 1\n", "an 'if'"),
            (f"    x = 1 if dr.hint(x < 3, {hints}) else 2\n", "a conditional expression")):
        with pytest.raises(SyntaxError, match=f"around the condition of {construct} does not support the keyword "
                                              f"argument '{name}'; it has mode, label"):
            translated(f"def f(x):\n{body}    return x\n")


@pytest.mark.parametrize("value", [-2, 2.5, "many"])
def test_bounds_of_loops_are_numbers_from_minus_one(value: Any) -> None:
    @dr.syntax
    def f(x, bound):
        while dr.hint(x < 3, max_iterations=bound):
            x += 1
        return x

    with pytest.raises((TypeError, RuntimeError), match=r"while_loop\(\): 'max_iterations' must be an int"):
        f(UInt(0, 1), value)
    assert list(f(UInt(0, 1), -1)) == [3, 3]
    with pytest.raises(SyntaxError, match=rf"'max_iterations' of drjit.hint\(\) must be .*found {value!r}"):
        translated(f"def f(x):\n    while dr.hint(x < 3, max_iterations={value!r}):\n        x += 1\n    return x\n")


def test_hints_of_ranges() -> None:
    seen = []

    @dr.syntax
    def f(n, x, how):
        for k in dr.hint(range(n), mode=how, max_iterations=4, label="a range"):
            seen.append(dr.hint(k, label="nothing"))
            x += dr.hint(n - k, mode="scalar")
        return x

    assert list(f(UInt(0, 3), UInt(1, 1), "evaluated")) == [1, 7] and len(seen) == 3
    assert list(f(UInt(0, 3), UInt(1, 1), "symbolic")) == [1, 7] and len(seen) == 4
    assert f(3, 1, "symbolic") == 7

    @dr.syntax
    def gradient(n, x):
        total = x * 0
        for _ in dr.hint(range(n), max_iterations=4):
            total = total * x + x
        return total

    x = ad.Float(2, 3)
    dr.enable_grad(x)
    dr.backward(gradient(ad.UInt(2, 3), x))
    assert list(dr.grad(x)) == [5, 34]  # of x² + x, x³ + x² + x

    @dr.syntax
    def scalar(n):
        found = 0
        for k in dr.hint(range(n), mode="scalar"):
            found += k
        return found

    assert scalar(4) == 6
    with pytest.raises(RuntimeError):
        scalar(UInt(1, 2))


def test_excluded_variables_are_read() -> None:
    @dr.syntax
    def f(x, y, log):
        while dr.hint(x < 3, exclude=[log, y]):
            log.append(1)
            x += y
        return x

    log: list[int] = []
    assert f(UInt(0, 1), 2, log).numpy().tolist() == [4, 3]
    assert log


# --- errors ----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_translated() -> None:
    def generator(x):
        yield x

    async def coroutine(x):
        return x

    for function, word in ((generator, "generator"), (coroutine, "asynchronous")):
        with pytest.raises(SyntaxError, match=rf"test_syntax.py:\d+\).*{word}"):
            dr.syntax(function)
    with pytest.raises(TypeError, match="lambda"):
        dr.syntax(lambda x: x)
    with pytest.raises(TypeError, match="int"):
        dr.syntax(3)
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x", names)
    with pytest.raises(RuntimeError, match="source of function 'f'"):
        dr.syntax(names["f"])


def test_tracebacks_point_at_the_program() -> None:
    @dr.syntax
    def f(x):
        while x < 3:
            if x > 1:
                raise KeyError("here")
            x += 1
        return x

    line = f.__code__.co_firstlineno
    for argument in (UInt(0, 1), 0):
        with pytest.raises(KeyError) as info:
            f(argument)
        last = traceback.extract_tb(info.value.__traceback__)[-1]
        assert last.filename == __file__
        assert last.line == 'raise KeyError("here")'
        assert abs(last.lineno - line) < 6


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    @dr.syntax(print_code=True, print_ast=True)
    def f(x):
        if x > 1:
            x += 1
        return x

    text = capsys.readouterr().out
    assert "_dr_if_stmt((x,)" in text and "Input code" in text and "FunctionDef(" in text
    assert "returned" not in text  # it ends in one place


def test_conditions_that_are_no_masks() -> None:
    @dr.syntax
    def f(x):
        if x:
            x += 1
        return x

    with pytest.raises(TypeError, match="mask"):
        f(UInt(1, 2))
    assert f(0) == 0


def test_masks_of_several_dimensions() -> None:
    @dr.syntax
    def f(x):
        return x + 1 if x > 0 else -x

    assert f(Array2f([1, -2], [-3, 4])).numpy().tolist() == [[2, 2], [3, 5]]


def test_masks_as_values() -> None:
    @dr.syntax
    def f(a, b):
        return a and not b, a or b

    first, second = f(Bool(True, True, False, False), Bool(True, False, True, False))
    assert first.numpy().tolist() == [False, True, False, False]
    assert second.numpy().tolist() == [True, True, True, False]


@pytest.mark.parametrize("flags", [(), (dr.JitFlag.SymbolicLoops, dr.JitFlag.SymbolicConditionals)],
                         ids=["symbolic", "evaluated"])
def test_writes_by_index_reach_the_caller(flags: Any) -> None:
    @dr.syntax
    def count(target: Any, x: Any) -> None:
        while x < 10:
            if x > 0:
                dr.scatter_add(target, UInt(1), x)
            x += 1

    with contextlib.ExitStack() as stack:
        for flag in flags:
            stack.enter_context(dr.scoped_set_flag(flag, False))
        target = dr.zeros(UInt, 10)
        count(target, UInt(0, 3, 6, 9))
        assert list(target) == [0, 1, 1, 2, 2, 2, 3, 3, 3, 4]


@pytest.mark.parametrize("symbolic", [True, False])
def test_writes_of_several_constructs_reach_the_caller(symbolic: bool) -> None:
    def add(target: Any, at: Any) -> None:
        dr.scatter_add(target, UInt(1), UInt(at))

    @dr.syntax
    def branches(x, target):
        if x > 1:
            add(target, 0)
        if x > 2:
            add(target, 1)
        add(target, x)

    @dr.syntax
    def mixed(x, target):
        i = x * 0
        if x > 1:
            add(target, 0)
            i += 1
        while i < x:
            add(target, i)
            i += 1

    @dr.syntax
    def endless(x, target):
        i = x * 0
        while True:
            if x < i:
                break
            add(target, i)
            i += 1

    @dr.syntax
    def within(x, table):
        if x > 1:
            add(table["a"][0], 0)
        if x > 2:
            add(table["a"][0], 1)

    class Holder:
        DRJIT_STRUCT: ClassVar = {"a": UInt}

    @dr.syntax
    def fields(x, holder):
        if x > 1:
            add(holder.a, 0)
        if x > 2:
            add(holder.a, 1)

    with mode(symbolic):
        holder = Holder()
        holder.a = dr.zeros(UInt, 4)
        fields(UInt(0, 1, 2, 3), holder)
        assert holder.a.numpy().tolist() == [2, 1, 0, 0]
        for f, expected in ((branches, [3, 2, 1, 1]), (mixed, [3, 2, 1, 0]), (endless, [4, 3, 2, 1]),
                            (within, [2, 1, 0, 0])):
            target = dr.zeros(UInt, 4)
            f(UInt(0, 1, 2, 3), {"a": [target]} if f is within else target)
            assert target.numpy().tolist() == expected, f.__name__


def test_a_refused_loop_leaves_the_next_one_as_it_is() -> None:
    @dr.syntax
    def count(target: Any, x: Any, how: str) -> None:
        while dr.hint(x < 10, mode=how):
            x += 1

    target = dr.zeros(UInt, 2)
    with pytest.raises(TypeError, match="'mode' must be"):
        count(target, UInt(0, 1), "backwards")
    dr.while_loop((target, UInt(0, 1)), lambda target, x: x < 2,
                  lambda target, x: (dr.scatter(target, UInt(7), x), (target, x + 1))[1])
    assert list(target) == [7, 7]
    count(target, UInt(0, 1), "symbolic")
    assert list(target) == [7, 7]


def test_functions_in_functions_are_translated_once(monkeypatch) -> None:
    from drjit._control.syntax import decorator

    made = []
    translate = decorator._translate
    monkeypatch.setattr(decorator, "_translate", lambda f, *rest: made.append(f) or translate(f, *rest))

    def outer(limit, hint=dr.hint):
        @dr.syntax
        def double(x, factor=limit * 0 + 2):
            while hint(x < limit):
                x = x * factor
            return x

        return double

    first, second = outer(40), outer(10)
    assert len(made) == 1 and first is not second
    assert list(first(UInt(1, 3))) == [64, 48] and list(second(UInt(1, 3))) == [16, 12]
    assert first.__closure__ != second.__closure__ and second.__wrapped__ is not first.__wrapped__
    third = outer(10, hint=lambda condition: condition & condition)
    assert len(made) == 2  # another function of that name is no hint
    assert list(third(UInt(1, 3))) == [16, 12]
    assert list(outer(5)(UInt(1, 3))) == [8, 6]


@pytest.mark.parametrize("symbolic", [True, False])
def test_conditional_expressions_compute_each_side_once(symbolic: bool) -> None:
    calls = Float(0)

    def counted(x):
        dr.scatter_add(calls, Float(1), UInt(0))
        return x * 2

    @dr.syntax
    def number_first(x):
        return 1.0 if x > 2 else counted(x)

    @dr.syntax
    def number_last(x):
        return counted(x) if x < 3 else 1.0

    with mode(symbolic):
        for function, expected in ((number_first, 2), (number_last, 4)):
            assert list(function(Float(1, 2, 3))) == [2, 4, 1]
            assert calls[0] == expected


@pytest.mark.parametrize("symbolic", [True, False])
def test_early_returns_in_loops_have_derivatives(symbolic: bool) -> None:
    @dr.syntax
    def doubled(x):
        while x < 10:
            t = x * 2
            if t > 8:
                return t * x
            x = t
        return x

    x = ad.Float(1, 3, 20)
    dr.enable_grad(x)
    with mode(symbolic):
        y = doubled(x)
        dr.backward(y)
    assert list(dr.detach(y)) == [128, 72, 20] and list(x.grad) == [256, 48, 1]


def test_the_decorator_may_be_applied_twice() -> None:
    def halved(x):
        while x > 1:
            x /= 2
        return x

    once = dr.syntax(halved)
    assert dr.syntax(once) is once

    @functools.wraps(once)
    def around(x):
        return once(x)

    assert list(dr.syntax(around)(Float(3, 8))) == [0.75, 1]


@pytest.mark.parametrize("symbolic", [True, False])
def test_variables_that_functions_within_assign(symbolic: bool) -> None:
    @dr.syntax
    def f(x, n):
        def square():
            nonlocal x
            x = x * x
            return x

        y = square() if x > 3 else -x
        if x > 1:
            z = square()
            w = x + z
        else:
            z = w = x
        while n > 0:
            square()
            n = n - 1
        return x, y, z, w

    with mode(symbolic):
        found = elements(f(Int(0, 1, 2, 4), UInt(3, 2, 1, 0)), 4)
    assert found == [f(x, n) for x, n in zip([0, 1, 2, 4], [3, 2, 1, 0], strict=True)]


def test_hints_by_other_names() -> None:
    from drjit import hint as local_name

    seen: list[int] = []

    @dr.syntax
    def program(x: Any) -> Any:
        while _other_name(x < 10, mode="evaluated"):
            seen.append(1)
            x = x + 3
        if local_name(x > 11, mode="evaluated"):
            seen.append(2)
            x = x * 2
        from drjit import hint as inner_name
        while inner_name(x < 100, mode="evaluated"):
            x = x * 3
        return x

    assert list(program(Int(0, 5, 9))) == [216, 297, 216]
    assert seen == [1] * 4 + [2]


# --- masks of several packages ---------------------------------------------------------------------------------------


def _breaks(first: Any, second: Any, start: Any) -> Any:
    x, n, k = first(start), second(0), first(0)
    while x > 1:
        x = x / 2
        n += 1
        if n > 5:
            break
        if x > 100:
            break
        k += 1
    return x, n, k


def _returns(first: Any, second: Any, start: Any) -> Any:
    x, n = first(start), second(0)
    while x > 1:
        x = x / 2
        n += 1
        if n > 2:
            return x, n
    return x, n


def _continues(first: Any, second: Any, start: Any) -> Any:
    x, n, k = first(start), second(0), first(0)
    while n < 7:
        x = x / 2
        n += 1
        if x > 100:
            continue
        if n == 3:
            if x < 2:
                continue
        k += 1
    return x, n, k


def _branches(first: Any, second: Any, start: Any) -> Any:
    x, n = first(start), second(start)
    if n > 7:
        return x
    if x > 3:
        return x * 2
    return x * 3


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize(("first", "second"), [(Float, ad.UInt), (ad.Float, UInt)])
@pytest.mark.parametrize("function", [_breaks, _returns, _continues, _branches])
def test_ways_out_depend_on_masks_of_several_packages(function: Any, first: Any, second: Any, symbolic: bool) -> None:
    values = [1, 4, 64, 1000]
    with mode(symbolic):
        found = dr.syntax(function)(first, second, values)
    assert elements(found, len(values)) == [function(float, int, value) for value in values]
