"""The error function, its complement, and its inverse.

``erf(x)`` is an odd polynomial for ``|x| < 1``.  The complement for positive a is ``exp(-a**2)`` times a function that
varies slowly, ``u Q(t)`` with ``u = 1 / (a + K)`` and ``t = 1 - 2 K u``, which maps all of ``a >= 1/2`` to an interval
(M. M. Shepherd and J. G. Laframboise, *Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf*, 1981; here
with another factor, and K = 4).  The rounding error of ``a**2`` is put back where it shows, in ``erfc``.

``erfinv(x)`` is ``x P(w)`` with ``w = -log(1 - x**2)``, and a polynomial in ``sqrt(w)`` towards the ends (M. Giles,
*Approximating the erfinv function*, GPU Computing Gems 2, 2010; the polynomials here were fitted afresh).

Largest errors in units of the last place of the exact result: ``erf`` 1.5, ``erfc`` 7.2, ``erfinv`` 4.5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..control.rare import rarely
from ..ir.node import Node
from ..ir.trace import ops
from ..types import FLOAT32, FLOAT64
from .exponential import FORMATS as EXPONENTIAL
from .exponential import exp, log_of_mantissa, split
from .polynomial import constant, elementary, estrin, with_sign_of

__all__ = ["erf", "erfc", "erfinv"]

_K = 4.0


class _Piece(NamedTuple):
    """A polynomial of erfinv: in ``sqrt(w) - center``, or, the first of them, in ``w - center``."""

    end: float  # up to this w
    center: float
    polynomial: tuple[float, ...]


class _Format(NamedTuple):
    """Constants of one precision."""

    vanishing: float  # beyond it erfc is zero
    erf: tuple[float, ...]  # erf(x) / x - 1 in x**2 on 0 <= x <= 1
    saturation: float  # beyond it erf is one
    erf_far: tuple[float, ...]  # Q between 1 and there, as precise as erf needs it
    erfc: tuple[float, ...]  # Q on a >= 1/2
    erfinv: tuple[_Piece, ...]  # erfinv(x) / x


_FORMATS = {
    FLOAT32: _Format(
        vanishing=10.1,
        # relative error 2^-29.39
        erf=(0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026,
             0.005187162198126316, -0.0007997853099368513, 7.806903886375949e-05),
        saturation=4.0,
        # error 2^-27.69, relative to erf
        erf_far=(1.094797968864441, -0.9935629963874817, 0.6755337715148926, -0.8299782276153564, -0.12899306416511536,
                 -0.5302482843399048),
        # relative error 2^-26.12
        erfc=(1.0959956645965576, -0.9765487313270569, 0.7732086777687073, -0.5408534407615662, 0.3308529853820801,
              -0.17401666939258575, 0.07636302709579468, -0.026340797543525696, 0.006221757736057043,
              -0.0002921489649452269, -0.0006918092258274555),
        erfinv=(
            # relative error 2^-23.19
            _Piece(5.0, 2.5, (1.5014094114303589, 0.24664072692394257, -0.004177707713097334, -0.001253707567229867,
                              0.00021860218839719892, -4.39678206021199e-06, -3.528859679136076e-06,
                              3.4372737900412176e-07, 2.8534941520774737e-08)),
            # relative error 2^-25.57
            _Piece(math.inf, 3.125, (2.958320140838623, 1.0037187337875366, 0.007049231790006161,
                                     -0.0053006792441010475, 0.0037802380975335836, -0.002523130737245083,
                                     0.0013140487717464566, -0.00031863097683526576, -0.00017620829748921096,
                                     0.00012616778258234262)))),
    FLOAT64: _Format(
        vanishing=27.3,
        # relative error 2^-56.32
        erf=(0.1283791670955126, -0.37612638903184165, 0.11283791670977776, -0.026866170650032863,
             0.005223977680657541, -0.0008548330730629408, 0.00012055492932997255, -1.4930278859340875e-05,
             1.6553844779891473e-06, -1.761448804483498e-07, 2.6285382959592273e-08, -8.036718940647277e-09,
             2.4449186070592527e-09, -3.649463772857053e-10),
        saturation=6.0,
        # error 2^-56.2, relative to erf
        erf_far=(1.0959956607469015, -0.9765487399462622, 0.7732085017943313, -0.5408559614480627, 0.330836959036846,
                 -0.1740796975085492, 0.07615396940275068, -0.026904815496657995, 0.005228092467786277,
                 -0.0012743969900285384, -0.001154842825435439, -6.79075450823863e-05),
        # relative error 2^-52.96
        erfc=(1.095995661000491, -0.976548729080882, 0.7732087022652363, -0.5408538313132372, 0.33085158787806224,
              -0.17401093723985725, 0.07638151490800012, -0.02637005334160789, 0.006112055673287288,
              -0.0002809588539628373, -0.00045505282275258726, 0.00017681275690781004, -3.634487691573275e-06,
              -1.8860681108611967e-05, 4.692262109787355e-06, 1.4237530199923202e-06, -8.418990530490631e-07,
              -7.492454352041208e-08, 1.1891418905388293e-07, 3.705466607718803e-10, -1.1941710920630997e-08,
              3.2395963101673607e-10),
        erfinv=(
            # relative error 2^-51.66
            _Piece(6.25, 3.125, (1.653654562683103, 0.24015818242558948, -0.006033670871430705, -0.0007407025341653,
                                 0.00018673420803639066, -1.3882523364909338e-05, -1.365469203883208e-06,
                                 4.234787804163279e-07, -2.9070366797282714e-08, -4.112635162729338e-09,
                                 1.0512107444310675e-09, -5.4153727336799066e-11, -1.2974673331367306e-11,
                                 2.6334273643881214e-12, -8.16080164559954e-14, -4.053487895412108e-14,
                                 6.648602874757855e-15, 2.0102835887164126e-17, -1.341579047673689e-16,
                                 1.1197150907435504e-17, 1.3222370491755218e-18, -1.6926570910208379e-19,
                                 -4.32389142497587e-21)),
            # relative error 2^-53.6
            _Piece(16.0, 3.25, (3.0838856104922208, 1.005258967694166, 0.005370914553575052, -0.0037512085082754883,
                                0.002491442096803422, -0.0016882755338916329, 0.0009532893673254738,
                                -0.0003550378354988822, 2.403122136344016e-05, 6.828728137813514e-05,
                                -4.7318786539464584e-05, 1.2464300772654002e-05, 2.9250906853321116e-06,
                                -3.983755557335371e-06, 1.4999082040292118e-06, -3.072488144305939e-08,
                                -2.7254502085316894e-07, 1.3429475188236396e-07, 1.1965788779956766e-09,
                                -1.6299089848171566e-08)),
            # relative error 2^-53.21
            _Piece(math.inf, 5.03, (4.880215284762403, 1.0102915692525531, -0.000157666914251397,
                                    -0.00020608540618836504, 7.310318855898343e-05, -1.8885509600019023e-05,
                                    4.323140261818356e-06, -9.401574440643983e-07, 2.1192142967551455e-07,
                                    -5.95540254771662e-08, 2.4428847574519877e-08, -1.2685161953033207e-08,
                                    6.558857162463346e-09, -2.942062689037144e-09, 1.140351777741525e-09,
                                    -4.0956185238592736e-10, 8.066711350379943e-11, 3.439768857688639e-11,
                                    -1.839105812155999e-11)))),
}


def _near(a: Node) -> Node:
    """``erf(a)`` for ``|a| < 1``."""
    return ops.fma(a, estrin(ops.mul(a, a), _FORMATS[a.type].erf), a)  # type: ignore[no-any-return]


def _far(magnitude: Node, limit: float, polynomial: tuple[float, ...], *, precise: bool) -> Node:
    """``erfc`` of an argument that is in the polynomial's interval, or beyond its end."""
    type_, end = magnitude.type, constant(magnitude.type, limit)
    x = ops.select(ops.lt(end, magnitude), end, magnitude)
    u = ops.div(constant(type_, 1), ops.add(x, constant(type_, _K)))
    t = ops.fma(u, constant(type_, -2 * _K), constant(type_, 1))
    scaled, square = ops.mul(u, estrin(t, polynomial)), ops.mul(x, x)
    if precise:
        rest = ops.fma(x, x, ops.neg(square))
        scaled = ops.fma(scaled, ops.neg(rest), scaled)
    return ops.mul(exp(ops.neg(square)), scaled)  # type: ignore[no-any-return]


