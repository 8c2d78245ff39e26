"""The generators that :func:`drjit.rng` returns: arrays and tensors of random numbers of any type and shape.

Philox4x32 encrypts counters. Here the first counter is that of the generator, which counts what is drawn, and the
second one is the position of an element, so that elements are independent of each other, and the numbers of a seed do
not depend on the machine. Each step yields four numbers of up to 32 bits, or two of 64, for each position, of which the
components of a nested array are made, the last word first; a flat array or a tensor takes one. The numbers are those of
Dr.Jit for the same seed.
"""

from __future__ import annotations

import copyreg
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, SupportsIndex

import drjit_core as core
from drjit_core import Node, ReduceOp, cast, counter, invalid, literal

from .._access.slicing import parse_slice, read
from .._arrays.broadcasting import make as make_tensor
from .._base.arguments import require_bool
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import number_of
from .._base.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    SCALAR,
    UINT32,
    UINT64,
    Record,
    lookup,
    require_backend,
    retype,
)
from .._base.typing import ArrayT
from .._base.values import is_ndarray, parse_shape, plain_integer, plain_scalar
from .._functions.creation import array_size
from .._functions.elementwise import FUNCTIONS
from .._functions.ordering import require_positions
from .._functions.states import Mismatch, Place, Stateful
from .._promotion.promote import coerce, wrap
from .arithmetic import MASK32, OnNodes, array_type, box_muller, ops, parameter, u32
from .philox import philox_numbers
from .tracing import philox

__all__ = ["Generator", "Philox4x32Generator", "rng"]

#: Version of what pickles hold of a generator.
FORMAT = 1
_LITERAL = core.KIND["literal"]
#: Rounds of Philox4x32: the fewest that pass the usual tests of randomness, says the paper.
_ROUNDS = 7


def rng(seed: ArrayBase | int = 0, method: str = "philox4x32", symbolic: bool = False) -> Generator:
    """A generator of random numbers: a :class:`drjit.random.Generator`.

    ``seed`` is an ``int`` from 0 to 2^64 - 1, or an array of unsigned integers, of one element or as many as are drawn
    at once. Generators with different seeds yield statistically independent numbers; the same seed yields the same
    numbers, everywhere. ``method`` is ``"philox4x32"``, the counter-based generator Philox4x32 of J. K. Salmon, M. A.
    Moraes, R. O. Dror and D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), with 7 rounds.

    Generators are PyTrees, and can be variables of symbolic loops, if their ``seed`` is an array, or something was
    drawn before. With ``symbolic=True`` their state is never evaluated nor scheduled for evaluation; in symbolic loops,
    that is so without being asked for.

    Raises a ``TypeError`` for other seeds and methods. Evaluates nothing.

    >>> from drjit.llvm import Float, UInt64
    >>> rng = dr.rng(seed=0)
    >>> rng.random(Float, 3)
    [0.310349, 0.575526, 0.781459]
    >>> rng.random(Float, 3)
    [0.613185, 0.505707, 0.0255281]
    >>> dr.rng(UInt64(1, 2, 3)).random(Float, 3)
    [0.517474, 0.481511, 0.188729]
    """
    if method != "philox4x32":
        raise ArgumentError(f"drjit.rng(): 'method' must be 'philox4x32', found {method!r}.")
    return Philox4x32Generator(seed, symbolic=symbolic)


