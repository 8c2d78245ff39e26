"""The generator Philox4x32."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

import drjit_core as core
from drjit_core import Node, cast, literal

from .._base.errors import CORE_ERRORS, translate
from .._base.types import FLOAT16, FLOAT32, FLOAT64, UINT32, UINT64, require_backend
from .._promotion.promote import wrap
from .arithmetic import MASK32, Generator, OnNodes, box_muller, ops, parameter, u64
from .tracing import PHILOX_MULTIPLIERS, WEYL, philox

__all__ = ["PhiloxBase", "philox_numbers"]

def philox_numbers(counters: list[int], key: tuple[int, int], rounds: int) -> list[int]:
    """What :func:`drjit._random.tracing.philox` computes, of numbers."""
    a, b, c, d = counters
    first, second = key
    for number in range(rounds):
        if number:
            first, second = first + WEYL[0] & MASK32, second + WEYL[1] & MASK32
        product_a, product_c = a * PHILOX_MULTIPLIERS[0], c * PHILOX_MULTIPLIERS[1]
        a, b, c, d = (product_c >> 32 ^ b ^ first, product_c & MASK32,
                      product_a >> 32 ^ d ^ second, product_a & MASK32)
    return [a, b, c, d]


class PhiloxBase(Generator):
    """Pseudorandom numbers by encrypting counters: Philox4x32. Each combination of counters is a stream of its own.

    The algorithm is that of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel Random Numbers: As Easy as
    1, 2, 3" (SC 2011). ``seed`` is the key: a 64-bit integer, or an array of such. ``counter_0`` to ``counter_2`` are
    the first three counters, 32-bit integers or arrays of such; the fourth one starts at 0 and counts the calls.
    ``iterations`` is the number of rounds: 7 pass the usual tests of randomness, 10 are the authors' choice to be safe.
    Another generator in the place of ``seed`` is copied. Raises a ``TypeError`` for other arguments.

    Drawing numbers evaluates nothing. Entries that are not set in ``mask`` (a mask or a bool) are drawn, too, but keep
    their counter. Generators are PyTrees.

    >>> from drjit.llvm import Philox4x32, UInt
    >>> rng = Philox4x32(seed=1, counter_0=dr.arange(UInt, 3))
    >>> rng.next_float32x4()
    [[0.579212, 0.293859, 0.632989, 0.517474],
     [0.271527, 0.0684855, 0.110625, 0.338736],
     [0.0814379, 0.283586, 0.960476, 0.984357]]
    """

    __slots__ = ("__weakref__", "_counter", "_iterations", "_seed")
    _fields = ("seed", "counter", "iterations")
    _dr_value = "_seed", "_counter"

    #: Array types of the package by scalar type and size.
    _arrays: ClassVar[dict[tuple[int, int], Any]]
    _vectorised: ClassVar[bool]

    _seed: Any
    _counter: Any
    _iterations: int

    def __init__(self, seed: Any, counter_0: Any = None, counter_1: Any = 0, counter_2: Any = 0,
                 iterations: int = 7) -> None:
        pair, four = self._arrays[UINT32, 2], self._arrays[UINT32, 4]
        require_backend(four, self._function("__init__"))
        if isinstance(seed, type(self)):
            self._seed, self._counter, self._iterations = pair(seed._seed), four(seed._counter), seed._iterations
            return
        if counter_0 is None:
            raise TypeError(f"{self._function('__init__')}(): missing argument 'counter_0'.")
        key = self._node(UINT64, seed, "seed")
        counters = [self._node(UINT32, value, f"counter_{k}")
                    for k, value in enumerate((counter_0, counter_1, counter_2))]
        self._require_sizes("__init__", 1, seed=key, counter_0=counters[0], counter_1=counters[1],
                            counter_2=counters[2])
        if key.kind == core.KIND["literal"] and key.size == 1:  # a parameter, so that all seeds run the same program
            words = [parameter(key.payload >> 32, 1), parameter(key.payload & MASK32, 2)]
        else:
            words = [cast(ops.shr(key, u64(32)), UINT32), cast(key, UINT32)]
        self._seed = wrap(pair, words)
        self._counter = wrap(four, [*counters, parameter(0, 3)])
        self.iterations = iterations

    def _node(self, scalar: int, value: Any, name: str) -> Node:
        found = self._argument(scalar, value, "__init__", name)
        return found._n if self._vectorised else literal(scalar, found)

    @property
    def seed(self) -> Any:
        """The key, as a copy: upper and lower half of the seed, unsigned 32-bit integers. Can be set.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=2**32 + 5, counter_0=0).seed
        [[1, 5]]
        """
        return self._arrays[UINT32, 2](self._seed)

    @seed.setter
    def seed(self, value: Any) -> None:
        argument = self._arrays[UINT32, 2](value)
        self._seed = argument

    @property
    def counter(self) -> Any:
        """The four counters, as a copy: unsigned 32-bit integers. Can be set.

        >>> from drjit.llvm import Philox4x32
        >>> rng = Philox4x32(seed=1, counter_0=7)
        >>> x = rng.next_uint32x4()
        >>> rng.counter
        [[7, 0, 0, 1]]
        """
        return self._arrays[UINT32, 4](self._counter)

    @counter.setter
    def counter(self, value: Any) -> None:
        argument = self._arrays[UINT32, 4](value)
        self._counter = argument

    @property
    def iterations(self) -> int:
        """The number of rounds, an ``int``. Can be set.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).iterations
        7
        """
        return self._iterations

    @iterations.setter
    def iterations(self, value: int) -> None:
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if not 0 <= number <= 64:
            raise TypeError(f"{self._function('iterations')}: the number of rounds must be an int from 0 to 64, found "
                            f"{value!r}.")
        self._iterations = number

    # --- traversal, see drjit._trees.pytree ---------------------------------------------------------------------------

    def __drjit_children__(self) -> dict[str, Any]:
        return {"seed": self._seed, "counter": self._counter}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Any:
        result = self._another()
        result._seed, result._counter, result._iterations = children["seed"], children["counter"], self._iterations
        return result

    # --- drawing numbers ---------------------------------------------------------------------------------------------

    def _next(self, mask: Any, name: str) -> list[Node]:
        """Four times 32 bits; counts the call where the mask is set."""
        if mask is not True:
            mask = self._mask(mask, name)
        counters = a, b, c, d = list(self._counter._nodes())
        high, low = self._seed._nodes()
        try:
            if self._vectorised:
                bits = philox(a, b, c, d, high, low, self._iterations)
            else:
                numbers = philox_numbers([node.payload for node in counters], (high.payload, low.payload),
                                          self._iterations)
                bits = [literal(UINT32, number) for number in numbers]
            last = ops.add(counters[3], literal(UINT32, 1))
            if mask is not True:
                if mask is not False:
                    core.broadcast_size(name, mask, *counters, high)
                last = ops.select(mask, last, counters[3]) if mask is not False else counters[3]
        except CORE_ERRORS as error:
            raise translate(error, self._function(name)) from None
        self._counter = wrap(self._arrays[UINT32, 4], [*counters[:3], last])
        return bits

    def _pairs(self, mask: Any, name: str) -> list[Node]:
        a, b, c, d = self._next(mask, name)
        return [OnNodes.join(a, b), OnNodes.join(c, d)]

    def _array(self, scalar: int, nodes: list[Node]) -> Any:
        return wrap(self._arrays[scalar, len(nodes)], nodes)

    def next_uint32x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed unsigned 32-bit integers.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_uint32x4()
        [[2487696479, 1262113321, 2718669080, 2222534109]]
        """
        return self._array(UINT32, self._next(mask, "next_uint32x4"))

    def next_uint64x2(self, mask: Any = True) -> Any:
        """Two uniformly distributed unsigned 64-bit integers.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_uint64x2()
        [[5420735440028646495, 9545711315118168344]]
        """
        return self._array(UINT64, self._pairs(mask, "next_uint64x2"))

    def next_float16x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed half precision numbers in [0, 1).

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float16x4()
        [[0.579102, 0.293945, 0.632812, 0.517578]]
        """
        return self._array(FLOAT16, list(map(OnNodes.float16, self._next(mask, "next_float16x4"))))

    def next_float32x4(self, mask: Any = True) -> Any:
        """Four uniformly distributed single precision numbers in [0, 1).

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float32x4()
        [[0.579212, 0.293859, 0.632989, 0.517474]]
        """
        return self._array(FLOAT32, list(map(OnNodes.float32, self._next(mask, "next_float32x4"))))

    def next_float64x2(self, mask: Any = True) -> Any:
        """Two uniformly distributed double precision numbers in [0, 1).

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float64x2()
        [[0.293859, 0.517474]]
        """
        return self._array(FLOAT64, list(map(OnNodes.float64, self._pairs(mask, "next_float64x2"))))

    def next_float16x4_normal(self, mask: Any = True) -> Any:
        """Four standard normal variates in half precision, by the transformation of Box and Muller.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float16x4_normal()
        [[-1.24414, -0.675781, -0.328369, 1.16211]]
        """
        return self._array(FLOAT16, [cast(node, FLOAT16) for node in self._normals(mask, "next_float16x4_normal")])

    def next_float32x4_normal(self, mask: Any = True) -> Any:
        """Four standard normal variates in single precision, by the transformation of Box and Muller.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float32x4_normal()
        [[-1.24411, -0.675956, -0.328488, 1.1617]]
        """
        return self._array(FLOAT32, self._normals(mask, "next_float32x4_normal"))

    def _normals(self, mask: Any, name: str) -> list[Node]:
        a, b, c, d = map(OnNodes.float32, self._next(mask, name))
        return [*box_muller(c, a), *box_muller(d, b)]

    def next_float64x2_normal(self, mask: Any = True) -> Any:
        """Two standard normal variates in double precision, by the transformation of Box and Muller.

        >>> from drjit.llvm import Philox4x32
        >>> Philox4x32(seed=1, counter_0=0).next_float64x2_normal()
        [[-0.829171, -0.0914045]]
        """
        first, second = map(OnNodes.float64, self._pairs(mask, "next_float64x2_normal"))
        return self._array(FLOAT64, list(box_muller(first, second)))


# What Python says of missing arguments names the public class.
PhiloxBase.__init__.__qualname__ = "Philox4x32.__init__"
