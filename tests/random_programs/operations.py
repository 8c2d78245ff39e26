"""The operations of random programs: a table of lines of source with places to fill in.

A place such as ``{0}`` or ``{number}`` is filled by the generator: ``{0}`` is the first operand, ``{like}`` a value
that it can be combined with, ``{same}`` one of the same type, ``{own}`` the name of its type; ``{r}`` is the name of
the result in lines with several statements.
"""

from __future__ import annotations

from typing import NamedTuple

from .programs import Info

__all__ = ["GROUPS", "ROWS", "SUMS", "Row", "accepts"]


class Row(NamedTuple):
    """An operation: source with places, and what its first operand may be.

    ``kinds``: Flat, Nested, Tensor, Matrix, Complex, Quaternion; ``scalars``: kinds of scalar types. ``across``:
    elements of different lanes are combined.
    """

    op: str
    text: str
    kinds: str
    scalars: str
    across: bool = False


_KINDS = {"flat": "F", "nested": "N", "tensor": "T", "matrix": "M", "complex": "C", "quaternion": "Q"}
_ALL, _PLAIN = "FNTMCQ", "FNT"


def accepts(row: Row, info: Info) -> bool:
    """Whether an operation is meant for a first operand of a type."""
    return _KINDS.get(info.kind, "") in row.kinds and info.letter in row.scalars


def _rows(names: str, text: str, kinds: str, scalars: str, across: bool = False, suffix: str = "") -> list[Row]:
    """A row for each of several operators or functions, whose name ``@@`` stands for."""
    return [Row(("dr." + name if name.isalnum() or "_" in name else name) + suffix, text.replace("@@", name), kinds,
                scalars, across) for name in names.split()]


_OPERATORS = [
    *_rows("+ - *", "{0} @@ {like}", _ALL, "iuf"), *_rows("+ - *", "{number} @@ {0}", _ALL, "iuf"),
    *_rows("/", "{0} @@ {like}", _ALL, "f"), *_rows("/", "{number} @@ {0}", _ALL, "f"),
    *_rows("// %", "{0} @@ {divisor}", _PLAIN, "iu"), *_rows("// %", "{0} @@ dr.maximum({same}, 1)", _PLAIN, "iu"),
    *_rows("& | ^", "{0} @@ {same}", _PLAIN, "iub"), *_rows("<< >>", "{0} @@ {shift}", _PLAIN, "iu"),
    Row("&mask", "{0} & {mask}", _PLAIN, "iuf"), Row("~", "~{0}", _PLAIN, "biu"),
    Row("-", "-{0}", _ALL, "if"), Row("+", "+{0}", _ALL, "iuf"), Row("abs", "abs({0})", _ALL, "iuf"),
    Row("**", "{0} ** {exponent}", "FNTCQ", "iuf"),
    *_rows("< <= > >=", "{0} @@ {like}", _PLAIN, "iuf"), *_rows("== !=", "{0} @@ {like}", _ALL, "biuf"),
    *_rows("+ - *", "{r} = T.{own}({0}); {r} @@= {like}", _ALL, "iuf", suffix="="),
    *_rows("/", "{r} = T.{own}({0}); {r} @@= {like}", _ALL, "f", suffix="="),
    *_rows("& | ^", "{r} = T.{own}({0}); {r} @@= {same}", _PLAIN, "biu", suffix="="),
    *_rows("<< >>", "{r} = T.{own}({0}); {r} @@= {shift}", _PLAIN, "iu", suffix="="),
]

