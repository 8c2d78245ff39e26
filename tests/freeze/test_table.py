"""A program for each line of ``facts.txt``."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import pathlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float as Plain
from drjit.llvm.ad import PCG32, Array2f, Bool, Float, TensorXf, Texture1f, UInt
from drjit.opt import Adam, GradScaler

PROGRAMS: dict[str, Callable[[], None]] = {}


def fact(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def entered(function: Callable[[], None]) -> Callable[[], None]:
        assert name not in PROGRAMS
        PROGRAMS[name] = function
        return function

    return entered


def lines() -> list[str]:
    text = pathlib.Path(__file__).with_name("facts.txt").read_text()
    return [line.partition(":")[0] for line in text.splitlines() if line and line[0] != "#"]


def test_each_line_has_a_program() -> None:
    assert sorted(lines()) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", lines())
def test_what_is_known(name: str) -> None:
    PROGRAMS[name]()


# --- what programs use -----------------------------------------------------------------------------------------------


def floats(n: int, first: float = 1) -> Any:
    return Float(np.arange(n, dtype=np.float32) + first) if n else Float()


def tensor(*shape: int) -> Any:
    return TensorXf(np.arange(np.prod(shape), dtype=np.float32), shape)


def variable(n: int = 3, first: float = 1) -> Any:
    found = floats(n, first)
    dr.enable_grad(found)
    return found


def shown(value: Any) -> Any:
    """What is equal for results that are."""
    if isinstance(value, (tuple, list)):
        return type(value).__name__, list(map(shown, value))
    if isinstance(value, dict):
        return type(value).__name__, [(key, shown(entry)) for key, entry in value.items()]
    if dr.is_array_v(value):
        return type(value).__name__, tuple(value.shape), np.round(np.asarray(value.numpy(), np.float64), 4).tolist()
    if dataclasses.is_dataclass(value) or type(value).__name__ == "Ray":
        return type(value).__name__, shown(dict(vars(value)))
    return repr(value)


def check(function: Callable[..., Any], calls: list[Callable[[], tuple[Any, ...]]], recordings: int = 99,
          **options: Any) -> Any:
    """Calls of the frozen function return, and do to arguments, what those of the function do."""
    frozen = dr.freeze(function, **options)
    for make in calls:
        one, other = make(), make()
        assert shown(frozen(*one)) == shown(function(*other))
        assert shown(one) == shown(other)
    assert frozen.n_recordings <= recordings
    return frozen


def of(*values: Any) -> list[Callable[[], tuple[Any, ...]]]:
    """Calls with some arguments, which nobody changes."""
    return [lambda value=value: value if isinstance(value, tuple) else (value,) for value in values]


def at_sizes(function: Callable[..., Any], sizes: tuple[int, ...] = (4, 6, 8, 1, 2, 100, 4),
             recordings: int = 99) -> Any:
    return check(function, [lambda n=n: (floats(n),) for n in sizes], recordings)


def twice(x: Any) -> Any:
    return x * 2


def refused(frozen: Any, match: str, *args: Any, kind: Any = RuntimeError) -> None:
    with pytest.raises(kind, match=match):
        frozen(*args)


# --- forms -----------------------------------------------------------------------------------------------------------


@fact("forms")
def _() -> None:
    for frozen in (dr.freeze(twice), dr.freeze(twice, limit=2), dr.freeze()(twice), dr.freeze(limit=2)(twice)):
        assert shown(frozen(floats(3))) == shown(twice(floats(3))) and frozen.n_recordings == 1
    refused(dr.freeze, "positional", twice, None, kind=TypeError)


class Scale:
    def __call__(self, x: Any) -> Any:
        return x * 2


@fact("callables")
def _() -> None:
    for function in (functools.partial(lambda k, x: x * k, 2), Scale(), dr.freeze(twice), dr.sin):
        frozen = check(function, of(floats(3), floats(4)))
        assert frozen.n_recordings == 1


@fact("attributes")
def _() -> None:
    def named(x: Float, k: int = 2) -> Float:
        """Words."""
        return x * k

    frozen = dr.freeze(named)
    assert (frozen.__name__, frozen.__doc__, frozen.__wrapped__, frozen.f) == ("named", "Words.", named, named)
    assert inspect.signature(frozen) == inspect.signature(named) and frozen.__annotations__ == named.__annotations__
    for name in ("n_recordings", "n_cached_recordings"):
        with pytest.raises(AttributeError):
            setattr(frozen, name, 1)
    frozen.enabled = False
    frozen(floats(3))
    frozen.enabled = True
    assert frozen.n_recordings == 0
    frozen(floats(3))
    frozen.clear()
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (0, 0)


class Ray:
    DRJIT_STRUCT: Any = {"o": Float, "k": int}  # noqa: RUF012
    factor = 2

    def __init__(self, o: Any = None) -> None:
        self.o, self.k = Float() if o is None else o, 1

    @dr.freeze
    def moved(self, x: Any) -> Any:
        return self.o + x

    @staticmethod
    @dr.freeze
    def doubled(x: Any) -> Any:
        return x * 2

    @classmethod
    @dr.freeze
    def scaled(cls, x: Any) -> Any:
        return x * cls.factor


class LongRay(Ray):
    factor = 3


@fact("methods")
def _() -> None:
    one, other = Ray(floats(3)), Ray(floats(3, 5))
    assert shown(one.moved(floats(3))) == shown(floats(3) * 2)
    assert shown(other.moved(floats(3))) == shown(floats(3) * 2 + 4)
    assert one.moved.n_recordings == other.moved.n_recordings == LongRay.moved.n_recordings
    assert one.moved.__name__ == "moved"
    one.moved.enabled = False
    assert not Ray.moved.enabled
    Ray.moved.enabled = True


@fact("static and class methods")
def _() -> None:
    for where in (Ray, Ray(), LongRay):
        assert shown(where.doubled(floats(3))) == shown(floats(3) * 2)
        assert shown(where.scaled(floats(3))) == shown(floats(3) * where.factor)


@fact("separate caches")
def _() -> None:
    one, other = dr.freeze(twice), dr.freeze(twice)
    one(floats(3))
    assert (one.n_recordings, other.n_recordings) == (1, 0)


@fact("what computes nothing")
def _() -> None:
    async def later(x: Any) -> Any:
        return x

    def one_by_one(x: Any) -> Any:
        yield x

    for function in (later, one_by_one):
        refused(dr.freeze, "computes nothing", function, kind=TypeError)


@fact("off")
def _() -> None:
    inner = dr.freeze(twice)
    outer = dr.freeze(lambda x: inner(x) + 1)
    for frozen in (dr.freeze(twice, enabled=False), dr.freeze(twice, limit=0)):
        assert shown(frozen(floats(3))) == shown(floats(3) * 2) and frozen.n_recordings == 0
    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, False):
        inner(floats(3))
    outer(floats(3))
    assert (inner.n_recordings, outer.n_recordings) == (0, 1)
    inner(floats(3))
    assert inner.n_recordings == 1


@fact("freezing scope")
def _() -> None:
    found = []

    def looks(x: Any, fails: bool) -> Any:
        found.append(dr.flag(dr.JitFlag.FreezingScope))
        return x * (1 // (0 if fails else 1))

    frozen = dr.freeze(looks)
    frozen(floats(3), False)
    refused(frozen, "division", floats(3), True, kind=ZeroDivisionError)
    assert found == [True] and not dr.flag(dr.JitFlag.FreezingScope)


@fact("no backend")
def _() -> None:
    refused(dr.freeze(lambda k: k + 1), "no arrays of a backend", 1)


@fact("wrong backend")
def _() -> None:
    refused(dr.freeze(twice, backend=dr.JitBackend.CUDA), "backend", floats(3))


@fact("only a backend")
def _() -> None:
    frozen = dr.freeze(lambda: dr.arange(Float, 4) + 1, backend=dr.JitBackend.LLVM)
    for _ in range(3):
        assert frozen().state == dr.VarState.Evaluated and shown(frozen()) == shown(floats(4))


# --- inputs ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Box:
    x: Any
    k: int = 2


class Pair(NamedTuple):
    x: Any
    k: int


@fact("trees")
def _() -> None:
    def body(values: Any) -> Any:
        return {"a": [values[0] + 1, (values[1], values[2]["x"] * 2)], 3: Box(values[3].x * values[3].k),
                "r": values[4], "p": Pair(values[5].x * 2, 5), "o": OrderedDict(z=values[6]["q"] * 3)}

    check(body, [lambda n=n: ([floats(n), None, {"x": floats(n)}, Box(floats(n)), Ray(floats(n)), Pair(floats(n), 2),
                               OrderedDict(q=floats(n))],) for n in (3, 4, 5)], 1)


@fact("cycles")
def _() -> None:
    frozen = dr.freeze(lambda values: values[0] + values[1][0])
    for n in (3, 4):
        values: list[Any] = [floats(n)]
        values.append(values)
        assert shown(frozen(values)) == shown(floats(n) * 2)

    def made(x: Any) -> Any:
        values = [x * 2]
        values.append({"all": values})  # type: ignore[arg-type]
        return values

    frozen = dr.freeze(made)
    for n in (3, 4):
        values = frozen(floats(n))
        assert values[1]["all"] is values and shown(values[0]) == shown(floats(n) * 2)


@fact("closed-over numbers")
def _() -> None:
    k = 1
    frozen = dr.freeze(lambda x: x * k)
    for k in (1, 2, 3):
        assert shown(frozen(floats(3))) == shown(floats(3) * k)


@fact("closed-over arrays")
def _() -> None:
    y = floats(3)
    frozen = dr.freeze(lambda x: x * y)
    for k in range(3):
        y = floats(3, k)
        assert shown(frozen(floats(3))) == shown(floats(3) * y)
    assert frozen.n_recordings == 1


@fact("rebinding")
def _() -> None:
    total = Float(0, 0, 0)

    @dr.freeze
    def add(x: Any) -> None:
        nonlocal total
        total = total + x

    for _ in range(4):
        add(floats(3))
    assert shown(total) == shown(floats(3) * 4)


TARGET = Float(0, 0, 0)


@fact("scatters into closures")
def _() -> None:
    target = Float(0, 0, 0)

    @dr.freeze
    def put(x: Any) -> None:
        dr.scatter_add(target, x, UInt(0, 1, 1))
        dr.scatter(TARGET, x, UInt(2, 1, 0))

    for _ in range(3):
        put(floats(3))
    assert target.numpy().tolist() == [3, 15, 0] and TARGET.numpy().tolist() == [3, 2, 1]


class Hidden:
    def __init__(self, x: Any, k: int) -> None:
        self.x, self.k = x, k


@fact("state_fn")
def _() -> None:
    frozen = dr.freeze(lambda h, y: h.x * y + h.k, state_fn=lambda h, y: (h.x, h.k))
    for n, k in ((3, 1), (4, 2), (3, 1), (5, 2)):
        assert shown(frozen(Hidden(floats(n), k), floats(n))) == shown(floats(n) * floats(n) + k)
    assert frozen.n_recordings == 2


@fact("defaults")
def _() -> None:
    def body(x: Any, y: Any = floats(3)) -> Any:  # noqa: B008
        return x * y

    frozen = check(body, of(floats(3)))
    dr.scatter(body.__defaults__[0], Float(7), UInt(0))  # type: ignore[index]
    assert shown(frozen(floats(3))) == shown(body(floats(3)))


@fact("attributes that are read")
def _() -> None:
    settings = Hidden(None, 1)
    frozen = dr.freeze(lambda ray, hidden, x: x * ray.factor * hidden.k * settings.k)
    ray, hidden = Ray(floats(3)), Hidden(None, 1)
    for name in range(3):
        for owner, attribute in ((ray, "factor"), (hidden, "k"), (settings, "k")):
            setattr(owner, attribute, name + 2)
            assert shown(frozen(ray, hidden, floats(3))) == shown(frozen.f(ray, hidden, floats(3)))


STRENGTH = 1


def helper(x: Any) -> Any:
    return x * STRENGTH


@fact("globals of helpers")
def _() -> None:
    global STRENGTH
    frozen = dr.freeze(lambda x: helper(x))
    for STRENGTH in (1, 2, 3):  # noqa: B007
        assert shown(frozen(floats(3))) == shown(helper(floats(3)))


@fact("appended lists")
def _() -> None:
    values: list[Any] = []
    frozen = dr.freeze(lambda x: values.append(x * 2))
    for k in range(4):
        frozen(floats(3, k))
    assert shown(values) == shown([floats(3, k) * 2 for k in range(4)])


@fact("NumPy arguments")
def _() -> None:
    check(lambda x, a: x + Float(a), of(*[(floats(3), np.arange(3, dtype=np.float32) * k) for k in (1, 1, 2)]), 2)


@fact("arrays made inside")
def _() -> None:
    check(lambda x: x + Float([1, 2, 3]) + Float(1, 2, 3) + Float(np.ones(3, np.float32)) + TensorXf(
        np.ones((3, 1), np.float32)).array + dr.opaque(Float, 3) + dr.full(Float, 2, 3), of(floats(3), floats(3, 5)), 1)


@fact("evaluated inputs")
def _() -> None:
    x = floats(3) + 1
    dr.freeze(twice)(x)
    assert x.state == dr.VarState.Evaluated


@fact("auto_opaque off")
def _() -> None:
    frozen = dr.freeze(lambda x, y: x * y, auto_opaque=False)
    for k in range(4):
        y = Float(k)
        assert shown(frozen(floats(3), y)) == shown(floats(3) * k) and y.state == dr.VarState.Evaluated
    assert frozen.n_recordings == 1


@fact("auto_opaque on")
def _() -> None:
    frozen = dr.freeze(lambda x, y: x * y)
    for k, count in ((1, 1), (1, 1), (2, 2), (3, 2), (3, 2)):
        assert shown(frozen(floats(3), Float(k))) == shown(floats(3) * k) and frozen.n_recordings == count


@fact("literal and evaluated")
def _() -> None:
    frozen = check(lambda x, y: x * y, of(*[(floats(3), y) for y in (Float(2), dr.opaque(Float, 2), Float(2))]))
    assert frozen.n_recordings == 2


@fact("number and array")
def _() -> None:
    frozen = check(lambda x, y: x * y, of(*[(floats(3), y) for y in (2, dr.opaque(Float, 2), 2)]))
    assert frozen.n_recordings == 2


# --- what is recorded again ------------------------------------------------------------------------------------------


@fact("widths")
def _() -> None:
    at_sizes(lambda x: x * 2 + dr.sum(x), (2, 3, 100, 5), 1)


@fact("width one")
def _() -> None:
    assert at_sizes(twice, (3, 1, 4, 1)).n_cached_recordings == 2


@fact("patterns of widths")
def _() -> None:
    check(lambda x, y: (x + 1, y * 2), [lambda n=n, m=m: (floats(n), floats(m)) for n, m in (
        (3, 3), (4, 4), (3, 4), (5, 6), (6, 5), (7, 7))], 2)


@fact("one variable twice")
def _() -> None:
    def body(x: Any, y: Any) -> Any:
        x += 1
        return x * y

    x, y, frozen = floats(3), floats(3), dr.freeze(body)
    assert shown(frozen(x, x)) == shown((floats(3) + 1) * (floats(3) + 1))
    assert shown(frozen(y, floats(3))) == shown((floats(3) + 1) * floats(3))
    assert shown(frozen(y, Float(y))) == shown((floats(3) + 2) * (floats(3) + 1))


@fact("shapes of tensors")
def _() -> None:
    check(lambda t: (t + 1, dr.sum(t, axis=0), t.shape), [lambda s=s: (tensor(*s),) for s in (
        (2, 3), (4, 3), (4, 5), (6,), (2, 2, 2), (0, 3), (2, 3))])


@fact("types")
def _() -> None:
    frozen = check(lambda x: x * 2, of(floats(3), Plain(1, 2), UInt(1, 2), dr.llvm.ad.Float64(1, 2), tensor(2, 2),
                                       tensor(4), Array2f(1, 2) + dr.opaque(Float, 0, 3)))
    assert frozen.n_recordings == 7


@fact("values")
def _() -> None:
    seen = dr.freeze(lambda x, k: (x + 1, repr(k)), dynamic=None)
    for k in (1, 1.0, True, "1", b"1", 1j, None, int, 0.0, -0.0):
        assert seen(floats(3), k)[1] == repr(k)
    assert seen.n_recordings == 10
    assert shown(seen(floats(3), float("nan"))[1]) == shown("nan")


@fact("passing")
def _() -> None:
    def body(x: Any, k: int = 2, **more: Any) -> Any:
        return x * k + sum(more.values())

    frozen = dr.freeze(body)
    for args, kwargs in (((), {}), ((2,), {}), ((), {"k": 3}), ((), {"a": 1, "b": 2}), ((), {"b": 1, "a": 2})):
        assert shown(frozen(floats(3), *args, **kwargs)) == shown(body(floats(3), *args, **kwargs))
    check(lambda values: sum(values[1:], values[0]), [lambda n=n: ([floats(3)] * n,) for n in (1, 2, 3)])


@fact("gradient enabled")
def _() -> None:
    frozen = dr.freeze(twice)
    for k in range(4):
        x = variable() if k % 2 else floats(3)
        assert dr.grad_enabled(frozen(x)) == bool(k % 2)
    assert frozen.n_recordings == 2


@fact("flags")
def _() -> None:
    frozen = dr.freeze(twice)
    for fast in (False, True, False, True):
        with dr.scoped_set_flag(dr.JitFlag.FastMath, fast):
            assert shown(frozen(floats(3))) == shown(floats(3) * 2)
    assert frozen.n_recordings == 2


@fact("flushed caches")
def _() -> None:
    frozen = dr.freeze(lambda x: dr.sum(x * 3))
    for _ in range(3):
        assert shown(frozen(floats(3))) == shown(Float(18))
        dr.flush_kernel_cache()
        dr.flush_malloc_cache()
    assert frozen.n_recordings == 1


@fact("textures")
def _() -> None:
    def texture(size: int, k: int, mode: Any = dr.FilterMode.Linear) -> Any:
        return Texture1f(tensor(size, 1) * k, filter_mode=mode)

    frozen = dr.freeze(lambda t, x: t.eval(dr.llvm.ad.Array1f(x))[0])
    counts = []
    for each in ((4, 1), (4, 2), (8, 1), (4, 1, dr.FilterMode.Nearest), (4, 3)):
        assert shown(frozen(texture(*each), floats(3) / 4)) == shown(frozen.f(texture(*each), floats(3) / 4))
        counts.append(frozen.n_recordings)
    assert counts == [1, 1, 2, 3, 3]


@fact("alternating keys")
def _() -> None:
    assert check(lambda x, k: x * k, of(*[(floats(3), k % 2) for k in range(8)])).n_recordings == 2


@fact("blocks")
def _() -> None:
    at_sizes(lambda x: dr.block_sum(x, 2), (4, 6, 8, 10, 12, 100))


@fact("scattered sums")
def _() -> None:
    def body(x: Any, target: Any) -> Any:
        own, wide = dr.zeros(Float, 3), dr.zeros(Float, dr.width(x))
        index = dr.arange(UInt, dr.width(x))
        dr.scatter_add(own, x, index % 3)
        dr.scatter_reduce(dr.ReduceOp.Add, wide, x, index // 2)
        dr.scatter_reduce(dr.ReduceOp.Add, target, x, UInt(0))
        return own, wide, target

    check(body, [lambda n=n, m=m: (floats(n), dr.opaque(Float, 1, m)) for n, m in ((4, 4), (7, 5), (100, 9), (4, 3))])


@fact("compressed blocks")
def _() -> None:
    at_sizes(lambda x: dr.gather(Float, x, dr.compress(dr.block_sum(x, 2) > 5)), (4, 6, 8, 2, 100))


@fact("optimisers")
def _() -> None:
    def step(opt: Any, x: Any) -> Any:
        dr.backward(dr.mean(dr.square(opt["x"] - x)))
        opt.step()
        return opt["x"]

    frozen = dr.freeze(step)
    one, other = (Adam(lr=0.1, params={"x": floats(3)}) for _ in range(2))
    for k in range(8):
        for opt in (one, other):
            opt.set_learning_rate(0.1 / (k + 1))
        assert shown(frozen(one, floats(3, k))) == shown(step(other, floats(3, k)))
    assert frozen.n_recordings <= 5


@fact("scalers")
def _() -> None:
    def step(opt: Any, scaler: Any, x: Any) -> Any:
        dr.backward(scaler.scale(dr.mean(dr.square(opt["x"] - x))))
        scaler.step(opt)
        return opt["x"]

    frozen = dr.freeze(step)
    one, other = ((Adam(lr=0.1, params={"x": floats(3)}), GradScaler()) for _ in range(2))
    for k in range(5):
        assert shown(frozen(*one, floats(3, k))) == shown(step(*other, floats(3, k)))


@fact("generators")
def _() -> None:
    def draw(rng: Any, pcg: Any) -> Any:
        return rng.random(Float, 4), rng.normal(Float, 4), pcg.next_float32()

    frozen = dr.freeze(draw)
    for seed in (1, 2, 1):
        one, other = ((dr.rng(seed=seed), PCG32(4, seed)) for _ in range(2))
        for _ in range(4):
            assert shown(frozen(*one)) == shown(draw(*other))


class Square(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        self.x = x
        return x * x

    def backward(self) -> None:
        self.set_grad_in("x", 2 * self.x * self.grad_out())


def constructs(x: Any, n: Any) -> Any:
    count, total = dr.while_loop((UInt(0), x), lambda i, _: i < n, lambda i, y: (i + 1, y * 1.5))
    chosen = dr.if_stmt((total,), total > 3, lambda y: y + 1, lambda y: y - 1)
    called = dr.switch(UInt(count % 2), [lambda y: y * 2, lambda y: -y], chosen)
    memory = dr.alloc_local(Float, 2)
    memory[UInt(1)] = called
    return memory[UInt(1)], dr.custom(Square, called), dr.binary_search(0, 3, lambda i: dr.gather(Float, x, i) < 2)


@fact("loops and choices")
def _() -> None:
    check(constructs, [lambda n=n: (floats(4, n), dr.opaque(UInt, n)) for n in (3, 2, 0, 5)], 1)
    check(constructs, [lambda n=n: (floats(n), dr.opaque(UInt, 3)) for n in (4, 5, 8, 4)])


# --- sizes -----------------------------------------------------------------------------------------------------------


@fact("reductions of masks")
def _() -> None:
    frozen = dr.freeze(lambda x: (dr.any(x), dr.all(x), dr.none(x)))
    for n in (8, 3, 1, 100):
        for k in range(n):
            mask = dr.arange(UInt, n) == k
            assert shown(frozen(mask)) == shown((Bool(True), Bool(n == 1), Bool(False)))


@fact("statistics")
def _() -> None:
    at_sizes(lambda x: (dr.var(x), dr.std(x), dr.median(x), dr.mean(x)))


@fact("rearrangements")
def _() -> None:
    at_sizes(lambda x: (dr.reverse(x), dr.tile(x, 2), dr.repeat(x, 3), dr.concat([x, x + 1]), x[::2], x[1:], x[::-1],
                        dr.ravel(Array2f(x, x * 2)), dr.gather(Float, x, (dr.arange(UInt, len(x)) + 1) % len(x))))


@fact("axis 0")
def _() -> None:
    check(lambda t: (dr.sum(t, axis=0), t[1:], dr.concat([t, t]), dr.moveaxis(t, 0, 1), t[::-1], dr.cumsum(t, axis=0)),
          [lambda s=s: (tensor(*s),) for s in ((2, 3), (4, 3), (1, 3), (3, 1), (5, 2), (2, 3))])


@fact("widths as results")
def _() -> None:
    at_sizes(lambda x: (len(x), x.shape, dr.width(x), x * len(x), dr.zeros(Float, dr.width(x))))


@fact("counters")
def _() -> None:
    at_sizes(lambda x: (dr.arange(Float, dr.width(x)), dr.gather(Float, x, dr.arange(UInt, 0, dr.width(x), 3))))


@fact("nothing compressed")
def _() -> None:
    check(lambda x: dr.gather(Float, x, dr.compress(x > 5)) * 2 + 1, of(floats(3, 5), floats(4), floats(3, 9)))


@fact("no elements")
def _() -> None:
    at_sizes(lambda x: (x * 2, dr.sum(x), dr.concat([x, x]), dr.sort(x)), (3, 0, 4, 0, 1))


# --- in the body -----------------------------------------------------------------------------------------------------


@fact("evaluated loops")
def _() -> None:
    frozen = dr.freeze(lambda x: dr.while_loop((x,), lambda x: x < 10, lambda x: (x * 2,), mode="evaluated")[0])
    for k in (1, 3):
        try:
            found = frozen(floats(3, k))
        except RuntimeError as error:
            assert "is being recorded" in str(error)
        else:
            assert shown(found) == shown(frozen.f(floats(3, k)))


@fact("contents")
def _() -> None:
    for look in (lambda x: x[0], lambda x: float(x), lambda x: list(x), str, lambda x: x.numpy(),
                 lambda x: x.__dlpack__(), lambda x: bool(x > 1)):
        refused(dr.freeze(lambda x, look=look: look(dr.sum(x))), "is being recorded", floats(3))


@fact("items")
def _() -> None:
    def body(x: Any) -> Any:
        x[1] = 5
        return x * 2

    at_sizes(body, (3, 4, 3, 100), 3)
    check(body, [lambda k=k: (variable(3, k),) for k in range(3)], 1)
    check(lambda t: t.__setitem__((slice(None), 0), 7), [lambda n=n: (tensor(n, 2),) for n in (2, 3, 2)])


@fact("evaluation")
def _() -> None:
    def body(x: Any) -> Any:
        y = x + 1
        dr.schedule(y)
        dr.eval(y)
        z = y * 2
        dr.make_opaque(z)
        dr.assert_true(z > 0)
        dr.sync_thread()
        return y, z, len(dr.kernel_history())

    at_sizes(body, (3, 4, 5), 1)


@fact("exceptions")
def _() -> None:
    def body(x: Any, fails: bool) -> Any:
        x += 1
        if fails:
            raise KeyError("words")
        return x

    frozen, x = dr.freeze(body), floats(3)
    for _ in range(2):
        with pytest.raises(KeyError, match="words") as found:
            frozen(x, True)
        assert "recorded" in found.value.__notes__[0] and frozen.n_cached_recordings == 0
        assert shown(x) == shown(floats(3))
    assert shown(frozen(x, False)) == shown(floats(3) + 1)


@fact("inside constructs")
def _() -> None:
    inner = dr.freeze(lambda x: x * 2 + 1)
    x = floats(3)
    found = dr.while_loop((UInt(0), x), lambda i, _: i < 2, lambda i, y: (i + 1, inner(y)))[1]
    assert shown(found) == shown(x * 4 + 3)
    assert shown(dr.if_stmt((x,), x > 1, lambda y: inner(y), lambda y: y)) == shown(Float(1, 5, 7))
    assert shown(dr.switch(UInt(0, 1, 0), [lambda y: inner(y), lambda y: y], x)) == shown(Float(3, 2, 7))


# --- results ---------------------------------------------------------------------------------------------------------


@fact("trees are made anew")
def _() -> None:
    token = object()
    frozen = dr.freeze(lambda x: [x * 2, {"t": token, "n": None, "s": "a", "k": 3}])
    one, other = frozen(floats(3)), frozen(floats(4))
    assert one is not other and one[1] is not other[1] and other[1]["t"] is token and other[1]["k"] == 3


@fact("identity")
def _() -> None:
    frozen = dr.freeze(lambda x: (x, [z := x * 2, z]))
    for n in (3, 4):
        x = floats(n)
        one, (two, three) = frozen(x)
        assert one is x and two is three


@fact("arguments")
def _() -> None:
    def body(x: Any, values: Any, table: Any, box: Any) -> None:
        x += 1
        dr.scatter(values[0], Float(9), UInt(0))
        values[1] = x * 2
        table["new"] = x * 3
        box.x = box.x + x

    check(body, [lambda k=k: (floats(3, k), [floats(3), floats(3)], {"a": floats(3)}, Box(floats(3)))
                 for k in range(3)], 1)


@fact("fields and pops")
def _() -> None:
    def body(box: Any, table: Any, values: Any) -> Any:
        box.k += 1
        box.x = [box.x, box.k] if box.k < 4 else Box(box.x, 0)
        values.append(table.pop("x") * box.k)

    check(body, [lambda k=k: (Box(floats(3), k), {"x": floats(3), "y": 1}, []) for k in (1, 1, 2, 3, 4, 5)])


@fact("targets")
def _() -> None:
    frozen = dr.freeze(lambda target, x: dr.scatter(target, x, dr.arange(UInt, 3)))
    for target in (dr.opaque(Float, 7, 5), dr.zeros(Float, 5), dr.opaque(Float, 8, 5)):
        copy = Float(target)
        before = shown(copy)
        frozen(target, floats(3))
        assert shown(copy) == before and target.numpy().tolist()[:3] == [1, 2, 3]


# --- derivatives -----------------------------------------------------------------------------------------------------


@fact("backward inside")
def _() -> None:
    frozen = dr.freeze(lambda z, w: dr.backward(dr.sum(z * z)))
    for k in range(1, 4):
        x, w = variable(3, k), variable()
        frozen(x * 2, w)
        frozen(x * 2, w)
        assert shown(dr.grad(x)) == shown(16 * dr.detach(x)) and shown(dr.grad(w)) == shown(dr.zeros(Float, 3))


@fact("forward inside")
def _() -> None:
    def body(x: Any) -> Any:
        y = x * x
        dr.forward(x)
        return y

    frozen = dr.freeze(body)
    for k in range(1, 4):
        x = variable(3, k)
        assert shown(dr.grad(frozen(x))) == shown(2 * dr.detach(x))
    x = variable()
    z = x * 2
    dr.set_grad(x, 1)
    refused(dr.freeze(lambda z: dr.forward_to(z * z)), "depends on", z)


@fact("enabled inside")
def _() -> None:
    def body(x: Any) -> None:
        dr.enable_grad(x)
        dr.backward(dr.sum(x * x))

    frozen = dr.freeze(body)
    for k in range(1, 4):
        x = floats(3, k)
        frozen(x)
        assert dr.grad_enabled(x) and shown(dr.grad(x)) == shown(2 * dr.detach(x))


@fact("through the call")
def _() -> None:
    frozen = dr.freeze(lambda x: dr.sin(x) * x)
    for k in range(3):
        gradients = []
        for function in (frozen, frozen.f):
            x = variable(3, k)
            dr.backward(function(x * 2))
            y = variable(3, k)
            changed = function(y * 2)
            dr.forward(y)
            gradients.append((shown(dr.grad(x)), shown(dr.grad(changed))))
        assert gradients[0] == gradients[1]


@fact("suspended")
def _() -> None:
    for first in (False, True):
        frozen = dr.freeze(twice)
        for suspended in (first, not first, first):
            with dr.suspend_grad(when=suspended):
                assert dr.grad_enabled(frozen(variable())) != suspended


# --- options ---------------------------------------------------------------------------------------------------------


@fact("limit")
def _() -> None:
    for limit, expected in ((None, 3), (-1, 3), (2, 4), (1, 5), (0, 0)):
        frozen = check(lambda x, p: x * p, of(*[(floats(3), p) for p in (0, 1, 2, 1, 0, 0)]), limit=limit, dynamic=None)
        assert frozen.n_recordings == expected
        assert limit is None or limit < 0 or frozen.n_cached_recordings <= limit


@fact("options")
def _() -> None:
    for option in ({"limit": "a"}, {"warn_after": -1}, {"state_fn": 1}, {"backend": "llvm"}, {"auto_opaque": 1},
                   {"dynamic": ("q",)}, {"unknown": 1}):
        with pytest.raises(TypeError):
            dr.freeze(twice, **option)


@fact("warnings")
def _() -> None:
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("drjit").addHandler(handler)
    try:
        frozen = dr.freeze(lambda x, options: x * options["k"], warn_after=1, dynamic=None)
        for k in range(3):
            frozen(floats(3), {"k": k})
    finally:
        logging.getLogger("drjit").removeHandler(handler)
    assert "args[1]['k'] was 0, and is 1" in found[0] and "test_table.py:" in found[0] and len(found) == 2


@fact("history")
def _() -> None:
    frozen, found = dr.freeze(lambda x: dr.sum(x + 1)), []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for _ in range(3):
            dr.kernel_history_clear()
            frozen(floats(1000))
            found.append([(entry["type"], entry["size"], entry["hash"]) for entry in dr.kernel_history()])
    assert found[0] == found[1] == found[2] != []


@fact("threads")
def _() -> None:
    frozen, wrong = dr.freeze(lambda x, k: dr.sum(x) * k), []

    def work(first: int) -> None:
        for k in range(20):
            if shown(frozen(floats(10, first), k % 5)) != shown(dr.sum(floats(10, first)) * (k % 5)):
                wrong.append((first, k))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