@elementary
def erf(a: Node) -> Node:
    """Error function."""
    type_, magnitude = a.type, ops.abs(a)
    one = constant(type_, 1)
    f = _FORMATS[type_]
    far = ops.sub(one, _far(magnitude, f.saturation, f.erf_far, precise=False))
    return with_sign_of(ops.select(ops.lt(magnitude, one), _near(magnitude), far), a)


@elementary
def erfc(a: Node) -> Node:
    """Complement of the error function, ``1 - erf(a)`` without the cancellation."""
    type_, magnitude = a.type, ops.abs(a)
    f = _FORMATS[type_]
    tail = _far(magnitude, f.vanishing, f.erfc, precise=True)
    two, one = constant(type_, 2), constant(type_, 1)
    near = ops.and_(ops.gt(a, constant(type_, -1)), ops.lt(a, constant(type_, 0.5)))
    far = ops.select(ops.lt(a, constant(type_, 0)), ops.sub(two, tail), tail)
    return ops.select(near, ops.sub(one, _near(a)), far)  # type: ignore[no-any-return]


@elementary
def erfinv(a: Node) -> Node:
    """Inverse of the error function; infinite at -1 and 1, NaN beyond."""
    f, e, type_ = _FORMATS[a.type], EXPONENTIAL[a.type], a.type
    one, magnitude = constant(type_, 1), ops.abs(a)
    # (1 - a) (1 + a) keeps the digits of 1 - a where it is small
    exponent, m = split(ops.mul(ops.sub(one, magnitude), ops.add(one, magnitude)), e)
    log = log_of_mantissa(m, e, ops.mul(exponent, constant(type_, e.log_2[1])))
    w = ops.neg(ops.fma(exponent, constant(type_, e.log_2[0]), log))
    middle, *tails = f.erfinv
    value = estrin(ops.sub(w, constant(type_, middle.center)), middle.polynomial)

    def far(w: Node) -> list[Node]:
        root = ops.sqrt(w)
        found = root
        for piece in reversed(tails):
            tail = estrin(ops.sub(root, constant(type_, piece.center)), piece.polynomial)
            found = tail if piece is tails[-1] else ops.select(ops.lt(w, constant(type_, piece.end)), tail, found)
        return [found]

    (value,) = rarely("erfinv", ops.ge(w, constant(type_, middle.end)), [value], [w], far)
    result = ops.mul(value, a)
    # "not below": NaN stays NaN
    ends = ops.select(ops.eq(magnitude, one), with_sign_of(constant(type_, math.inf), a), constant(type_, math.nan))
    return ops.select(ops.lt(magnitude, one), result, ends)  # type: ignore[no-any-return]
