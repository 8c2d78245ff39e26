"""Complex numbers: arithmetic and functions against NumPy, branch cuts, special values, range, and messages."""

from __future__ import annotations

import cmath
import warnings

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Array2f, Bool, Complex2f, Complex2f64, Float, Float64, Int, Matrix2f, Quaternion4f

RNG = np.random.default_rng(0)
FUNCTIONS = {
    "abs": np.abs, "sqrt": np.sqrt, "rcp": lambda z: 1 / z, "rsqrt": lambda z: 1 / np.sqrt(z), "exp": np.exp,
    "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}
#: Functions of which the values for arguments up to 1e12 are of no interest.
PERIODIC = {"exp", "exp2", "sin", "cos", "tan", "sinh", "cosh", "tanh"}
TYPES = {Complex2f: np.complex64, Complex2f64: np.complex128}


def plane(dtype: type, reach: float) -> np.ndarray:
    """Points around zero, of all magnitudes, on the unit circle, and next to 1, -1, i and -i."""
    def sign() -> np.ndarray:
        return RNG.choice([-1, 1], 300)

    wide = 10 ** RNG.uniform(-reach, reach, 300) * sign() + 1j * 10 ** RNG.uniform(-reach, reach, 300) * sign()
    noise = RNG.normal(size=300) + 1j * RNG.normal(size=300)
    circle = np.exp(1j * RNG.uniform(-np.pi, np.pi, 300)) * (1 + 1e-4 * RNG.normal(size=300))
    return np.concatenate([wide, 2 * noise, circle, RNG.choice([1, -1, 1j, -1j], 300) + 1e-3 * noise]).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("cls", TYPES)
def test_functions_are_within_three_units_of_the_last_place(cls: type, name: str) -> None:
    z = plane(TYPES[cls], 1.8 if name in PERIODIC else 12)
    expected = FUNCTIONS[name](z.astype(np.clongdouble))
    found = np.asarray(getattr(dr, name)(cls(z)))
    assert found.dtype == (z.real.dtype if name == "abs" else z.dtype)
    error = np.abs(found - expected) / np.abs(expected) / np.finfo(z.dtype).eps
    # NumPy's own functions in extended precision lose some digits too; 4 covers both.
    assert error.max() < 4, z[np.argmax(error)]


EDGE = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 4.0, -4.0, np.inf, -np.inf]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("exp2", "log2", "rsqrt")])
@pytest.mark.parametrize("cls", TYPES)
def test_signed_zeros_infinities_and_branch_cuts_are_those_of_numpy(cls: type, name: str) -> None:
    z = np.empty(len(EDGE)**2, TYPES[cls])
    z.real, z.imag = np.repeat(EDGE, len(EDGE)), np.tile(EDGE, len(EDGE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = FUNCTIONS[name](z)
    found = np.asarray(getattr(dr, name)(cls(z)))
    # Of angles that are infinite, C99 leaves signs of the result open.
    angle = {"sin": z.real, "cos": z.real, "tan": z.real}.get(name, z.imag if name in PERIODIC else np.zeros(len(z)))
    if name in ("tan", "tanh"):  # the array API standard's zero has the sign of the angle, NumPy's that of sin(2 angle)
        zero, other = (expected.imag, z.real) if name == "tanh" else (expected.real, z.imag)
        zero[np.isinf(other)] = np.copysign(0, (z.imag if name == "tanh" else z.real)[np.isinf(other)])
    for part in (np.real, np.imag):
        a, b = part(found), part(expected)
        a, b = np.where(np.isinf(angle), abs(a), a), np.where(np.isinf(angle), abs(b), b)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= 8 * np.finfo(a.dtype).eps * np.abs(b)
        same = (a == b) & (np.signbit(a) == np.signbit(b))
        ok = near & (a != 0) | same | np.isnan(a) & np.isnan(b)
        assert ok.all(), [(z[k], found[k], expected[k]) for k in np.flatnonzero(~ok)]


def test_moduli_roots_and_quotients_neither_overflow_nor_underflow() -> None:
    for scale in (2.0**100, 2.0**-100, 2.0**-130):
        z = Complex2f(3 * scale, 4 * scale)
        assert abs(z).item() == 5 * scale
        root = complex(*(part.item() for part in dr.sqrt(z)))
        assert root == pytest.approx(cmath.sqrt(complex(3, 4) * scale), rel=1e-6)
        quotient = Complex2f(scale, scale) / z
        assert [part.item() for part in quotient] == pytest.approx([7 / 25, -1 / 25], rel=1e-6)
    assert abs(Complex2f(np.inf, np.nan)).item() == np.inf
    assert [part.item() for part in dr.asinh(Complex2f(3e38, 3e38))] == pytest.approx([89.636566, np.pi / 4], rel=1e-6)


def test_operators_are_those_of_python() -> None:
    a, b = 1 + 2j, 3 - 0.5j
    x, y = Complex2f64(a), Complex2f64(b)
    for found, expected in (
            (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (-x, -a), (x**2, a**2), (x**-2, a**-2),
            (x**0, 1), (x**y, a**b), (2**x, 2**a), (x**0.5, a**0.5), (x + 2, a + 2), (2 + x, 2 + a), (x - 2, a - 2),
            (2 - x, 2 - a), (x * 2, a * 2), (2 * x, 2 * a), (x / 2, a / 2), (2 / x, 2 / a), (x + b, a + b),
            (b - x, b - a), (b * x, a * b), (x / b, a / b), (b / x, b / a), (dr.power(x, b), a**b),
            (dr.fma(x, y, x), a * b + a), (dr.fma(x, 2, 1), a * 2 + 1), (dr.fma(2, x, b), a * 2 + b),
            (dr.conj(x), a.conjugate())):
        assert type(found) is Complex2f64
        assert complex(found.real.item(), found.imag.item()) == pytest.approx(expected, rel=1e-13)
    x *= y
    assert np.asarray(x) == pytest.approx(a * b)


def test_reals_and_flat_arrays_are_multiples_of_one() -> None:
    z = Complex2f(1, 2)
    assert repr(z * Float(1, 2)) == "[1+2j,\n 2+4j]"
    assert repr(Float(1, 2) + z) == "[2+2j,\n 3+2j]"
    assert repr(Int(2) * z) == "[2+4j]"
    assert type(z * Float64(2)) is Complex2f64
    assert repr(z * Array2f(1, 2)) == repr(Array2f(1, 2) * z) == "[-3+4j]"
    assert repr(dr.scalar.Complex2f(1 + 2j) + 3) == "4+2j"
    assert type(scalar.Complex2f(1, 2) * z) is Complex2f
    assert np.signbit(np.asarray(Complex2f(1, -0.0) + 1).imag).all()  # nothing is added to the imaginary part


@pytest.mark.parametrize(("value", "text"), [
    (lambda: Complex2f(4 + 2j), "[4+2j]"), (lambda: Complex2f(1, -2), "[1-2j]"), (lambda: Complex2f(3), "[3]"),
    (lambda: Complex2f(0, 1), "[1j]"), (lambda: Complex2f(0), "[0]"), (lambda: Complex2f(), "[]"),
    (lambda: Complex2f([1, 2], [3, 4]), "[1+3j,\n 2+4j]"), (lambda: Complex2f([1 + 2j, 3]), "[1+2j,\n 3]"),
    (lambda: Complex2f(float("nan"), float("inf")), "[nan+infj]"), (lambda: Complex2f(Float(1, 2)), "[1,\n 2]"),
    (lambda: Complex2f(Array2f(1, 2)), "[1+2j]"), (lambda: Array2f(Complex2f(1, 2)), "[[1, 2]]"),
    (lambda: Complex2f(np.array([1 + 2j, 3j])), "[1+2j,\n 3j]"), (lambda: scalar.Complex2f(1, 2), "1+2j"),
    (lambda: Complex2f(range(30), 1), "[1j,\n 1+1j,\n 2+1j,\n .. 24 skipped ..,\n 27+1j,\n 28+1j,\n 29+1j]"),
    (lambda: dr.ones(Complex2f, 2), "[1,\n 1]"), (lambda: dr.full(Complex2f, 2, 2), "[2,\n 2]"),
    (lambda: dr.identity(Complex2f, 2), "[1,\n 1]"),
])
def test_construction_and_representation(value: object, text: str) -> None:
    assert repr(value()) == text  # type: ignore[operator]


def test_parts() -> None:
    z = Complex2f([1, 2], [3, 4])
    assert repr(z.real) == repr(dr.real(z)) == "[1, 2]"
    assert repr(z.imag) == repr(dr.imag(z)) == "[3, 4]"
    z.real = 5
    z.imag += 1
    assert repr(z) == "[5+4j,\n 5+5j]"
    assert repr(z.array) == "[[5, 4],\n [5, 5]]" and type(z.array) is Array2f
    assert repr(dr.arg(Complex2f(0, [1, -1]))) == "[1.5708, -1.5708]"
    assert repr(dr.arg(Float(-1, 1, 0))) == "[3.14159, 0, 0]" and dr.arg(-1) == np.pi and dr.arg(1j) == np.pi / 2
    assert dr.real(1 + 2j) == 1 and dr.imag(1 + 2j) == 2 and dr.imag(3) == 0 and dr.conj(1j) == -1j
    assert repr(dr.imag(Float(1))) == "[0]" and repr(dr.conj(Float(1))) == "[1]"
    with pytest.raises(RuntimeError, match="does not have a 'x' component"):
        _ = z.x


def test_pairs_of_functions() -> None:
    z = Complex2f64(1, 2)
    for pair, names in ((dr.sincos(z), ("sin", "cos")), (dr.sincosh(z), ("sinh", "cosh"))):
        for value, name in zip(pair, names, strict=True):
            assert np.asarray(value) == pytest.approx(np.asarray(getattr(dr, name)(z)), rel=1e-14)


def test_powers_of_zero() -> None:
    assert repr(dr.power(Complex2f(0), 2.5)) == "[0]"
    assert repr(dr.power(Complex2f(0), 0)) == "[1]"
    assert repr(Complex2f(0) ** Complex2f(0)) == "[1]"


def test_equality_is_that_of_components() -> None:
    z = Complex2f(1, 2)
    assert repr(z == z) == "[[True, True]]" and repr(z == 1) == "[[True, False]]" and repr(z != 1) == "[[False, True]]"
    assert repr(z == 1 + 2j) == "[[True, True]]"
    assert repr(dr.select(Bool(True, False), z, 0)) == "[1+2j,\n 0]"
    assert repr(dr.select(Bool(True, False), z, 1j)) == "[1+2j,\n 1j]"


@pytest.mark.parametrize(("call", "message"), [
    (lambda z: z < z, "there is no order among complex numbers"),
    (lambda z: Float(1) < z, "there is no order among complex numbers"),
    (lambda z: Array2f(1) >= z, "there is no order among complex numbers"),
    (lambda z: Float(1) < Matrix2f(1), "there is no order among matrices"),
    (lambda z: z.yx, "does not have a 'y' component"),
    (lambda z: z // z, "__floordiv__.*not defined for complex numbers"),
    (lambda z: z % 2, "__mod__.*not defined for complex numbers"),
    (lambda z: z @ z, "no matrix product"),
    (dr.floor, r"drjit.floor\(<drjit.llvm.Complex2f>\): the function is not defined for complex numbers"),
    (dr.erf, "drjit.erf.*not defined for complex numbers"),
    (lambda z: dr.atan2(z, z), "drjit.atan2.*not defined for complex numbers"),
    (lambda z: dr.maximum(z, 1), "drjit.maximum.*not defined for complex numbers"),
    (lambda z: z + Matrix2f(1), "drjit.llvm.Complex2f of shape .* and drjit.llvm.Matrix2f of shape .*no rule"),
    (lambda z: z * Quaternion4f(1), "incompatible arguments"),
    (lambda z: z * "1", "unsupported operand of type 'str'"),
])
def test_what_is_not_defined_says_so(call: object, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError, ValueError), match=message):
        call(Complex2f(1, 2))  # type: ignore[operator]
