"""Explanations of recompilations in the log."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit.llvm import Float, Float64, UInt
from drjit_core.messages import logger
from drjit_core.types import FLOAT32


@pytest.fixture(autouse=True)
def at_level_info():
    before = dr.log_level()
    dr.set_log_level(dr.LogLevel.Info)
    dr.flush_kernel_cache()
    yield
    dr.set_log_level(before)


def explanations(caplog, function, *args):
    """What is said of the kernels that a function compiles."""
    caplog.clear()
    function(*args)
    return [record.message.strip() for record in caplog.records if "this is kernel" in record.message]


def line():
    return inspect.currentframe().f_back.f_lineno


def array(cls, values, label=None):
    x = cls(np.array(values, {"Float": np.float32, "Float64": np.float64, "UInt": np.uint32}[cls.__name__]))
    dr.make_opaque(x)
    if label:
        core.set_label(x._nodes()[0], label)
    return x


def numbers(found):
    """Number of the kernel and of the one it is compared with."""
    match = re.match(r"this is kernel (\d+): same program as kernel (\d+) \([0-9a-f]{16}\), but ", found)
    assert match, found
    return tuple(map(int, match.groups())), found[match.end():]


def test_type_of_an_input(caplog):
    def run(cls):
        x, y = array(cls, [1, 2, 3], "x"), array(cls, [4, 5, 6])
        where.append((dr.eval((x * y + 2.5) * y), line())[1])

    where = []
    (first,) = explanations(caplog, run, Float)
    number = int(re.fullmatch(r"this is kernel (\d+)\.", first)[1])
    assert explanations(caplog, run, Float) == []
    (found,) = explanations(caplog, run, Float64)
    assert numbers(found) == ((number + 1, number), f"input 'x' is now float64 (was float32) ({__file__}:{where[0]}), "
                                                    "and 1 further difference")


def test_place_of_an_input_in_debug_mode(caplog):
    def run(cls):
        with dr.scoped_set_flag(dr.JitFlag.Debug):
            x, where = cls(1, 2, 3) * cls(2, 2, 2), line()
            dr.eval(x)
        dr.eval(x + 0.5)
        return where

    run(Float)
    places = []
    found = explanations(caplog, lambda: places.append(run(Float64)))
    assert numbers(found[-1])[1] == f"input 1 is now float64 (was float32) ({__file__}:{places[0]})"


def variant(name, value):
    """A program in variants that differ in one detail."""
    x, y = array(Float, [1, 2, 3]), array(Float, [1, 2, 3])
    if name == "class of an input":
        y = array(Float, [2]) if value else y
        dr.eval(x * y)
    elif name == "width":
        dr.eval(array(Float, [2]) * array(Float, [3]) if value else x * y)
    elif name == "baked constant":
        dr.eval(dr.maximum(x, 1.0 if value else 0.0))
    elif name == "constant becomes a parameter":
        dr.eval(dr.maximum(x, 2.5 if value else 0.0))
    elif name == "outputs":
        a = x * y
        b = a + x
        dr.eval(*((a, b) if value else (b,)))
    elif name == "checks":
        with dr.scoped_set_flag(dr.JitFlag.Debug, value):
            index = array(UInt, [0])
            dr.eval(dr.gather(Float, x, index))
    elif name == "conversion":
        dr.eval((Float64 if value else UInt)(x))
    elif name == "array that is gathered from":
        dr.eval(dr.gather(Float64 if value else Float, array(Float64 if value else Float, [1, 2]), array(UInt, [0, 1])))


VARIANTS = {
    "class of an input": "input 2 is now an array of one element (was an array of several elements)",
    "width": "it computes one element now (several elements then)",
    "baked constant": "a constant is now 1.0, part of the program (was 0.0)",
    "constant becomes a parameter": "a constant is now 2.5, a parameter (was 0.0, part of the program)",
    "outputs": "it has 2 outputs now (1 then)",
    "checks": "indices are now checked (JitFlag.Debug)",
    "conversion": "the result of a conversion is now float64 (was uint32)",
    "array that is gathered from": "the array that is read by index is now float64 (was float32)",
}


@pytest.mark.parametrize("name", VARIANTS)
def test_one_detail(caplog, name):
    variant(name, False)
    *_, found = explanations(caplog, variant, name, True)
    (_, compared), text = numbers(found)
    assert compared
    assert text.startswith(VARIANTS[name])
    assert __file__ in text
    assert explanations(caplog, variant, name, True) == []


def test_most_similar_kernel_is_named(caplog):
    def run(cls, outputs):
        x = array(cls, [1, 2, 3])
        a = x * x
        b = a + x
        dr.eval(*(a, b)[-outputs:])

    (first,) = explanations(caplog, run, Float, 1)
    (second,) = explanations(caplog, run, Float64, 2)
    (third,) = explanations(caplog, run, Float64, 1)
    number = int(re.match(r"this is kernel (\d+)", first)[1])
    assert numbers(second)[0] == (number + 1, number)
    assert numbers(third)[0][0] == number + 2
    assert ", and" not in third


def test_other_program(caplog):
    x = array(Float, [1, 2, 3])
    explanations(caplog, dr.eval, x * x)
    (found,) = explanations(caplog, dr.eval, x * x - 1)
    assert re.fullmatch(r"this is kernel \d+\.", found)


def test_kernels_compiled_before_the_level_was_set_count(caplog):
    dr.set_log_level(dr.LogLevel.Warn)
    dr.eval(array(Float, [1, 2]) * array(Float, [1, 2]))
    dr.set_log_level(dr.LogLevel.Info)
    (found,) = explanations(caplog, lambda: dr.eval(array(Float64, [1, 2]) * array(Float64, [1, 2])))
    assert "input 1 is now float64 (was float32)" in found
    assert logger.name == "drjit"


def test_imported_memory(caplog):
    def run(shared):
        data = np.array([1, 2, 3, 4], np.float32)
        x = core.import_shared(FLOAT32, data.ctypes.data, 4, data) if shared else core.import_copy(FLOAT32, data)
        assert core.read_element(core.ops.add(x, x), 3) == 8

    run(False)
    (found,) = explanations(caplog, run, True)
    assert "input 1 is now memory that was imported (was an array of several elements)" in found


def test_loops(caplog):
    def run(kind):
        x = array(kind, [1, 2, 3])
        dr.eval(dr.while_loop((UInt(0), x), lambda i, x: i < 5, lambda i, x: (i + 1, x * x))[1])

    run(Float)
    (found,) = explanations(caplog, run, Float64)
    assert numbers(found)[1].startswith("input 1 is now float64 (was float32)")
