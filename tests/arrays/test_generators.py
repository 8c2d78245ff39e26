"""``PCG32`` and ``Philox4x32``: published vectors, recorded values, masks, jumps, and what they refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import Array2u, Array3f, Array4u, Bool, Float, Float64, Int, Int64, UInt, UInt64
from drjit.llvm import ad as diff

PACKAGES = [llvm, diff, scalar]
package = pytest.mark.parametrize("module", PACKAGES, ids=["llvm", "llvm.ad", "scalar"])
DRAWS = ["uint32", "uint64", "float16", "float32", "float64", "float16_normal", "float32_normal", "float64_normal"]


def numbers(value: Any) -> list[Any]:
    """The elements of a flat array, or a number."""
    return list(value) if isinstance(value, dr.ArrayBase) else [value]


# --- PCG32 -----------------------------------------------------------------------------------------------------------


@package
def test_published_vector_of_pcg32(module) -> None:
    """The output of ``pcg32-demo`` of the reference implementation (pcg-random.org), seeded with 42 and 54."""
    rng = module.PCG32(1, 42, 54)
    found = [numbers(rng.next_uint32())[0] for _ in range(6)]
    assert found == [0xA15C02B7, 0x7B47F409, 0xBA1D3330, 0x83D2F293, 0xBFA4784B, 0xCBED606E]


RECORDED = {
    "uint32": [465482994, 2293120725, 29396997],
    "uint64": [16730461300013839602, 6009457872796008149, 8841362424213835781],
    "float16": [0.1083984375, 0.53369140625, 0.00684356689453125],
    "float32": [0.10837864875793457, 0.5339087247848511, 0.006844520568847656],
    "float64": [0.10837870510295033, 0.5339087743777782, 0.0068445217330008745],
    "float32_normal": [-1.2351967096328735, 0.08509916067123413, -2.4653210639953613],
    "float64_normal": [-1.235196513088357, 0.08509929039577252, -2.4653210576437394],
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_values_of_pcg32(name: str) -> None:
    """Values of another implementation with this interface; normal variates depend on how erfinv is computed."""
    for module in (llvm, diff):
        found = numbers(getattr(module.PCG32(3), f"next_{name}")())
        assert found == RECORDED[name] if "normal" not in name else np.allclose(found, RECORDED[name], 1e-6, 1e-6)
    alone = getattr(scalar.PCG32(), f"next_{name}")()
    assert alone == pytest.approx(RECORDED[name][0], rel=1e-6 if "normal" in name else 0)


def test_types_and_seeds_of_pcg32() -> None:
    rng = llvm.PCG32(3)
    assert (type(rng.state), type(rng.inc)) == (UInt64, UInt64)
    assert numbers(rng.state) == [16869222179800739361, 17514886777631566762, 18160551375462394163]
    assert numbers(rng.inc) == [13005396917011789751, 13005396917011789753, 13005396917011789755]
    assert numbers(llvm.PCG32(1, 5, 7).state) == [16602260034678550419]
    assert numbers(llvm.PCG32(2, UInt64(5), UInt64(7, 8)).state) == [16602260034678550419, 11529453006493412216]
    rng.seed(1, 2)
    assert (numbers(rng.state), numbers(rng.inc)) == ([1291329195661654803], [5])
    rng.seed()
    assert numbers(rng.state) == numbers(llvm.PCG32().state)
    rng.state = 5
    assert type(rng.state) is UInt64
    assert scalar.PCG32(3).state == scalar.PCG32().state == 16869222179800739361
    assert {"state": UInt64, "inc": UInt64} == llvm.PCG32.DRJIT_STRUCT
    assert {"state": int, "inc": int} == scalar.PCG32.DRJIT_STRUCT
    assert (llvm.PCG32.__module__, diff.PCG32.__module__) == ("drjit.llvm", "drjit.llvm.ad")
    assert llvm.PCG32 is not diff.PCG32
    assert type(diff.PCG32().next_float32()) is diff.Float


@package
@pytest.mark.parametrize("name", DRAWS)
def test_going_back(module, name: str) -> None:
    rng = module.PCG32(20)
    drawn = [numbers(getattr(rng, f"next_{name}")()) for _ in range(3)]
    again = [numbers(getattr(rng, f"prev_{name}")()) for _ in range(3)]
    assert drawn == again[::-1]
    assert numbers(rng.state) == numbers(module.PCG32(20).state)


@package
def test_the_type_selects_the_precision(module) -> None:
    for dtype, name in ((module.Float16, "16"), (module.Float, "32"), (module.Float64, "64")):
        if module is scalar:
            name = "64"  # all three are float
        for kind in ("", "_normal"):
            a, b = module.PCG32(5), module.PCG32(5)
            found, expected = getattr(a, f"next_float{kind}")(dtype), getattr(b, f"next_float{name}{kind}")()
            assert type(found) is type(expected)
            assert numbers(found) == numbers(expected)
            assert numbers(getattr(a, f"prev_float{kind}")(dtype)) == numbers(expected)
    assert type(llvm.PCG32(2).next_float(llvm.Array3f64)) is Float64
    assert type(llvm.PCG32(2).next_float(llvm.TensorXf)) is Float
    assert type(llvm.PCG32(2).next_float(scalar.Array2f)) is Float


@pytest.mark.parametrize("name", DRAWS)
def test_masks_hold_the_state_back(name: str) -> None:
    mask = Bool(True, False, True)
    for argument, moved in ((mask, [1, 0, 1]), (True, [1, 1, 1]), (False, [0, 0, 0]), (Bool(False), [0, 0, 0])):
        rng, start = llvm.PCG32(3), llvm.PCG32(3)
        drawn = getattr(rng, f"next_{name}")(argument)
        steps = 2 if name == "uint64" else 1
        assert numbers(rng - start) == [steps * entry for entry in moved]
        if name != "uint64":
            assert numbers(drawn) == numbers(getattr(llvm.PCG32(3), f"next_{name}")())
        getattr(rng, f"prev_{name}")(argument)
        assert numbers(rng - start) == [0, 0, 0]
    rng = scalar.PCG32()
    assert getattr(rng, f"next_{name}")(False) is not None
    assert rng - scalar.PCG32() == 0


def test_uniform_numbers_are_below_one() -> None:
    rng = llvm.PCG32(1 << 16)
    assert float(dr.max(llvm.Float(rng.next_float16()))[0]) < 1  # rounding to half precision would reach it
    for bits, zero in ((0, 0.0), ):
        for name in ("float16", "float32", "float64"):
            single = llvm.PCG32()
            single.state = bits  # draws 0
            assert numbers(getattr(single, f"next_{name}")()) == [zero]
            single.state = bits
            variate = numbers(getattr(single, f"next_{name}_normal")())[0]
            assert -9 < variate < -5
    highest = scalar.PCG32()
    highest.state = 0x0000_0000_07FF_FFFF << 37 & 0xFFFF_FFFF_FFFF_FFFF
    assert 0 <= highest.next_float32() < 1


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 1 << 16, (1 << 31) + 1, (1 << 32) - 1])
def test_bounded_integers(bits: int, bound: int) -> None:
    """By the method of the reference implementation, spelled out with Python's integers."""
    name = f"next_uint{bits}_bounded"
    rng, mask = llvm.PCG32(40), Bool([True, False] * 20)
    first, second = getattr(rng, name)(bound), getattr(rng, name)(bound, mask)
    for entry in range(40):
        single = scalar.PCG32()
        single.state, single.inc = llvm.PCG32(40).state[entry], llvm.PCG32(40).inc[entry]
        results = []
        for _ in range(2 - entry % 2):
            while (value := getattr(single, f"next_uint{bits}")()) < (1 << bits) % bound:
                pass
            results.append(value % bound)
        assert [first[entry], second[entry]] == results + [0] * (2 - len(results))
        assert rng.state[entry] == single.state
    assert numbers(getattr(rng, name)(bound, False)) == [0] * 40
    alone, other = scalar.PCG32(), llvm.PCG32()
    assert [getattr(alone, name)(bound) for _ in range(5)] == [getattr(other, name)(bound)[0] for _ in range(5)]
    assert getattr(alone, name)(bound, False) == 0