class Generator(Stateful):
    """Random numbers as arrays and tensors of any type and shape. Made by :func:`drjit.rng`.

    Each method draws new numbers, and moves the generator on. The type of the result is the first argument, ``dtype``;
    ``shape`` is the number of elements of a flat array; the shape of a tensor, a tuple or a number; for nested arrays
    and matrices the extents with the number of elements as the last one, as in ``(3, 128)`` for 128 vectors (a number
    alone is that last one); for arrays of ``drjit.scalar`` what they have. Numbers are drawn when they are evaluated:
    nothing here evaluates anything, except :meth:`permutation`.

    >>> from drjit.llvm import Array3f, Float, Matrix2f64, TensorXf16
    >>> rng = dr.rng(seed=0)
    >>> a = rng.random(Float, 128)
    >>> b = rng.random(TensorXf16, shape=(128, 128))
    >>> c = rng.random(Array3f, (3, 128))
    >>> d = rng.random(Matrix2f64, (2, 2, 128))
    >>> dr.shape(a), dr.shape(b), dr.shape(c), dr.shape(d)
    ((128,), (128, 128), (3, 128), (2, 2, 128))
    """

    __slots__ = ("__weakref__",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise ArgumentError(f"drjit.random.{type(self).__name__}() takes no arguments: this class is what all "
                                "generators have in common, and draws nothing itself. drjit.rng(seed=...) returns a "
                                "generator.")

    # Methods that raise NotImplementedError are those that each kind of generator has of its own.

    def random(self, dtype: type[ArrayT], shape: int | tuple[int, ...]) -> ArrayT:
        """Uniformly distributed numbers in [0, 1): multiples of 2^-23, in double precision of 2^-52.

        ``dtype`` is a type of floating-point numbers, else a ``TypeError`` is raised, as for shapes that do not fit.

        >>> from drjit.llvm import Array3f, Float
        >>> dr.rng(seed=0).random(Float, 4)
        [0.310349, 0.575526, 0.781459, 0.37085]
        >>> dr.rng(seed=0).random(Array3f, (3, 2))
        [[0.310349, 0.30887, 0.0528754],
         [0.575526, 0.0501834, 0.672801]]
        """
        raise _missing(self, "random")

    def uniform(self, dtype: type[ArrayT], shape: int | tuple[int, ...], low: float | ArrayBase = 0.0,
                high: float | ArrayBase = 1.0) -> ArrayT:
        """Uniformly distributed numbers in [``low``, ``high``): ``low + (high - low) * random(dtype, shape)``.

        The bounds are numbers, or arrays, with which the result has a common type. A product that rounds up to
        ``high``, where that is a number, becomes the largest one below. See :meth:`random` for ``dtype`` and ``shape``.

        >>> from drjit.llvm import Float
        >>> dr.rng(seed=0).uniform(Float, 4, low=2, high=4)
        [2.6207, 3.15105, 3.56292, 2.7417]
        """
        _require_numbers("drjit.random.Generator.uniform", low=low, high=high)
        result: Any = self._unit(dtype, shape)
        below, above = plain_scalar(low), plain_scalar(high)
        if below == 0 and above == 1 and below is not None:
            return result  # type: ignore[no-any-return]
        try:
            bounds: Any = (low, high) if below is None or above is None else (below, above)
            bounds = [type(result)(bound) if isinstance(bound, (list, tuple)) else bound for bound in bounds]
            span = bounds[1] - bounds[0]
            result = FUNCTIONS["fma"](result, span, bounds[0])
        except (TypeError, RuntimeError) as error:
            raise _misfit("uniform", error, result.shape, low=low, high=high) from None
        if below is not None and above is not None and above > below:
            result = FUNCTIONS["minimum"](result, _largest_below(type(result), float(above)))
        return result  # type: ignore[no-any-return]

    def _unit(self, dtype: Any, shape: Any) -> Any:
        """The numbers of :meth:`random` for :meth:`uniform`, which is what errors name where a class can tell."""
        return self.random(dtype, shape)

    def normal(self, dtype: type[ArrayT], shape: int | tuple[int, ...], loc: float | ArrayBase = 0.0,
               scale: float | ArrayBase = 1.0) -> ArrayT:
        """Normally distributed numbers of mean ``loc`` and standard deviation ``scale``, numbers or arrays.

        By the transformation of G. E. P. Box and M. E. Muller, "A Note on the Generation of Random Normal Deviates"
        (1958). See :meth:`random` for ``dtype`` and ``shape``.

        >>> from drjit.llvm import Float
        >>> dr.rng(seed=0).normal(Float, 4)
        [0.281158, -1.15812, 1.23209, 0.438405]
        >>> dr.rng(seed=0).normal(Float, 4, loc=1, scale=2)
        [1.56232, -1.31624, 3.46417, 1.87681]
        """
        raise _missing(self, "normal")

    def integers(self, dtype: type[ArrayT], shape: int | tuple[int, ...], low: int | ArrayBase = 0,
                 high: int | ArrayBase | None = None, endpoint: bool = False) -> ArrayT:
        """Uniformly distributed 32-bit integers from ``low`` to ``high``, which is left out unless ``endpoint`` is set.

        If ``high`` is ``None``, they are drawn from 0 to ``low``. The bounds are integers, or arrays of 32-bit ones
        with one element or as many as are drawn. ``dtype`` is a type of signed or unsigned 32-bit integers; see
        :meth:`random` for ``shape``. All integers are equally probable: by the method of D. Lemire, "Fast Random
        Integer Generation in an Interval" (2019), which draws a few elements again. The generator moves on by as many
        steps as the element that was drawn most often. In symbolic loops, each element has a state of its own after
        that.

        Raises a ``TypeError`` for other types and shapes, and for bounds that the type cannot hold, a ``ValueError`` if
        there is no integer between them, both numbers. Where that is so for elements of arrays, the result is
        undefined.

        >>> from drjit.llvm import Int, UInt
        >>> dr.rng(seed=0).integers(UInt, 8, 10)
        [3, 5, 7, 3, 5, 5, 9, 8]
        >>> dr.rng(seed=0).integers(Int, 8, -5, 5, endpoint=True)
        [-2, 1, 3, -1, 1, 0, 5, 4]
        """
        raise _missing(self, "integers")

    def permutation(self, x: Any, /, n: int | None = None, axis: int | None = None) -> Any:
        """A random permutation: of the integers below ``n``, of an array, or of the slices of a tensor.

        ``permutation(dtype, n)`` returns a permutation of ``dr.arange(dtype, n)``, whose type is
        ``dr.uint32_array_t(dtype)``. ``permutation(x)`` returns the elements of a flat array in random order,
        ``permutation(x, axis=0)`` the slices of a tensor along an axis, each as it is.

        It is the order of as many numbers from :meth:`random`, in single precision. Where two of them are equal, which
        happens to one in 2^24 pairs, the elements keep their order. Raises a ``TypeError`` for anything but types,
        flat arrays and tensors, and for an axis that does not exist; a ``RuntimeError`` in symbolic loops, since
        sorting needs the values of all elements. Evaluates nothing.

        >>> from drjit.llvm import Float, TensorXf, UInt
        >>> dr.rng(seed=0).permutation(UInt, 10)
        [9, 0, 3, 5, 4, 1, 2, 8, 7, 6]
        >>> dr.rng(seed=0).permutation(Float(1, 2, 3, 4))
        [1, 4, 2, 3]
        >>> dr.rng(seed=0).permutation(dr.reshape(dr.arange(TensorXf, 6), (2, 3)), axis=1)
        [[0, 1, 2],
         [3, 4, 5]]
        """
        function = "drjit.random.Generator.permutation"
        if isinstance(x, type) and issubclass(x, ArrayBase) and hasattr(x, "_record"):
            size = plain_integer(n)
            if size is None or size < 0 or axis not in (None, 0):
                raise ArgumentError(f"{function}(): 'n' must be an int that is not negative if the first argument is a "
                                    f"type, found {n!r}.")
            flat = _jit_type(x, function)
            order = self._order(function, flat, size)
            result = lookup(x._record._replace(type=UINT32)) if x._depth <= 0 else None
            if result is None:
                raise ArgumentError(f"{function}(): a permutation has one dimension, but 'dtype' is {x._name}.")
            return make_tensor(result, order._n, (size,)) if x._depth < 0 else wrap(result, [order._n])
        if not isinstance(x, ArrayBase) or x._depth > 0:
            raise ArgumentError(f"{function}(): the first argument must be an array type, a flat array or a tensor, "
                                f"found {describe(x)}.")
        if n is not None and axis is not None:
            raise ArgumentError(f"{function}(): 'n' goes with a type only, found an array and n={n!r}.")
        along = plain_integer(n if axis is None else axis) if n is not None or axis is not None else 0
        dimensions = len(x._s) if x._depth < 0 else 1
        if along is None or not -dimensions <= along < max(dimensions, 1):
            raise ArgumentError(f"{function}(): 'axis' must be an int from {-dimensions} to {dimensions - 1}, found "
                                f"{n if axis is None else axis!r}.")
        flat = _jit_type(type(x), function)
        array: Any = x
        if x._depth < 0 and not dimensions:
            return x
        size = x._s[along] if x._depth < 0 else len(array)
        order = self._order(function, flat, size)
        if size < 2:
            return x
        # Not a read of the user's: where lanes have left a loop there are still elements, which others may get.
        if x._depth < 0:
            access, shape = parse_slice(function, x._s, (*(slice(None),) * (along % dimensions), order))
            return make_tensor(type(array), read(array._n, access._replace(lanes=None, checked=True)), shape)
        return wrap(type(array), [core.gather(array._n, order._n, literal(BOOL, True), harmless=True)])

    def _order(self, function: str, flat: Any, size: int) -> Any:
        """The order of random keys, as an array of a type of unsigned integers."""
        require_positions(function, flat, size)
        keys: Any = self.random(retype(flat, FLOAT32), size)
        order = invalid(UINT32) if size == 0 else literal(UINT32, 0)
        if size > 1:
            (order,) = core.step("sort", [keys._n], [(UINT32, size)], (1, 0), (1, 0, 1))  # stable
        return make_tensor(flat, order, (size,)) if flat._depth < 0 else wrap(flat, [order])

    def clone(self) -> Generator:
        """A generator that yields the same numbers as this one will. Neither changes the other.

        >>> from drjit.llvm import Float
        >>> rng = dr.rng(seed=0)
        >>> other = rng.clone()
        >>> dr.all(rng.random(Float, 10) == other.random(Float, 10))
        [True]
        """
        raise _missing(self, "clone")


def _missing(generator: Generator, method: str) -> NotImplementedError:
    """What a class of generators without some method raises."""
    return NotImplementedError(f"drjit.random.Generator.{method}(): {type(generator).__name__} does not have this "
                               "method. drjit.rng(seed=...) returns a generator that has it.")


class Philox4x32Generator(Generator):
    """What :func:`drjit.rng` returns. ``seed`` is the key, ``counter`` the number of steps that were made.

    >>> from drjit.llvm import UInt
    >>> generator = dr.random.Philox4x32Generator(seed=3)
    >>> dr.width(generator.integers(UInt, 4, high=10))
    4
    """

    __slots__ = ("_counter", "_seed", "_symbolic")
    _name: ClassVar[str] = "drjit.random.Philox4x32Generator"

    #: An int as long as nothing was drawn, then an array of 64 bits; and one of 32 bits.
    _seed: Any
    _counter: Any
    _symbolic: bool

    def __init__(self, seed: ArrayBase | int = 0, counter: ArrayBase | int = 0, symbolic: bool = False) -> None:
        self._symbolic = require_bool("drjit.rng", "symbolic", symbolic)
        self._seed = _integers(seed, UINT64, "seed")
        self._counter = _integers(counter, UINT32, "counter")
        for value, other, scalar in ((self._seed, "_counter", UINT32), (self._counter, "_seed", UINT64)):
            if isinstance(value, ArrayBase) and not isinstance(getattr(self, other), ArrayBase):
                setattr(self, other, wrap(retype(type(value), scalar), [_parameter(scalar, getattr(self, other))]))

    def __repr__(self) -> str:
        seed, steps = (value if isinstance(value, int) else value[0] if len(value) == 1 else value
                       for value in (self._seed, self._counter))
        return f"Philox4x32Generator[seed={seed}, counter={steps}]"

    # --- copies, by value; traversal, see drjit._trees.pytree ---------------------------------------------------------

    def clone(self) -> Generator:
        result: Generator = self._with(self._seed, self._counter)
        return result

    clone.__doc__ = Generator.clone.__doc__

    def _with(self, seed: Any, steps: Any) -> Any:
        result: Any = type(self).__new__(type(self))
        result._seed, result._counter, result._symbolic = seed, steps, self._symbolic
        return result

    def __copy__(self) -> Any:
        return self._with(self._seed, self._counter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._with(self._seed, self._counter)  # a draw exchanges the arrays, and changes none

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        state = {"format": FORMAT, "seed": self._seed, "counter": self._counter, "symbolic": self._symbolic}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]

    def __setstate__(self, state: Any) -> None:
        form = state.get("format") if isinstance(state, dict) else None
        if form != FORMAT:
            found = "none at all" if form is None else f"{form!r}"
            raise ValueError(f"{self._name}: cannot restore this generator: its pickle has a format that this version "
                             f"of the package does not know (expected {FORMAT}, found {found}).")
        self._seed, self._counter, self._symbolic = state["seed"], state["counter"], state["symbolic"]

    def _state_places(self) -> dict[str, Place]:
        def place(name: str, scalar: int) -> Place:
            def accept(value: Any, convert: bool) -> Any:
                del convert
                try:
                    return _integers(value, scalar, name)
                except (TypeError, ValueError) as error:
                    raise Mismatch(TypeError, f"does not fit: {error}") from None
            return Place(getattr(self, f"_{name}"), lambda value: setattr(self, f"_{name}", value), accept)

        return {"seed": place("seed", UINT64), "counter": place("counter", UINT32)}

    def __drjit_children__(self) -> dict[str, Any]:
        return {"seed": self._seed, "counter": self._counter} if isinstance(self._seed, ArrayBase) else {}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        return self._with(children.get("seed", self._seed), children.get("counter", self._counter))

    # --- state -------------------------------------------------------------------------------------------------------

    def _state(self, flat: Any, size: int, function: str) -> tuple[tuple[Node, Node], Node]:
        """The key of two words, and the counter, for arrays of the package of a type, of some elements."""
        scalar = flat._record.backend is SCALAR
        if not isinstance(self._seed, ArrayBase):
            if not scalar:
                if core.innermost() is not None:
                    raise RuntimeError(
                        f"{function}(): this generator has no state that a symbolic loop could keep, because its seed "
                        f"is a number; make it with an array, such as dr.rng(seed=drjit.llvm.UInt64({self._seed})), or "
                        f"draw something before the loop.")
                wide, narrow = retype(flat, UINT64), retype(flat, UINT32)
                self._seed = wrap(wide, [_parameter(UINT64, self._seed)])
                self._counter = wrap(narrow, [_parameter(UINT32, self._counter)])
            else:
                key = parameter(self._seed >> 32, 1), parameter(self._seed & MASK32, 2)
                return key, _parameter(UINT32, self._counter)
        seed, steps = self._seed._n, self._counter._n
        if steps.size not in (1, size) and seed.size == 1 and core.innermost() is None:  # of an array of another size
            steps = core.reduce(steps, ReduceOp.Max.value)
        if scalar and steps.kind != _LITERAL and steps.size == 1 and not steps.scope:
            steps = _parameter(UINT32, number_of(steps))  # what is drawn there is computed at once
        if seed.kind == _LITERAL and seed.size == 1 and not (scalar and steps.kind != _LITERAL):
            return (parameter(seed.payload >> 32, 1), parameter(seed.payload & MASK32, 2)), steps
        if scalar:
            raise ArgumentError(f"{function}(): the state of this generator is made of arrays of type "
                                f"{type(self._seed)._name} and {type(self._counter)._name}, and cannot be used for "
                                "numbers of drjit.scalar.")
        if self._seed._record.backend is not flat._record.backend:
            coerce(retype(flat, UINT64), self._seed, function)  # raises: what is in the memory of another backend
        return (cast(ops.shr(seed, literal(UINT64, 32, 1, core.BAKED)), UINT32), cast(seed, UINT32)), steps

    def _move(self, steps: Node) -> None:
        """Set the counter. It is scheduled for evaluation, lest what is drawn next depend on all drawn before."""
        if not isinstance(self._seed, ArrayBase):
            self._counter = steps.payload
            return
        if steps.kind == _LITERAL:
            if not self._counter._n.scope:
                steps = _parameter(UINT32, steps.payload)
        elif not self._symbolic and not steps.scope and core.innermost() is None:
            core.schedule([steps])
        self._counter = wrap(type(self._counter), [steps])

    # --- drawing numbers ---------------------------------------------------------------------------------------------

    def random(self, dtype: Any, shape: Any) -> Any:
        return self._numbers(dtype, shape, "random", _uniform)

    def _unit(self, dtype: Any, shape: Any) -> Any:
        return self._numbers(dtype, shape, "uniform", _uniform)

    def normal(self, dtype: Any, shape: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        _require_numbers("drjit.random.Generator.normal", loc=loc, scale=scale)
        result = self._numbers(dtype, shape, "normal", _normal)
        mean, deviation = plain_scalar(loc), plain_scalar(scale)
        if mean == 0 and deviation == 1 and mean is not None:
            return result
        try:
            return FUNCTIONS["fma"](result, scale, loc)
        except (TypeError, RuntimeError) as error:
            raise _misfit("normal", error, result.shape, loc=loc, scale=scale) from None

    random.__doc__, normal.__doc__ = Generator.random.__doc__, Generator.normal.__doc__

    def _words(self, key: tuple[Node, Node], steps: Node, lane: Node) -> list[Node]:
        """Four words for each position."""
        zero = u32(0)
        if steps.kind == _LITERAL and lane.kind == _LITERAL and key[0].kind == _LITERAL:  # numbers of drjit.scalar, too
            numbers = philox_numbers([steps.payload, lane.payload, 0, 0], (key[0].payload, key[1].payload), _ROUNDS)
            return [literal(UINT32, number) for number in numbers]
        return philox(steps, lane, zero, zero, *key, _ROUNDS)

    def _numbers(self, dtype: Any, shape: Any, name: str, values: Callable[[list[Node], int], Iterator[Node]]) -> Any:
        """Floating-point numbers, made from words."""
        function = f"drjit.random.Generator.{name}"
        form = _Form(dtype, shape, function, "f")
        key, steps = self._state(form.flat, form.size, function)
        nodes: list[Node] = []
        try:
            lane = form.lane()
            while len(nodes) < form.count:
                for node in values(self._words(key, steps, lane), form.type):
                    nodes.append(node)
                    if len(nodes) == form.count:
                        break
                steps = ops.add(steps, literal(UINT32, 1))
            result = form.array(nodes)
        except CORE_ERRORS as error:
            raise translate(error, function) from None
        self._move(steps)
        return result

    def integers(self, dtype: Any, shape: Any, low: Any = 0, high: Any = None, endpoint: bool = False) -> Any:
        function = "drjit.random.Generator.integers"
        form = _Form(dtype, shape, function, "iu")
        given = {"low": low} if high is None else {"low": low, "high": high}
        low, high = (0, low) if high is None else (low, high)
        require_bool(function, "endpoint", endpoint)
        first, last = form.bound(function, "low", low), form.bound(function, list(given)[-1], high)
        key, steps = self._state(form.flat, form.size, function)
        try:
            if first.__class__ is int and last.__class__ is int:
                last -= not endpoint
                if last < first:
                    raise ValueError(f"{function}(): there is no integer from 'low' to 'high', which are {low} and "
                                     f"{high}{'' if endpoint else ' (the latter is left out)'}.")
                form.require(function, "low", first)
                form.require(function, list(given)[-1], last)
                span: Node | None = None if last - first == MASK32 else parameter(last - first + 1, 1)
                certain = span is None or not (1 << 32) % span.payload
                start = parameter(first & MASK32, 2)
            else:
                nodes = [parameter(value & MASK32, 3) if value.__class__ is int else value for value in (first, last)]
                start, certain = nodes[0], False
                span = ops.sub(nodes[1], start)
                if endpoint:
                    span = ops.add(span, u32(1))
            found, steps = self._bounded(form, key, steps, span, certain)
            if form.size and (low.__class__ is not int or low):
                found = [ops.add(node, start) for node in found]
            result = form.array([core.bitcast(node, form.type) for node in found])
        except CORE_ERRORS as error:
            raise _misfit("integers", translate(error, function), (form.size,), **given) from None
        self._move(steps)
        return result

    integers.__doc__ = Generator.integers.__doc__

    def _bounded(self, form: _Form, key: tuple[Node, Node], steps: Node, span: Node | None,
                 certain: bool) -> tuple[list[Node], Node]:
        """Integers below a number, and the counter after as many steps as they took.

        D. Lemire, "Fast Random Integer Generation in an Interval" (ACM Transactions on Modeling and Computer Simulation
        29, 2019): the upper half of the product of a word and the number, unless the lower half is below the remainder
        of 2^32 by it. ``certain`` says that this is 0. A number of 0 stands for 2^32.
        """
        lane, one = form.lane(), literal(UINT32, 1)
        if not form.size:
            return [invalid(UINT32)] * form.count, ops.add(steps, one)

        def draw(steps: Node) -> tuple[list[Node], Node]:
            words: list[Node] = []
            while len(words) < form.count:
                words += self._words(key, steps, lane)[::-1]
                steps = ops.add(steps, one)
            return words[:form.count], steps

        words, after = draw(steps)
        if span is None or span.kind == _LITERAL and not span.payload:
            return words, after
        number: Node = span

        def scaled(word: Node) -> Node:
            high = ops.mul_hi(word, number)
            return high if number.kind == _LITERAL else ops.select(ops.eq(number, u32(0)), word, high)

        found = [scaled(word) for word in words]
        if certain:
            return found, after
        remainder = literal(UINT32, (1 << 32) % number.payload, 1, core.SHAPE, tag=4) if number.kind == _LITERAL else \
            ops.mod(ops.neg(number), number)
        rejected = [ops.lt(ops.mul(word, number), remainder) for word in words]
        if not form.vectorised:
            while any(node.payload for node in rejected):
                words, after = draw(after)
                found = [scaled(word) if no.payload else old
                         for old, word, no in zip(found, words, rejected, strict=True)]
                rejected = [ops.and_(no, ops.lt(ops.mul(word, number), remainder))
                            for no, word in zip(rejected, words, strict=True)]
            return found, after

        def body(variables: list[Node]) -> list[Node]:
            words, steps = draw(variables[0])
            values, pending = variables[1:1 + form.count], variables[1 + form.count:]
            return [steps,
                    *(ops.select(no, scaled(word), old) for no, word, old in zip(pending, words, values, strict=True)),
                    *(ops.and_(no, ops.lt(ops.mul(word, number), remainder))
                      for no, word in zip(pending, words, strict=True))]

        def condition(variables: list[Node]) -> Node:
            pending = variables[1 + form.count:]
            return functools.reduce(lambda a, b: ops.or_(a, b), pending)

        result = core.while_loop([after, *found, *rejected], condition, body, trips=64)
        after = result[0]
        if not isinstance(self._seed, ArrayBase):  # its counter is a number
            return result[1:1 + form.count], literal(UINT32, number_of(core.reduce(after, ReduceOp.Max.value)))
        if after.size > 1 and not self._symbolic and not after.scope and core.innermost() is None:
            after = core.reduce(after, ReduceOp.Max.value)
        return result[1:1 + form.count], after


# --- arguments -------------------------------------------------------------------------------------------------------


@functools.cache
def _flat_type(record: Record) -> Any:
    """The flat array type over the same scalar type, in the same package."""
    return array_type(record._replace(kind="array"), record.type)


class _Form:
    """What is drawn: components of a type, of some elements each."""

    def __init__(self, dtype: Any, shape: Any, function: str, kinds: str) -> None:
        number = dtype is float and kinds == "f"
        if not number and not (isinstance(dtype, type) and issubclass(dtype, ArrayBase) and hasattr(dtype, "_record")
                               and dtype._kind in kinds and (kinds == "f" or dtype._type in (INT32, UINT32))):
            what = "floating-point numbers" if kinds == "f" else "32-bit integers"
            raise ArgumentError(f"{function}(): 'dtype' must be a type of arrays or tensors of {what}, found "
                                f"{dtype!r}.")
        sizes = shape if shape.__class__ is int and 0 <= shape <= MASK32 else parse_shape(shape, function)
        self.dtype, self.number = dtype, number
        if sizes.__class__ is int and (number and sizes != 1 or not number and not dtype._dynamic and
                                       dtype._count >= 0 and (sizes,) not in ((1,), dtype._record.shape)):
            raise ArgumentError(f"{function}(): the provided 'shape' {sizes} and 'dtype' are incompatible: an object "
                                f"of type {describe(dtype)} has a fixed number of entries.")
        self.shape: tuple[int, ...] = ()
        if not number:
            require_backend(dtype, function)
        record = Record(SCALAR, FLOAT64, "array", ()) if number else dtype._record
        #: Whether there is a node with an element for each position, as tensors of drjit.scalar have it, too.
        self.type, self.vectorised = record.type, record.backend is not SCALAR or not number and dtype._depth < 0
        #: The flat array type of the package.
        self.flat: Any = _flat_type(record)
        if number:
            self.count, self.size = 1, 1
        elif dtype._depth < 0:
            self.shape = sizes if isinstance(sizes, tuple) else (sizes,)
            self.count, self.size = 1, math.prod(self.shape)
        else:
            self.count, self.size = array_size(dtype, sizes, function)
        if self.size > MASK32 + 1:
            raise ArgumentError(f"{function}(): 'shape' must have at most {MASK32 + 1} elements, which are told apart "
                                f"by 32 bits, found {self.size}.")

    def lane(self) -> Node:
        """The positions of elements."""
        several = self.vectorised and self.size > 1
        return counter(self.size, UINT32, self.dtype._where) if several else literal(UINT32, 0)

    def array(self, nodes: list[Node]) -> Any:
        """The result from its components."""
        if self.number:
            return number_of(nodes[0])
        if not self.size:
            nodes = [invalid(self.type)] * self.count
        if self.dtype._depth < 0:
            return make_tensor(self.dtype, nodes[0], self.shape)
        return wrap(self.dtype, nodes)

    def bound(self, function: str, name: str, value: Any) -> Any:
        """A bound: an int, or the node of an array, with its bits as an unsigned word."""
        number = plain_integer(value)
        if number is not None:
            return number
        if isinstance(value, ArrayBase) and value._kind in "iu" and value._type in (INT32, UINT32) and self.vectorised \
                and value._depth <= 0 and (self.flat._record.backend is not SCALAR or value._record.backend is SCALAR):
            if value._depth < 0 and self.dtype._depth < 0:  # along axes
                tensor: Any = value
                tensor = tensor + make_tensor(type(value), literal(value._type, 0, self.size), self.shape)
                if self.flat._record.backend is SCALAR:  # which has no flat arrays
                    return core.bitcast(tensor._n, UINT32)
                value = wrap(retype(self.flat, value._type), [tensor._n])
            return core.bitcast(coerce(retype(self.flat, value._type), value, function)[0], UINT32)
        raise TypeError(f"{function}(): '{name}' must be an int, or an array of 32-bit integers of the package of "
                        f"'dtype', found {describe(value)}.")

    def require(self, function: str, name: str, value: int) -> None:
        """Refuse an integer that the type cannot hold."""
        if not self.flat._low <= value <= self.flat._high:
            raise ArgumentError(f"{function}(): '{name}' must lie in the range of {self.dtype._name}, from "
                                f"{self.flat._low} to {self.flat._high}, found {value}.")


def _parameter(scalar: int, value: int) -> Node:
    """A number that is a parameter of kernels, whatever its value."""
    return literal(scalar, value, 1, core.SHAPE, tag=scalar)


def _integers(value: Any, scalar: int, name: str) -> Any:
    """An argument as an int in the range of an unsigned type, or as an array of it."""
    number = plain_integer(value)
    bits = 64 if scalar == UINT64 else 32
    if number is not None:
        if 0 <= number < 1 << bits:
            return number
        raise ArgumentError(f"drjit.rng(): '{name}' must be an int from 0 to 2^{bits} - 1, found {number}.")
    if isinstance(value, ArrayBase) and not value._depth and value._dynamic and value._kind == "u":
        if value._record.backend is SCALAR:
            raise ArgumentError(f"drjit.rng(): '{name}' must be an int in drjit.scalar, found {describe(value)}.")
        if not value._n.size:
            raise SizeError(f"drjit.rng(): '{name}' has no elements.")
        return wrap(retype(type(value), scalar), [cast(value._n, scalar)])
    raise TypeError(f"drjit.rng(): '{name}' must be an int or an array of unsigned integers, found {describe(value)}.")


def _uniform(words: list[Node], type_: int) -> Iterator[Node]:
    """Uniformly distributed numbers from four words, those of the last one first."""
    a, b, c, d = words
    if type_ == FLOAT64:
        yield OnNodes.float64(OnNodes.join(c, d))
        yield OnNodes.float64(OnNodes.join(a, b))
        return
    for word in (d, c, b, a):
        yield OnNodes.float32(word) if type_ == FLOAT32 else OnNodes.rounded(word, type_)


def _normal(words: list[Node], type_: int) -> Iterator[Node]:
    """Normally distributed numbers from four words, those of the last ones first."""
    if type_ == FLOAT64:
        second, first = _uniform(words, type_)
        yield from box_muller(first, second)[::-1]
        return
    d, c, b, a = _uniform(words, FLOAT32)
    for radius, angle in ((d, b), (c, a)):
        for value in box_muller(radius, angle)[::-1]:
            yield cast(value, type_)


def _require_numbers(function: str, **arguments: Any) -> None:
    """Raise unless arguments are numbers or arrays, before any element is drawn."""
    for name, value in arguments.items():
        if plain_scalar(value) is None and not isinstance(value, (ArrayBase, list, tuple)) and not is_ndarray(value):
            raise ArgumentError(f"{function}(): '{name}' must be a number or an array, found {describe(value)}.")


def _misfit(name: str, error: Exception, shape: tuple[int, ...], **arguments: Any) -> Exception:
    """What is wrong with arguments of a method that has failed for numbers of a shape."""
    if not isinstance(error, SizeError):
        own = str(error).startswith("drjit.random.")
        return error if own else type(error)(f"drjit.random.Generator.{name}(): {error}")
    found = " and ".join(f"'{key}' of the shape {value.shape}" for key, value in arguments.items()
                         if isinstance(value, ArrayBase) or is_ndarray(value))
    return SizeError(f"drjit.random.Generator.{name}(): {found} cannot be combined with numbers of the shape {shape}.")


def _largest_below(kind: Any, value: float) -> float:
    """The largest number of the element type of an array type that is less than a number."""
    nearest = literal(kind._type, value).payload
    if nearest < value:
        return nearest  # type: ignore[no-any-return]
    bits = {BFLOAT16: 8, FLOAT16: 11, FLOAT32: 24, FLOAT64: 53}[kind._type]
    lowest = {BFLOAT16: -133, FLOAT16: -24, FLOAT32: -149, FLOAT64: -1074}[kind._type]
    if not nearest:
        return -math.ldexp(1.0, lowest)
    fraction, exponent = math.frexp(nearest)
    spacing = max(exponent - bits - (fraction == 0.5), lowest)
    return nearest - math.ldexp(1.0, spacing)  # type: ignore[no-any-return]


def _jit_type(cls: Any, function: str) -> Any:
    """The flat type of unsigned integers in the package of a type whose arrays have a size of their own; in
    drjit.scalar that of tensors."""
    if cls._record.backend is SCALAR:
        if cls._depth < 0:
            return retype(cls, UINT32)
        raise ArgumentError(f"{function}(): arrays of the package drjit.scalar cannot be permuted, found {cls._name}.")
    require_backend(cls, function)
    return array_type(cls._record._replace(kind="array"), UINT32)
