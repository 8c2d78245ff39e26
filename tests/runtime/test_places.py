"""Nodes know where they belong: two packages of one process, each with a backend of its own.

The second backend is registered as the one of ``drjit.cuda``: the interpreter, or the CPU once more with other memory.
Types are made once in the life of a process, and know whether their backend is there: hence a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

BEGIN = '''
import drjit as dr
import drjit_core as core
from drjit_core.runtime.cpu.backend import CPU
from drjit_core.runtime.interpreted import Interpreted

class Second({base}):
    name = "second"
    where = core.JitBackend.CUDA.value
    evaluations = 0

    def evaluate(self, roots, /):
        self.evaluations += 1
        super().evaluate(roots)

second = Second()
core.register(second)
from drjit import cuda, llvm
import drjit.cuda.ad, drjit.llvm.ad

def backend(array):
    return array._n.payload.backend.name

'''


def run(base: str, program: str) -> None:
    """Run a program with a second backend; it prints nothing unless something is wrong."""
    program = BEGIN.replace("{base}", base) + dedent(program)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


PROGRAMS = {
    "equal expressions are different nodes": """
        a, b = (dr.arange(package.UInt, 10) + 5 for package in (llvm, cuda))
        assert a._n is not b._n
        dr.eval(a)
        assert a.state == dr.VarState.Evaluated and b.state == dr.VarState.Unevaluated
        dr.eval(b)
        assert backend(a) == "llvm" and backend(b) == "second"
        assert a.numpy().tolist() == b.numpy().tolist() == list(range(5, 15))
    """,
    "one evaluation of both": """
        a, b = llvm.Float(1, 2) + 1, cuda.Float(1, 2) + 2
        dr.eval(a, b)
        assert backend(a) == "llvm" and backend(b) == "second" and second.evaluations == 1
        assert (list(a), list(b)) == ([2, 3], [3, 4])
    """,
    "constants go with all": """
        a, b = (dr.opaque(package.Float, 3, 4) for package in (llvm, cuda))
        assert backend(a) == "llvm" and backend(b) == "second"
        a, b = (dr.full(package.Float, 3, 4) * package.Float(1, 2, 3, 4) for package in (llvm, cuda))
        assert list(a) == list(b) == [3, 6, 9, 12] and backend(a) == "llvm" and backend(b) == "second"
    """,
    "positions are brought": """
        tensors = [package.TensorXf(list(range(24)), shape=(2, 3, 4)) for package in (llvm, cuda, llvm)]
        found = [tensor[:, [2, 0], ::-1] for tensor in tensors]
        parts = [tensor[1, :, [0, 3]] for tensor in tensors]
        for each, part in zip(found, parts):
            dr.eval(each, part)
        assert len({str(each) for each in found}) == len({str(part) for part in parts}) == 1
        assert [backend(each) for each in found] == ["llvm", "second", "llvm"]
    """,
    "operands of two backends": """
        import drjit_core as core
        try:
            core.ops.add(llvm.Float(1, 2)._n, cuda.Float(1, 2)._n)
        except RuntimeError as error:
            assert "'CUDA' and 'LLVM'" in str(error), error
        else:
            raise AssertionError("two backends in one operation")
        try:
            llvm.Float(1, 2) + cuda.Float(1, 2)
        except Exception as error:
            assert "different backends" in str(error), error
        else:
            raise AssertionError("two backends in one operation")
    """,
    "loops, branches and calls": """
        for package in (llvm, cuda):
            i, total = dr.arange(package.UInt, 5), package.UInt(0)
            def body(i, total):
                return i + 1, total + dr.if_stmt((i,), i % 2 == 0, lambda i: i * 2, lambda i: i)
            i, total = dr.while_loop((i, total), lambda i, total: i < 6, body)
            called = dr.switch(dr.arange(package.UInt, 5) % 2, [lambda x: x + 1, lambda x: x * 3], total)
            dr.eval(total, called)
            assert list(total) == [sum(k if k % 2 else 2 * k for k in range(start, 6)) for start in range(5)]
            assert list(called) == [value * 3 if k % 2 else value + 1 for k, value in enumerate(total)]
            assert backend(total) == backend(called) == {llvm: "llvm", cuda: "second"}[package]
    """,
    "derivatives": """
        for package in (llvm.ad, cuda.ad):
            x = package.Float(1, 2, 3)
            dr.enable_grad(x)
            y = dr.sum(dr.gather(package.Float, x * x, package.UInt(2, 2, 0))) + dr.prod(x)
            dr.backward(y)
            assert list(x.grad) == [2 + 6, 3, 12 + 2], list(x.grad)
            assert backend(x.grad) == {llvm.ad: "llvm", cuda.ad: "second"}[package]
    """,
    "generators": """
        found = [list(package.PCG32(size=4).next_float32()) for package in (llvm, cuda)]
        assert found[0] == found[1]
        found = [dr.rng(7).uniform(package.Float, 5) for package in (llvm, cuda)]
        assert list(found[0]) == list(found[1]) and [backend(each) for each in found] == ["llvm", "second"]
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("base", ["Interpreted", "CPU"])
def test_two_backends(base: str, name: str) -> None:
    run(base, PROGRAMS[name])
