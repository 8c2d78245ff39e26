"""Every row of the op table on every type that it accepts: the kernel, folding and NumPy agree bit for bit.

Each row runs as packets on all combinations of special values, as packets with one operand that is the same in every
element, and as a kernel of width 1.  The expected values are those of constant folding, which are compared with NumPy
where it defines the same thing.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    BAKED,
    BINARY,
    ELEMENTWISE,
    FUNCTIONS,
    OPS,
    TERNARY,
    TYPES,
    UNARY,
    IncompatibleSizes,
    JitFlag,
    Node,
    Op,
    UnsupportedType,
    cast,
    invalid,
    literal,
    ops,
    scoped_set_flag,
)
from drjit_core import TRACE as CORE
from drjit_core.llvm.texts import TEXTS
from drjit_core.ops import table
from drjit_core.ops.op import MANY
from tests.core.harness import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INTEGERS,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    name_of,
    number,
    values,
)
from tests.ops.samples import combinations, samples

ROWS = [pytest.param(op, info.type, id=f"{op.name}-{info.name}") for op in ELEMENTWISE for info in TYPES
        if info is not None and info.kind in op.accepts and info.name != "pointer"]
TRACE: dict[int, Callable[..., Node]] = {**UNARY, **BINARY, **TERNARY}


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Without the flag that lets a product with zero be zero."""
    with scoped_set_flag(JitFlag.FastMath, False):
        yield


def operand_types(op: Op, type_: int) -> list[int]:
    """Types of a row's operands: all are one type, but the first of a selection is a mask."""
    return [BOOL, type_, type_] if op.name == "select" else [type_] * op.arity