_UNARY = [
    *_rows("ceil floor trunc round cot cbrt erf erfc erfinv lgamma isnan isinf isfinite rad2deg deg2rad safe_sqrt "
           "safe_asin safe_acos", "dr.@@({0})", _PLAIN, "f"),
    *_rows("rcp", "dr.@@({0})", _ALL, "f"), *_rows("sqrt rsqrt exp exp2 log log2", "dr.@@({0})", "FNTCQ", "f"),
    *_rows("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", "dr.@@({0})", "FNTC", "f"),
    *_rows("sincos sincosh", "dr.@@({0})[{bit}]", "FNTC", "f"),
    *_rows("abs sign", "dr.@@({0})", _PLAIN, "iuf"),
    *_rows("abs conj real imag squared_norm norm", "dr.@@({0})", "CQ", "f"),
    *_rows("popcnt lzcnt tzcnt brev", "dr.@@({0})", _PLAIN, "iu"),
    *_rows("log2i", "dr.@@(dr.maximum({0}, 1))", _PLAIN, "u"),
    *_rows("arg", "dr.@@({0})", "C", "f"), *_rows("normalize", "dr.@@({0})", "NQ", "f"),
    Row("reinterpret", "dr.reinterpret_array(T.{bits}, {0})", "FN", "iu"),
    Row("reinterpret", "dr.reinterpret_array(T.{bits}, dr.fmax({0}, -inf))", "FN", "f"),
]

# The sign of a NaN is nobody's business, and is kept out of functions that would show it.
_SEVERAL = [
    *_rows("copysign", "dr.@@({0}, dr.fmax({same}, -1))", _PLAIN, "if"),
    *_rows("minimum maximum mulsign fmin fmax step", "dr.@@({0}, {like})", _PLAIN, "iuf"),
    *_rows("atan2 hypot power", "dr.@@({0}, {like})", _PLAIN, "f"), *_rows("power", "dr.@@({0}, {like})", "CQ", "f"),
    *_rows("mul_hi mul_wide", "dr.@@({0}, {same})", _PLAIN, "iu"),
    *_rows("fma", "dr.@@({0}, {like}, {like})", _ALL, "iuf"), *_rows("lerp", "dr.@@({0}, {like}, {like})", _PLAIN, "f"),
    *_rows("clip", "dr.@@({0}, {number}, {number})", _PLAIN, "iuf"),
    *_rows("clip", "dr.@@({0}, {like}, {like})", _PLAIN, "iuf"),
    *_rows("select", "dr.@@({mask}, {0}, {like})", _ALL, "biuf"),
    *_rows("select", "dr.@@({0} < {like}, {0}, {like})", _PLAIN, "iuf"),
    *_rows("select", "dr.@@({0}, {any}, {any})", _PLAIN, "b"),
]

_STRUCTURE = [
    Row("convert", "T.{other}({0})", _ALL, "biuf"), Row("convert", "T.{cast}({0})", "FNMCQ", "biuf"),
    Row("convert", "T.{cast}({0})", "T", "biuf", True),
    Row("construct", "T.{own}({number})", _ALL, "iuf"), Row("construct", "T.{own}({leaf})", "NMCQ", "biuf"),
    Row("entry", "{0}[{k}]", "NMCQ", "biuf"), Row("entry", "{0}[{k}]", "T", "biuf"),
    Row("slice", "{0}[{slice}]", "NMT", "biuf"), Row("swizzle", "{0}.{swizzle}", "N", "biuf"),
    Row("component", "{0}.{component}", "NCQ", "biuf"),
    Row("assign", "{r} = T.{own}({0}); {r}[{k}] = {entry}", "NMCQ", "biuf"),
    Row("assign", "{r} = T.{own}({0}); {r}.{component} = {entry}", "NCQ", "biuf"),
    Row("assign", "{r} = T.{own}({0}); {r}.{component} += {number}", "NCQ", "iuf", True),
    Row("assign", "{r} = T.{own}({0}); {r}[{mask}] = {number}", _PLAIN, "iuf"),
    Row("array", "{0}.array", "NMCQ", "biuf"), Row("array", "{0}.array", "T", "biuf", True),
    Row("zeros_like", "dr.zeros_like({0})", _ALL, "biuf"), Row("ones_like", "dr.ones_like({0})", _ALL, "iuf"),
    Row("copy", "dr.copy({0})", _ALL, "biuf"),
]