def test_recorded_bounded_integers() -> None:
    assert numbers(llvm.PCG32(4).next_uint32_bounded((1 << 31) + 1)) == [1747880424, 145637076, 216766385, 530783951]
    assert numbers(llvm.PCG32(4).next_uint64_bounded(10**12)) == [300013839602, 872796008149, 424213835781,
                                                                  766696189648]


@package
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 64, 1000])
def test_jumping_is_drawing_many_times(module, steps: int) -> None:
    rng, start = module.PCG32(3), module.PCG32(3)
    for _ in range(steps):
        rng.next_uint32()
    ahead = start + steps
    assert numbers(ahead.state) == numbers(rng.state)
    assert numbers((ahead - steps).state) == numbers(start.state)
    assert numbers(ahead - start) == [steps] * len(numbers(start.state))
    assert numbers(start - ahead) == [-steps] * len(numbers(start.state))
    start += steps
    assert numbers(start.state) == numbers(rng.state)
    start -= steps
    assert numbers(start.state) == numbers(module.PCG32(3).state)


def test_jumps_far_and_by_arrays() -> None:
    start = llvm.PCG32(3)
    for steps in (1 << 40, -(1 << 63), (1 << 63) - 1, -12345678901):
        assert numbers((start + steps) - start) == [steps] * 3
    assert numbers((llvm.PCG32(2) + (1 << 40)).state) == [15876285114593439265, 8268920876337621930]
    assert numbers((llvm.PCG32(2) - 3).state) == [10259162418358906096, 4362611911942313471]
    for steps in (Int64(1, -5, 1 << 50), Int(1, 2, -3), UInt(4, 5, 6)):
        assert numbers((start + steps) - start) == numbers(Int64(steps))
        assert numbers((start - steps) - start) == numbers(-Int64(steps))
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        start + 2.5
    with pytest.raises(TypeError, match="unsupported operand"):
        start + start
    with pytest.raises(TypeError, match="unsupported operand"):
        start - Float(1)
    with pytest.raises(RuntimeError, match="out of range"):
        start + (1 << 64)


