"""The op table, the single source of what an operation is: floor 0.

One row per operation.  From it come the trace function, constant folding, the LLVM text, the ``dr.*`` function and the
tests of the operation on every type.  **Adding an elementwise operation is adding a row**; what can be written in terms
of rows (``exp``, ``sin`` …) is a row without a meaning and texts of its own: these come from its expansion in
:mod:`drjit_core.math`.

Rows with a ``kind`` below :data:`FIRST_ELEMENTWISE` have structure (memory, reductions, regions); the emitter has a
function for each, and they are described in :mod:`drjit_core.ir.node`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from . import llvm_text as text
from . import semantics as meaning

__all__ = ["ELEMENTWISE", "EXPANDED", "KIND", "OPS", "Op"]

LlvmText = Callable[..., str]


class Op(NamedTuple):
    """A row: everything the compiler knows about one operation."""

    name: str  # of the trace function; also what messages and logs say
    arity: int
    accepts: str  # type classes of the operands (mask aside): b(ool), i(nt), u(nsigned), f(loat)
    fold: Callable[..., Any] | None  # meaning on one element, see drjit_core.ops.semantics
    llvm: dict[str, LlvmText]  # text by type class of the last operand; a key may name several classes
    doc: str
    result: str = "same"  # "same" as the last operand, or "mask"
    typed: bool = False  # fold takes the TypeInfo as its last argument
    commutative: bool = False
    cost: int = 1  # of a packet, relative to an addition: weighs recomputation against memory
    kind: int = -1  # position in the table


def _infix(instruction: str) -> LlvmText:
    return lambda d, a, b, t: f"{d} = {instruction} {t} {a}, {b}"


def _call1(name: str) -> LlvmText:
    return lambda d, a, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a})"


def _call2(name: str) -> LlvmText:
    return lambda d, a, b, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a}, {t} {b})"


def _flagged(name: str) -> LlvmText:
    """Intrinsics whose second argument says that some input may be undefined; here none is."""
    return lambda d, a, t: f"{d} = call {t} @llvm.{name}.{t.suffix}({t} {a}, i1 false)"


def _compare(name: str, symbol: Callable[[Any, Any], Any], signed: str, unsigned: str, floating: str, doc: str,
             commutative: bool = False) -> Op:
    llvm = {"i": _infix(f"icmp {signed}"), "bu": _infix(f"icmp {unsigned}"), "f": _infix(f"fcmp {floating}")}
    return Op(name, 2, "biuf", symbol, llvm, doc, result="mask", commutative=commutative)


def _structural(name: str, doc: str, arity: int = 0, cost: int = 0) -> Op:
    return Op(name, arity, "biuf", None, {}, doc, cost=cost)


def _expanded(name: str, cost: int, doc: str, arity: int = 1) -> Op:
    return Op(name, arity, "f", None, {}, doc, cost=cost)


_ROWS: list[Op] = [
    # --- structure: leaves -------------------------------------------------------------------------------------------
    _structural("invalid", "The array of size zero."),
    _structural("literal", "The same constant in every element; a kernel parameter unless baked in."),
    _structural("undefined", "Memory that has not been written yet."),
    _structural("evaluated", "The contents of a buffer.", cost=6),
    _structural("counter", "The position of the element: 0, 1, 2 …"),
    _structural("phi", "The value of a loop variable at the start of an iteration."),
    # --- structure: memory, reductions, regions ----------------------------------------------------------------------
    _structural("gather", "Masked indirect read: source, index, mask.", 3, cost=30),
    _structural("scatter", "A new version of a target after a masked indirect write: target, value, index, mask.", 4),
    _structural("reduce", "Reduction of all elements to one.", 1),
    _structural("opaque", "The same values, in memory of their own.", 1),
    _structural("cast", "Conversion to another type.", 1, cost=1),
    _structural("bitcast", "Reinterpretation of the bits as another type of the same size.", 1),
    _structural("loop", "A region that is repeated while its condition holds in some element."),
    _structural("loop_result", "A loop variable after the loop.", 1),
    _structural("branch", "Part of an expansion that few elements need."),
    _structural("branch_result", "A value after a branch.", 1),
    # --- arithmetic --------------------------------------------------------------------------------------------------
    Op("neg", 1, "iuf", operator.neg, {"iu": lambda d, a, t: f"{d} = sub {t} {t.splat(0)}, {a}",
                                       "f": lambda d, a, t: f"{d} = fneg {t} {a}"}, "Negation."),
    Op("add", 2, "iuf", operator.add, {"iu": _infix("add"), "f": _infix("fadd")}, "Sum.", commutative=True),
    Op("sub", 2, "iuf", operator.sub, {"iu": _infix("sub"), "f": _infix("fsub")}, "Difference."),
    Op("mul", 2, "iuf", operator.mul, {"iu": _infix("mul"), "f": _infix("fmul")}, "Product.", commutative=True),
    Op("div", 2, "f", meaning.divide, {"f": _infix("fdiv")}, "Quotient, correctly rounded.", cost=6),
    Op("floordiv", 2, "iu", meaning.integer_divide, {"iu": text.integer_divide},
       "Integer quotient, rounded towards zero; zero for a zero divisor.", cost=12),
    Op("mod", 2, "iu", meaning.integer_modulo, {"iu": text.integer_modulo},
       "Remainder with the sign of the dividend; zero for a zero divisor.", cost=14),
    Op("fma", 3, "iuf", meaning.fused_multiply_add,
       {"iu": lambda d, a, b, c, t: f"{d}_p = mul {t} {a}, {b}\n{d} = add {t} {d}_p, {c}",
        "f": text.fused_multiply_add},
       "a * b + c with one rounding.", typed=True),
    Op("mul_hi", 2, "iu", meaning.multiply_high, {"iu": text.multiply_high},
       "Upper half of the double-width product.", typed=True, commutative=True, cost=4),
    Op("abs", 1, "if", abs, {"i": _flagged("abs"), "f": _call1("fabs")}, "Absolute value."),
    Op("sqrt", 1, "f", meaning.square_root, {"f": _call1("sqrt")}, "Square root, correctly rounded.", cost=8),
    Op("minimum", 2, "iuf", meaning.minimum, {"i": _call2("smin"), "u": _call2("umin"), "f": _call2("minimum")},
       "Smaller of two values; NaN if either is.", commutative=True, cost=2),
    Op("maximum", 2, "iuf", meaning.maximum, {"i": _call2("smax"), "u": _call2("umax"), "f": _call2("maximum")},
       "Larger of two values; NaN if either is.", commutative=True, cost=2),
    Op("ceil", 1, "f", meaning.ceil, {"f": _call1("ceil")}, "Smallest integer that is not below."),
    Op("floor", 1, "f", meaning.floor, {"f": _call1("floor")}, "Largest integer that is not above."),
    Op("trunc", 1, "f", meaning.trunc, {"f": _call1("trunc")}, "Integer part."),
    Op("round", 1, "f", meaning.round_to_even, {"f": _call1("rint")}, "Nearest integer; halves to the even one."),
    # --- comparisons and selection -----------------------------------------------------------------------------------
    _compare("eq", operator.eq, "eq", "eq", "oeq", "Equality.", commutative=True),
    _compare("neq", operator.ne, "ne", "ne", "une", "Inequality.", commutative=True),
    _compare("lt", operator.lt, "slt", "ult", "olt", "Less than; a mask that is not set is less than one that is."),
    _compare("le", operator.le, "sle", "ule", "ole", "Less or equal."),
    _compare("gt", operator.gt, "sgt", "ugt", "ogt", "Greater than."),
    _compare("ge", operator.ge, "sge", "uge", "oge", "Greater or equal."),
    Op("select", 3, "biuf", meaning.select,
       {"biuf": lambda d, m, a, b, t: f"{d} = select {t.mask} {m}, {t} {a}, {t} {b}"},
       "The second operand where the first is set, else the third."),
    # --- bits --------------------------------------------------------------------------------------------------------
    Op("inv", 1, "biu", lambda a: not a if isinstance(a, bool) else ~a,
       {"biu": lambda d, a, t: f"{d} = xor {t} {a}, {t.splat(-1 if t.info.kind != 'b' else 'true')}"},
       "Bitwise complement."),
    Op("and", 2, "biu", operator.and_, {"biu": _infix("and")}, "Bitwise and.", commutative=True),
    Op("or", 2, "biu", operator.or_, {"biu": _infix("or")}, "Bitwise or.", commutative=True),
    Op("xor", 2, "biu", operator.xor, {"biu": _infix("xor")}, "Bitwise exclusive or.", commutative=True),
    Op("shl", 2, "iu", meaning.shift_left, {"iu": text.shift_left}, "Left shift.", typed=True),
    Op("shr", 2, "iu", meaning.shift_right, {"iu": text.shift_right},
       "Right shift, arithmetic for signed types.", typed=True),
    Op("popcnt", 1, "iu", meaning.population_count, {"iu": _call1("ctpop")}, "Number of one bits.", typed=True, cost=2),
    Op("lzcnt", 1, "iu", meaning.leading_zeros, {"iu": _flagged("ctlz")},
       "Number of leading zero bits.", typed=True, cost=2),
    Op("tzcnt", 1, "iu", meaning.trailing_zeros, {"iu": _flagged("cttz")},
       "Number of trailing zero bits.", typed=True, cost=2),
    Op("brev", 1, "iu", meaning.reverse_bits, {"iu": _call1("bitreverse")},
       "Bits in reverse order.", typed=True, cost=4),
    # --- functions with an expansion in terms of the rows above (drjit_core.math), which text is made from -----------
    _expanded("sin", 23, "Sine of an angle in radians."),
    _expanded("cos", 23, "Cosine of an angle in radians."),
    _expanded("tan", 27, "Tangent of an angle in radians."),
    _expanded("cot", 27, "Cotangent of an angle in radians."),
    _expanded("sin_precise", 36, "Sine of an angle in radians, without FastMath."),
    _expanded("cos_precise", 36, "Cosine of an angle in radians, without FastMath."),
    _expanded("tan_precise", 40, "Tangent of an angle in radians, without FastMath."),
    _expanded("cot_precise", 40, "Cotangent of an angle in radians, without FastMath."),
    _expanded("asin", 31, "Arcsine."),
    _expanded("acos", 31, "Arccosine."),
    _expanded("atan", 27, "Arctangent."),
    _expanded("atan2", 37, "Angle of the point with the second operand as abscissa, the first as ordinate.", 2),
    _expanded("exp", 21, "Power of e."),
    _expanded("exp2", 20, "Power of two."),
    _expanded("log", 21, "Natural logarithm."),
    _expanded("log2", 21, "Logarithm to the base 2."),
    _expanded("power", 48, "Power with a real exponent.", 2),
    _expanded("sinh", 31, "Hyperbolic sine."),
    _expanded("cosh", 29, "Hyperbolic cosine."),
    _expanded("tanh", 27, "Hyperbolic tangent."),
    _expanded("asinh", 69, "Inverse hyperbolic sine."),
    _expanded("acosh", 51, "Inverse hyperbolic cosine."),
    _expanded("atanh", 54, "Inverse hyperbolic tangent."),
    _expanded("erf", 56, "Error function."),
    _expanded("erfc", 67, "Complement of the error function."),
    _expanded("erfinv", 46, "Inverse of the error function."),
    _expanded("lgamma", 98, "Logarithm of the absolute value of the gamma function."),
    _expanded("cbrt", 39, "Cube root."),
    _expanded("hypot", 34, "Length of a vector of two components.", 2),
]

#: The table: rows by kind.
OPS: list[Op] = [row._replace(kind=kind) for kind, row in enumerate(_ROWS)]
#: Kinds by name.
KIND: dict[str, int] = {op.name: op.kind for op in OPS}
INVALID, LITERAL, UNDEFINED, EVALUATED, COUNTER, PHI = range(6)
GATHER, SCATTER, REDUCE, OPAQUE, CAST, BITCAST, LOOP, LOOP_RESULT, BRANCH, BRANCH_RESULT = range(6, 16)
FIRST_ELEMENTWISE = 16
FIRST_EXPANDED = KIND["sin"]
#: Rows that compute each element of the result from the same element of the operands.
ELEMENTWISE: list[Op] = OPS[FIRST_ELEMENTWISE:FIRST_EXPANDED]
#: Rows that do so by an expansion in terms of the others.
EXPANDED: list[Op] = OPS[FIRST_EXPANDED:]
assert ELEMENTWISE[0].name == "neg" and OPS[BRANCH_RESULT].name == "branch_result"


def llvm_by_class(op: Op) -> dict[str, LlvmText]:
    """The LLVM text of a row by single type class."""
    return {kind: function for kinds, function in op.llvm.items() for kind in kinds}