_HORIZONTAL = [
    *_rows("sum prod min max mean", "dr.@@({0})", "N", "iuf"),
    *_rows("sum prod min max", "dr.@@({0}, axis={axis})", "NT", "iuf"),
    *_rows("sum prod min max mean", "dr.@@({0}{axes})", _PLAIN, "iuf", True),
    *_rows("all any none count", "dr.@@({0})", "N", "b"),
    *_rows("all any none count", "dr.@@({0}, axis={axis})", "NT", "b"),
    *_rows("all any none count", "dr.@@({0}{axes})", _PLAIN, "b", True),
    *_rows("dot abs_dot", "dr.@@({0}, {same})", "NQ", "f"), *_rows("squared_norm norm", "dr.@@({0})", "NQ", "f"),
    *_rows("dot", "dr.@@({0}, {same})", "N", "iu"), *_rows("dot", "dr.@@({0}, {same})", "F", "iuf", True),
    *_rows("cross", "dr.@@({0}, {same})", "N", "iuf"), *_rows("unit_angle", "dr.@@({0}, {same})", "N", "f"),
    Row("@", "{0} @ {same}", "N", "iuf"),
    Row("gather", "dr.gather(T.{own}, {0}, T.UInt({indices}))", "FN", "biuf", True),
    Row("gather", "dr.gather(T.{nested}, {0}, T.UInt({packets}))", "F", "biuf", True),
    Row("take", "dr.take({0}, {k}, axis=0)", "T", "biuf"),
]

# Rotations by quaternions and matrices that are none differ between implementations.
_ROTATION = "dr.quat_to_matrix(T.{own}, dr.rotate(T.{rotation}, T.{vector3}(0.6, 0, 0.8), {0}[0][0]))"

_MATRIX = [
    *_rows("det trace diag transpose inverse frob", "dr.@@({0})", "M", "f"),
    *_rows("transpose", "{0}.T", "M", "f"), *_rows("matmul", "dr.@@({0}, {same})", "M", "f"),
    *_rows("diag", "dr.@@({0})", "N", "f"),
    *(Row("@", text, "M", "f") for text in ("{0} @ {0}", "{0} @ {like}", "{0} @ {vector}", "{vector} @ {0}")),
    Row("*", "{0} * {vector}", "M", "f"),
    *_rows("quat_to_matrix", "dr.@@(T.{matrix}, dr.normalize({0}))", "Q", "f"),
    *_rows("quat_to_euler", "dr.@@(dr.normalize({0}))", "Q", "f"),
    *_rows("quat_apply", "dr.@@(dr.normalize({0}), T.{vector3}(1, 2, 3))", "Q", "f"),
    *_rows("slerp", "dr.@@(dr.normalize({0}), dr.normalize({same}), 0.25)", "Q", "f"),
    *_rows("matrix_to_quat", f"dr.@@({_ROTATION})", "M", "f", True),
]

_TENSOR = [
    Row("reshape", "dr.reshape({0}, {shape})", "T", "biuf"), Row("ravel", "dr.ravel({0})", "T", "biuf", True),
    Row("moveaxis", "dr.moveaxis({0}, 0, -1)", "T", "biuf"),
    Row("swapaxes", "dr.swapaxes({0}, 0, {axis})", "T", "biuf"),
    Row("squeeze", "dr.squeeze({0})", "T", "biuf"), Row("expand_dims", "dr.expand_dims({0}, 0)", "T", "biuf"),
    Row("concat", "dr.concat([{0}, {0}], axis={axis})", "T", "biuf"), Row("stack", "dr.stack([{0}, {0}])", "T", "biuf"),
    Row("slice", "{0}[..., None]", "T", "biuf"), Row("slice", "{0}[::-1]", "T", "biuf"),
    Row("@", "{0} @ dr.moveaxis({0}, 0, -1)", "T", "f"),
]

#: Groups of operations with the weights that they are drawn by.
GROUPS: list[tuple[int, list[Row]]] = [
    (30, _OPERATORS), (25, _UNARY), (12, _SEVERAL), (15, _STRUCTURE), (9, _HORIZONTAL), (9, _MATRIX), (4, _TENSOR)]
ROWS = [row for _, rows in GROUPS for row in rows]
#: Reductions that depend on the order of floating-point numbers.
SUMS = ("dr.sum", "dr.prod", "dr.mean", "dr.dot")