def operands_of(op: Op, type_: int) -> list[np.ndarray[Any, Any]]:
    """Combinations of special values for the operands of a row."""
    lists = [samples(t) for t in operand_types(op, type_)]
    if op.arity == 3 and op.name != "select":
        lists = [values[:: max(1, len(values) // 14)] for values in lists]
    return combinations(*lists)


def folded(op: Op, type_: int, operands: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """What constant folding makes of the operands, element by element."""
    types, trace = operand_types(op, type_), TRACE[op.kind]
    results = []
    for elements in zip(*(operand.tolist() for operand in operands), strict=True):
        node = trace(*(literal(t, element) for t, element in zip(types, elements, strict=True)))
        results.append(node.payload)
    return np.array(results, dtype_of(BOOL if op.result == "mask" else type_))


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_packets_agree_with_folding(op: Op, type_: int) -> None:
    operands = operands_of(op, type_)
    node = TRACE[op.kind](*(array(operand) for operand in operands))
    assert_same_bits(values(node), folded(op, type_, operands), *operands)


@pytest.mark.parametrize(("op", "type_"), [row for row in ROWS if row.values[0].arity > 1])  # type: ignore[attr-defined]
def test_packets_with_a_uniform_operand_agree_with_folding(op: Op, type_: int) -> None:
    operands = operands_of(op, type_)
    for position, special in enumerate(samples(t) for t in operand_types(op, type_)):
        for value in special[::4]:
            mixed = [np.full(operand.size, value) if i == position else operand for i, operand in enumerate(operands)]
            mixed = [operand[:67] for operand in mixed]
            nodes = [number(t, value) if i == position else array(mixed[i])
                     for i, t in enumerate(operand_types(op, type_))]
            assert_same_bits(values(TRACE[op.kind](*nodes)), folded(op, type_, mixed), *mixed, f"uniform {position}")


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_kernels_of_one_element_agree_with_folding(op: Op, type_: int) -> None:
    operands = [operand[:: max(1, operand.size // 60)] for operand in operands_of(op, type_)]
    types = operand_types(op, type_)
    results = [values(TRACE[op.kind](*map(number, types, elements)))[0] for elements in zip(*operands, strict=True)]
    expected = folded(op, type_, operands)
    assert_same_bits(np.array(results, expected.dtype), expected, *operands)


@pytest.mark.parametrize(("op", "type_"), [row for row in ROWS if row.values[0].arity > 1])  # type: ignore[attr-defined]
def test_literals_in_kernels_agree_with_folding(op: Op, type_: int) -> None:
    """Literals that are baked into the text, and literals that are parameters."""
    operands = [operand[:67] for operand in operands_of(op, type_)]
    types = operand_types(op, type_)
    for position in range(op.arity):
        for value in samples(types[position])[[0, -1]].tolist():
            for class_ in (BAKED, None):
                nodes = [literal(t, value, 1, class_) if i == position else array(operands[i])
                         for i, t in enumerate(types)]
                mixed = [np.full(67, value, o.dtype)[:o.size] if i == position else o for i, o in enumerate(operands)]
                actual = values(TRACE[op.kind](*nodes))
                assert_same_bits(actual, folded(op, type_, mixed), *mixed, f"literal {position}")


# --- NumPy -----------------------------------------------------------------------------------------------------------


def _truncating_divide(a: Any, b: Any) -> Any:
    """NumPy rounds quotients down, these rows round towards zero."""
    quotient, remainder = np.floor_divide(a, b), np.remainder(a, b)
    return quotient + ((remainder != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def _shift(function: Any) -> Any:
    return lambda a, b: function(a, b & a.dtype.type(a.dtype.itemsize * 8 - 1))  # NumPy does not wrap the count


def _rotate(a: Any, b: Any) -> Any:
    """Of Python's integers."""
    bits = a.dtype.itemsize * 8
    words = [int(word) << bits | int(word) for word in _bits_unsigned(a)]
    rotated = [word >> int(count) % bits & (1 << bits) - 1 for word, count in zip(words, b, strict=True)]
    return np.array(rotated, np.uint64).astype(f"u{a.dtype.itemsize}").view(a.dtype)


def _bits_unsigned(a: Any) -> Any:
    return a.view(f"u{a.dtype.itemsize}")


#: Without a counterpart: mul_hi, lzcnt, tzcnt, brev; fma of floats, which has a test of its own.
NUMPY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": _truncating_divide, "mod": np.fmod, "abs": np.abs, "sqrt": np.sqrt,
    "minimum": np.minimum, "maximum": np.maximum, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
    "round": np.rint, "eq": np.equal, "neq": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "select": np.where, "inv": np.invert, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "rotr": _rotate,
    "popcnt": lambda a: np.bitwise_count(_bits_unsigned(a)).astype(a.dtype)}  # NumPy counts bits of the absolute value
NUMPY |= {f"{name}_precise": NUMPY[name] for name in ("div", "sqrt")}


@pytest.mark.oracle
@pytest.mark.parametrize(("op", "type_"), [row for row in ROWS if row.values[0].name in NUMPY])  # type: ignore[attr-defined]
def test_folding_agrees_with_numpy(op: Op, type_: int) -> None:
    operands = operands_of(op, type_)
    if op.name in ("minimum", "maximum"):  # which zero is smaller is not defined in NumPy
        defined = ~((operands[0] == 0) & (operands[1] == 0))
        operands = [operand[defined] for operand in operands]
    with np.errstate(all="ignore"):
        expected = NUMPY[op.name](*operands)
    assert_same_bits(folded(op, type_, operands), expected, *operands)


def test_rows_are_attributes_and_messages_print_their_words() -> None:
    rows = [*OPS, *FUNCTIONS.values()]
    assert [row.name for row in rows if keyword.iskeyword(row.name) or not row.name.isidentifier()] == []
    word = array(np.ones(3, np.uint32))
    assert repr(ops.and_(word, array(np.ones(3, np.uint32)))).partition(" = ")[2].startswith("and(n")
    with pytest.raises(UnsupportedType, match=r"^or\(\): .* float32"):
        ops.or_(literal(FLOAT32, 2), literal(FLOAT32, 3))


def test_the_kinds_are_named_after_their_rows() -> None:
    structural = OPS[:table.FIRST_REGISTERED]
    assert [getattr(table, row.name.upper()) for row in structural] == [row.kind for row in structural]
    assert [row.kind for row in OPS] == list(range(len(OPS)))


@pytest.mark.parametrize("row", [*OPS, *FUNCTIONS.values()], ids=lambda row: row.name)
def test_the_columns_of_a_row_agree_with_each_other(row: Op) -> None:
    if row.kind >= 0:
        row = OPS[row.kind]  # somebody may have taken the kind since
        assert row.arity in (len(row.roles), MANY)
    memory = row.roles.count(table.MEMORY)
    assert table.MEMORY not in row.roles[memory:], "memory comes first"
    assert row.kind < 0 or table.MEMORY_OPERANDS[row.kind] == memory
    assert row.effect in ("none", "write", "region") and row.result in ("same", "mask", "pair", "own", "bits")
    assert row.size in ("operands", "memory", "one", "own")
    has_memory, wanted_by = table.MEMORY in row.roles, {table.MASK, table.REGION} & set(row.roles)
    assert has_memory or not row.needs_memory and row.size != "memory" and row.effect != "write"
    by_index = has_memory and table.INDEX in row.roles  # elsewhere all positions exist
    assert not (by_index and row.speculable), "an access to memory must not happen unless it is wanted"
    if row.effect != "none":
        assert not row.speculable and not row.numbered
    if row.needs_memory and by_index:
        assert wanted_by, "something must say for which elements an access is wanted"
    if row.barrier:
        assert row.effect == "write" or row.name in ("reduce", "step")  # which come after all elements


def test_every_row_has_a_text_for_the_types_that_it_accepts_and_no_other() -> None:
    wanted = {(row.name, info.name) for row in ELEMENTWISE for info in TYPES
              if info is not None and info.kind in row.accepts}
    found = {(OPS[place >> 4].name, TYPES[place & 15].name) for place, text in enumerate(TEXTS) if text is not None}
    assert found == wanted


def test_rows_without_numpy_counterpart_are_known() -> None:
    assert {op.name for op in ELEMENTWISE} - NUMPY.keys() == {"fma", "mul_hi", "lzcnt", "tzcnt", "brev"}


@pytest.mark.parametrize("type_", [info.type for info in TYPES if info is not None and info.kind in "iu"][:8])
def test_bit_counts_and_products_agree_with_integers_of_any_size(type_: int) -> None:
    info, rows = TYPES[type_], {op.name: op for op in ELEMENTWISE}
    word = samples(type_)
    text = [format(int(value) & (1 << info.bits) - 1, f"0{info.bits}b") for value in word]
    for name, expected in (("lzcnt", [len(t) - len(t.lstrip("0")) for t in text]),
                           ("tzcnt", [len(t) - len(t.rstrip("0")) for t in text])):
        assert folded(rows[name], type_, [word]).tolist() == expected
    reversed_bits = np.array([int(t[::-1], 2) for t in text], np.uint64).astype(f"u{info.size}").view(word.dtype)
    assert_same_bits(folded(rows["brev"], type_, [word]), reversed_bits)
    a, b = combinations(word, word)
    high = [math.floor(Fraction(int(x) * int(y), 1 << info.bits)) for x, y in zip(a, b, strict=True)]
    assert folded(rows["mul_hi"], type_, [a, b]).tolist() == high


# --- fused multiply-add ----------------------------------------------------------------------------------------------


def _nearest(exact: Fraction, type_: int) -> float:
    """The number of a type that is nearest to a fraction, ties to even, by trying its neighbours."""
    dtype = dtype_of(type_)
    limits = np.finfo(dtype)
    step = Fraction(float(limits.smallest_subnormal))
    magnitude = abs(exact)
    exponent = max(math.floor(math.log2(magnitude)) if magnitude else -10000, limits.minexp) - limits.nmant
    while magnitude >= Fraction(2) ** (exponent + limits.nmant + 1):
        exponent += 1
    step = max(step, Fraction(2) ** exponent)
    count = round(magnitude / step)  # rounds halves to even, and so does the significand
    result = count * step
    if result > Fraction(float(limits.max)):
        return math.copysign(math.inf, exact)
    return math.copysign(float(result), exact)


@pytest.mark.parametrize("type_", [FLOAT16, FLOAT32, FLOAT64], ids=lambda t: TYPES[t].name)
def test_fused_multiply_add_rounds_once(type_: int) -> None:
    """Random operands, many of them close to cancellation or to a tie, against exact fractions."""
    rng, dtype = np.random.default_rng(5), dtype_of(type_)
    bits = TYPES[type_].bits
    count = 1500
    mantissa = np.finfo(dtype).nmant + 1
    a, b = (((rng.integers(1 << mantissa - 1, 1 << mantissa, count)) * 2.0 ** (1 - mantissa)).astype(dtype)
            for _ in range(2))
    c = (-(a.astype(np.float64) * b)).astype(dtype)
    c[::3] = rng.choice([1.0, -1.0], c[::3].size) * 2.0 ** rng.integers(-bits // 2, 3, c[::3].size)
    c[1::3] = 2.0 ** rng.integers(-mantissa, 1, c[1::3].size)  # far below, far above: the sticky bits of a tie
    b[1::3] = 1 + 2.0 ** -rng.integers(1, mantissa - 1, c[1::3].size)
    zero = rng.integers(0, 4, count)  # which operand, if any: it is most of what matrices multiply
    for i, operand in enumerate((a, b, c)):
        operand[50:250][zero[50:250] == i] = 0
    row = next(op for op in ELEMENTWISE if op.name == "fma")
    expected = np.array([_nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), type_)
                         for x, y, z in zip(a, b, c, strict=True)], dtype)
    assert_same_bits(folded(row, type_, [a, b, c]), np.where(expected == 0, 0, expected).astype(dtype), a, b, c)
    assert_same_bits(values(TRACE[row.kind](array(a), array(b), array(c))), folded(row, type_, [a, b, c]), a, b, c)


@pytest.mark.parametrize("type_", INTEGERS, ids=name_of)
def test_upper_half_of_a_product_with_what_turns_out_to_be_one(type_: int) -> None:
    """LLVM finds out that the mask is set everywhere, and then that one operand is 1 and the other constant."""
    mask, word = array(np.arange(37) % 3 == 0), number(type_, 7)
    true = ops.ge(word, ops.select(mask, word, word))
    one = ops.select(ops.select(mask, mask, true), cast(true, type_), literal(type_, TYPES[type_].maximum))
    array(np.full(37, 5), type_)  # memory that the result gets: what is not stored is not 0
    assert values(ops.mul_hi(word, one)).tolist() == [0] * 37


# --- nothing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "type_"), [
    pytest.param(row.name, info.type, id=f"{row.name}-{info.name}") for row in FUNCTIONS.values() for info in TYPES
    if info is not None and info.kind in row.accepts and info.name != "pointer"])
def test_public_functions_of_empty_operands_are_empty(name: str, type_: int) -> None:
    row = FUNCTIONS[name]
    types = [BOOL if role == table.MASK else type_ for role in row.roles or (table.VALUE,) * row.arity]
    result = CORE[name](*map(invalid, types))
    for node in result if row.result == "pair" else [result]:
        assert node is invalid(BOOL if row.result == "mask" else type_)


@pytest.mark.parametrize("name", [row.name for row in FUNCTIONS.values() if row.arity == 2])
def test_empty_operands_go_with_one_element_and_no_others(name: str) -> None:
    type_ = FLOAT32 if "f" in FUNCTIONS[name].accepts else UINT32
    for other in (literal(type_, 1), array(np.ones(1), type_)):
        for operands in ((invalid(type_), other), (other, invalid(type_))):
            assert CORE[name](*operands) is invalid(BOOL if FUNCTIONS[name].result == "mask" else type_)
    for operands in ((invalid(type_), array(np.ones(3), type_)), (array(np.ones(3), type_), invalid(type_))):
        with pytest.raises(IncompatibleSizes):
            CORE[name](*operands)