@package
def test_copies_are_independent(module) -> None:
    rng = module.PCG32(4)
    for duplicate in (module.PCG32(rng), copy.copy(rng), copy.deepcopy(rng), dr.copy(rng)):
        assert type(duplicate) is module.PCG32
        duplicate.next_uint32()
        assert numbers(duplicate - rng) == [1] * len(numbers(rng.state))
    state = rng.state
    before = numbers(state)
    rng.next_uint32()
    assert numbers(state) == before


def test_nothing_is_evaluated() -> None:
    rng = llvm.PCG32(10)
    drawn = [rng.next_float32_normal(), rng.next_uint32_bounded(7), (rng + Int64(3)).state, rng - llvm.PCG32(10)]
    philox = llvm.Philox4x32(1, dr.arange(UInt, 10))
    drawn += [philox.next_float32x4_normal().x, philox.counter.w, rng.state]
    assert {array.state for array in drawn} <= {dr.VarState.Unevaluated, dr.VarState.Literal}


def test_jumps_and_seeds_do_not_compile_anew() -> None:
    hashes = set()
    for steps in (0, 1, 77, 1 << 40):
        rng = llvm.PCG32(100, 10 + steps, 20 + steps) + steps
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.eval(rng.next_float32())
            hashes |= {entry["hash"] for entry in dr.kernel_history([dr.KernelType.JIT])}
    assert len(hashes) == 1


# --- Philox4x32 ------------------------------------------------------------------------------------------------------

#: ``kat_vectors`` of Random123, the authors' implementation: rounds, counters, key, result.
_FULL = 0xFFFFFFFF
VECTORS = [
    (7, (0, 0, 0, 0), (0, 0), "5f6fb709 0d893f64 4f121f81 4f730a48"),
    (7, (_FULL,) * 4, (_FULL, _FULL), "5207ddc2 45165e59 4d8ee751 8c52f662"),
    (7, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     "4dfccaba 190a87f0 c47362ba b6b5242a"),
    (10, (0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (10, (_FULL,) * 4, (_FULL, _FULL), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (10, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@package
@pytest.mark.parametrize(("rounds", "counters", "key", "words"), VECTORS)
def test_published_vectors_of_philox(module, rounds: int, counters, key, words: str) -> None:
    rng = module.Philox4x32(key[0] << 32 | key[1], *counters[:3], iterations=rounds)
    rng.counter = module.Array4u(*counters)
    found = [numbers(entry)[0] for entry in rng.next_uint32x4()]
    assert " ".join(f"{word:08x}" for word in found) == words


PHILOX = {
    "uint32x4": [[1630242427, 3675988901], [1767094676, 2364494890], [1704795986, 3819312327], [403296981, 1357147152]],
    "uint64x2": [[7589613843985958523, 10155428227785106341], [1732147345675329362, 5828902637518853319]],
    "float16x4": [[0.379638671875, 0.85595703125], [0.411376953125, 0.55029296875], [0.39697265625, 0.88916015625],
                  [0.0938720703125, 0.31591796875]],
    "float32x4": [[0.3795703649520874, 0.8558827638626099], [0.41143369674682617, 0.5505268573760986],
                  [0.39692866802215576, 0.8892529010772705], [0.09389984607696533, 0.31598544120788574]],
    "float64x2": [[0.41143379089878174, 0.5505268673542614], [0.0938998957623094, 0.3159854451402213]],
    "float32x4_normal": [[-0.7312651872634888, 1.2949674129486084], [0.690427839756012, -1.650476098060608],
                         [-0.377081036567688, -0.8279714584350586], [0.23456498980522156, -0.27205780148506165]],
    "float64x2_normal": [[0.8555644110385434, -0.5094327611470469], [0.5728361424478124, 1.157513135507789]],
}


@pytest.mark.parametrize("name", PHILOX)
def test_recorded_values_of_philox(name: str) -> None:
    """Values of another implementation with this interface; normal variates depend on how log and sincos are."""
    for module in (llvm, diff):
        found = getattr(module.Philox4x32(0x1234567890ABCDEF, module.UInt(1, 2), 5, 6), f"next_{name}")()
        rows = [numbers(row) for row in found]
        assert rows == PHILOX[name] if "normal" not in name else np.allclose(rows, PHILOX[name], 1e-5, 1e-6)
        kind, count = ("f16" if "16" in name else "f64" if "64" in name else "f") if "float" in name else (
            "u64" if "64" in name else "u"), name[name.index("x") + 1]
        assert type(found) is getattr(module, f"Array{count}{kind}")
    alone = getattr(scalar.Philox4x32(0x1234567890ABCDEF, 1, 5, 6), f"next_{name}")()
    tolerance = 1e-5 if "normal" in name else 0
    assert list(alone) == pytest.approx([row[0] for row in PHILOX[name]], rel=tolerance)
    assert list(alone.shape) == [len(PHILOX[name])]


def test_half_precision_normals_of_philox() -> None:
    def new() -> Any:
        return llvm.Philox4x32(3, dr.arange(UInt, 1000))

    half, single = new().next_float16x4_normal().numpy(), new().next_float32x4_normal().numpy()
    assert np.array_equal(half, single.astype(np.float16))
    assert new().next_float16x4().numpy().max() < 1


def test_counters_of_philox() -> None:
    rng = llvm.Philox4x32(seed=1 << 32 | 2, counter_0=3, counter_1=UInt(4, 5), counter_2=6, iterations=5)
    assert (type(rng.seed), type(rng.counter)) == (Array2u, Array4u)
    assert repr(rng.seed) == "[[1, 2]]"
    assert repr(rng.counter) == "[[3, 4, 6, 0],\n [3, 5, 6, 0]]"
    assert rng.iterations == 5
    rng.next_uint32x4()
    rng.next_uint64x2(Bool(True, False))
    rng.next_float32x4(mask=False)
    assert repr(rng.counter.w) == "[2, 1]"
    for duplicate in (llvm.Philox4x32(rng), copy.copy(rng), dr.copy(rng)):
        assert duplicate.iterations == 5
        assert repr(duplicate.next_uint32x4()) == repr(llvm.Philox4x32(rng).next_uint32x4())
        assert repr(duplicate.counter.w) == "[3, 2]"
    assert llvm.Philox4x32(1, 2).iterations == 7
    wide = llvm.Philox4x32(5, 5)
    wide.next_uint32x4(Bool(True, False, True))
    assert repr(wide.counter.w) == "[1, 0, 1]"
    alone = scalar.Philox4x32(1 << 32 | 2, 3)
    alone.next_uint32x4()
    alone.next_uint32x4(False)
    assert repr(alone.counter) == "[3, 0, 0, 1]"


# --- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS[2:])
def test_moments(name: str) -> None:
    size = 1 << 17
    width = {"16": "16x4", "32": "32x4", "64": "64x2"}[name[5:7]]
    variates = [getattr(llvm.PCG32(size), f"next_{name}")(),
                *getattr(llvm.Philox4x32(9, dr.arange(UInt, size)), f"next_float{width}{name[7:]}")()]
    mean, deviation = (0, 1) if "normal" in name else (0.5, 12**-0.5)
    for array in map(Float64, variates):
        assert abs(float(dr.mean(array)[0]) - mean) < 5 * deviation / size**0.5
        assert abs(float(dr.std(array)[0]) - deviation) < 6 * deviation / size**0.5


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expression", "message"), [
    (lambda: scalar.PCG32(0), r"drjit.scalar.PCG32.__init__\(\): 'size' must be a positive int"),
    (lambda: llvm.PCG32(-1), "'size' must be"), (lambda: llvm.PCG32("1"), "'size' must be"),
    (lambda: llvm.PCG32(1, 2.5), r"'initstate' must be an int or of type drjit.llvm.UInt64, found float"),
    (lambda: scalar.PCG32(1, 1 << 64), "'initstate' must be an int from"),
    (lambda: llvm.PCG32(2, UInt64(1, 2, 3)), "'initstate' has 3 elements, but 'size' is 2"),
    (lambda: llvm.PCG32(3).next_float32(Bool(True, False)), "incompatible sizes"),
    (lambda: llvm.PCG32(3).next_uint32(1), r"'mask' must be a bool or of type drjit.llvm.Bool, found int"),
    (lambda: llvm.PCG32(3).next_uint32(None), "'mask' must be"),
    (lambda: llvm.PCG32(3).next_uint32(llvm.Array3b(True)), "'mask' must be"),
    (lambda: llvm.PCG32().next_float(llvm.Int), "'dtype' must be a floating-point type of the package drjit.llvm"),
    (lambda: llvm.PCG32().next_float(float), "'dtype' must be"), (lambda: llvm.PCG32().next_float(3), "'dtype'"),
    (lambda: scalar.PCG32().next_float(llvm.Float), "'dtype' must be"),
    (lambda: llvm.PCG32().next_uint32_bounded(0), r"'bound' must be an int from 1 to 2\*\*32 - 1"),
    (lambda: llvm.PCG32().next_uint32_bounded(1 << 32), "'bound'"),
    (lambda: llvm.PCG32().next_uint64_bounded(2.5), "'bound'"), (lambda: scalar.PCG32().next_uint32_bounded(-1), "'b"),
    (lambda: llvm.Philox4x32(1), "missing argument 'counter_0'"),
    (lambda: llvm.Philox4x32(1.5, 2), "'seed' must be an int or of type drjit.llvm.UInt64"),
    (lambda: llvm.Philox4x32(1, -2), "'counter_0' must be an int from 0 to 4294967295, found -2"),
    (lambda: llvm.Philox4x32(1 << 64, 2), "'seed' must be an int from 0 to 18446744073709551615, found 1844"),
    (lambda: llvm.Philox4x32(1, 2, iterations=-1), "the number of rounds must be"),
    (lambda: llvm.Philox4x32(1, 2, iterations=2.5), "the number of rounds must be"),
    (lambda: llvm.Philox4x32(1, UInt(1, 2), UInt(1, 2, 3)),
     r"Philox4x32\.__init__\(\): 'counter_1' has 3 elements, but 'counter_0' has 2"),
    (lambda: llvm.Philox4x32(UInt64(1, 2), 1, 2, UInt(1, 2, 3)), "'counter_2' has 3 elements, but 'seed' has 2"),
    (lambda: llvm.Philox4x32(UInt64(), UInt(1, 2)), "'counter_0' has 2 elements, but 'seed' has 0"),
    (lambda: llvm.Philox4x32(1, UInt(1, 2)).next_uint32x4(Bool(True, False, True)), "incompatible sizes"),
    (lambda: llvm.PCG32(3, UInt64(1, 2), UInt64(1, 2, 3)),
     r"drjit\.llvm\.PCG32\.__init__\(\): 'initstate' has 2 elements, but 'size' is 3"),
    (lambda: llvm.PCG32(2, 1, [1, 2, 3]), r"PCG32\.__init__\(\): 'initseq' has 3 elements, but 'size' is 2"),
    (lambda: llvm.PCG32(1, UInt64(1, 2), UInt64(1, 2, 3)), "'initseq' has 3 elements, but 'initstate' has 2"),
    (lambda: llvm.PCG32(2, UInt64()), r"PCG32\.__init__\(\): 'initstate' has 0 elements, but 'size' is 2"),
    (lambda: llvm.PCG32().seed(UInt64(1, 2), UInt64(1, 2, 3)), r"PCG32\.seed\(\): 'initseq' has 3 elements, but"),
    (lambda: llvm.PCG32(1 << 33), r"PCG32\.__init__\(\): 'size' must be at most 2\^32, found 8589934592"),
    (lambda: llvm.PCG32(1, -1), r"PCG32\.__init__\(\): 'initstate' must be an int from 0 to 18446744073709551615, f"),
    (lambda: llvm.PCG32(1, [1, "a"]), r"PCG32\.__init__\(\): could not convert the argument 'initstate' of type 'l"),
    (lambda: scalar.PCG32(1, UInt64(1)), r"scalar\.PCG32\.__init__\(\): 'initstate' .* found drjit\.llvm\.UInt64"),
    (lambda: llvm.PCG32(1, 2, 3, 4), r"^PCG32\.__init__\(\) takes"),
    (lambda: llvm.PCG32(seed=1), r"^PCG32\.__init__\(\) got an unexpected keyword argument"),
    (lambda: llvm.Philox4x32(1, 2).next_uint32x4(1), "'mask' must be"),
    (lambda: scalar.Philox4x32(1, UInt(2)), "'counter_0' must be an int"),
])
def test_errors(expression, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        expression()


@pytest.mark.skipif(dr.has_backend(dr.JitBackend.CUDA), reason="the GPU is there")
def test_generators_of_a_backend_that_is_not_there() -> None:
    for expression in (lambda: dr.cuda.PCG32(), lambda: dr.cuda.ad.Philox4x32(1, 2)):
        with pytest.raises(RuntimeError, match="the CUDA backend is not available"):
            expression()


def test_failing_draws_change_nothing() -> None:
    rng = llvm.PCG32(3)
    for draw in (rng.next_uint32, rng.next_uint64, rng.prev_float32, lambda mask: rng.next_uint32_bounded(7, mask)):
        with pytest.raises(RuntimeError):
            draw(Bool(True, False))
    with pytest.raises(RuntimeError):
        rng += Int64(1, 2)
    assert numbers(rng.state) == numbers(llvm.PCG32(3).state)


@pytest.mark.parametrize("draw", [
    lambda generator: generator.random(Float, 100), lambda generator: generator.normal(Float64, 100),
    lambda generator: generator.integers(UInt, 100, low=3, high=50),
    lambda generator: generator.random(Array3f, (3, 100))])
def test_all_seeds_and_steps_are_one_program(draw: Callable[[Any], Any]) -> None:
    """Words that happen to be equal, such as those of the seed 0 and the first step, are parameters of their own."""
    found = set()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for seed in (0, 1, 1 << 32, (1 << 64) - 1):
            for counter in (0, 1, (1 << 32) - 1):
                dr.kernel_history_clear()
                dr.eval(draw(dr.random.Philox4x32Generator(seed, counter)))
                found.add(tuple(entry["hash"] for entry in dr.kernel_history()))
    assert len(found) == 1
