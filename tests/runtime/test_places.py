"""Nodes know where they belong: two packages of one process, each with a backend of its own.

The second backend is registered as the one of ``drjit.cuda``: the interpreter, the CPU once more, or the CPU with
memory that the host cannot access, on which whole suites run with ``--second`` (see ``tests/second.py``).
Types are made once in the life of a process, and know whether their backend is there: hence a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from drjit_core import rooms

ROOT = Path(__file__).resolve().parents[2]
BEGIN = '''
import drjit as dr
import drjit_core as core
from drjit_core.runtime.cpu.backend import CPU
from drjit_core.runtime.interpreted import Interpreted
from drjit_core.runtime.cpu.target import LIMITS
from drjit_core.runtime.native import Native
from drjit_core.runtime.recipes import Recipes
from tests.second import Second as Hidden

class Neutral(CPU):
    def __init__(self):
        self.recipes = Recipes(Native(self))  # by the methods of the backend

class Second({base}):
    name = "second"
    where = core.JitBackend.CUDA.value
    evaluations = 0

    def evaluate(self, roots, /):
        self.evaluations += 1
        super().evaluate(roots)

second = Second(LIMITS) if issubclass(Second, Interpreted) else Second()
core.register(second)
from drjit import cuda, llvm
import drjit.cuda.ad, drjit.llvm.ad
from tests.interop.harness import from_dlpack

def backend(array):
    return array._n.payload.backend.name

'''


def run(base: str, program: str) -> None:
    """Run a program with a second backend; it prints nothing unless something is wrong."""
    program = BEGIN.replace("{base}", base) + dedent(program)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)
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
    "arrays of one package are converted to the other": """
        import numpy as np
        for here, there in (llvm.ad, cuda.ad), (cuda.ad, llvm.ad), (llvm, cuda.ad), (cuda.ad, llvm):
            x = here.Float(1, 2, 3) + 1
            kept = x.numpy().copy()
            made = [there.Float(x), there.Float64(x), there.Bool(x > 2), there.Array3f(1, x, here.Float(4)),
                    there.Array2f(here.Array2f(x, 5)), there.Matrix2f(here.Matrix2f(1, 2, 3, x)),
                    there.Matrix3f(here.Matrix2f(x)), there.Quaternion4f(here.Quaternion4f(1, 2, 3, x)),
                    there.Complex2f(x), there.TensorXf(x), there.TensorXf([here.TensorXf(x), there.TensorXf(kept)]),
                    there.Float(here.TensorXf(x)), there.Array3f(here.TensorXf(np.ones((3, 2)))),
                    dr.reinterpret_array(there.UInt, x), dr.reshape(there.TensorXf, x, (3, 1)),
                    dr.reshape(there.Array3f, x, (3, 1))]
            assert {node.where for array in made for node in array._nodes()} <= {0, there.Float._where}
            assert (made[0] + there.Float(1, 1, 1) == kept + 1).numpy().all() and x.numpy().tolist() == kept.tolist()
            assert dr.all(there.Float(here.Float(7)) + there.Float(kept) == 7 + kept)
    """,
    "the numbers of optimisers are where parameters are": """
        import pickle
        S = dr.opt.Schedule
        for package in cuda.ad, llvm.ad:
            active = dr.opaque(package.Bool, True)
            made = []
            for make in (lambda: dr.opt.SGD(S.linear(1, 10), {"x": package.Float(0)}),
                         lambda: pickle.loads(pickle.dumps(dr.opt.SGD(S.linear(1, 10), {"x": package.Float(0)}))),
                         lambda: dr.copy(dr.opt.SGD(S.linear(1, 10), {"x": package.Float(0)}))):
                opt, scaler = make(), dr.opt.GradScaler(4)
                for mask in (None, active, ~active):
                    dr.backward(dr.square(opt["x"] - 1) / 4)
                    opt.step(active=mask)
                dr.backward(scaler.scale(dr.square(opt["x"] - 1) / 4))
                scaler.step(opt)
                made += [opt["x"]._n.where, opt.learning_rate()._n.where, scaler.scale(opt["x"])._n.where]
                assert abs(opt["x"][0] - (1 - 0.5 * 0.55 * 0.6)) < 1e-6, opt["x"]
            assert set(made) == {package.Float._where}, made
    """,
    "what is converted is differentiated": """
        for here, there in (llvm.ad, cuda.ad), (cuda.ad, llvm.ad):
            x, y = here.Float(1, 2, 3), there.Float(1, 2, 3)
            dr.enable_grad(x, y)
            dr.backward(dr.square(there.Array2f(here.Array2f(x, 1)).x) * y)
            assert x.grad.numpy().tolist() == [2, 8, 18] and x.grad._n.where == here.Float._where
            assert y.grad.numpy().tolist() == [1, 4, 9]
            w = here.Float(2, 3)
            dr.enable_grad(w)
            v = there.Float(w * w) * 2
            dr.forward(w)
            assert v.grad.numpy().tolist() == [8, 12] and v.grad._n.where == there.Float._where
    """,
    "what is symbolic, or recorded, is not converted": """
        from drjit_core import SymbolicValue
        x, y = llvm.Float(1, 2, 3), cuda.Float(1, 1, 1)
        assert dr.while_loop((x,), lambda x: x < 3, lambda x: (x + llvm.Float(y),))[0].numpy().tolist() == [3, 3, 3]
        for wrong, kind in (lambda: dr.while_loop((x,), lambda x: x < 3, lambda x: (llvm.Float(cuda.Float(x)),)),
                            SymbolicValue), (lambda: dr.freeze(lambda x: cuda.Float(x))(x), RuntimeError):
            try:
                wrong()
            except kind as error:
                assert "drjit.cuda.Float.__init__()" in str(error) and "another" in str(error), error
            else:
                assert False
        assert (cuda.Float(x) + y).numpy().tolist() == [2, 3, 4]
    """,
    "reports tell of it": """
        assert dr.has_backend(dr.JitBackend.CUDA)
        assert core.backend_report()[1] == ("CUDA", True, "the backend 'second', which the program has registered")
    """,
    "listings say where": """
        a, b, c = llvm.Float(1, 2) + 1, cuda.Float(1, 2) + 2, cuda.Float(7)
        dr.eval(b)
        dr.set_label(a=a, b=b, c=c)
        lines = dr.whos(as_string=True).splitlines()
        rows = {line.split()[-1]: line.split()[1:-1] for line in lines if line[-2:] in (" a", " b", " c")}
        assert rows["a"] == ["LLVM", "f32", "1", "2"] and rows["b"] == ["CUDA", "f32", "CUDA", "1", "2", "8", "B"], rows
        assert rows["c"] == ["CUDA", "f32", "const.", "1", "1"], rows
        assert [line.split()[1] for line in lines if "in use" in line] == ["LLVM", "CUDA"], lines
    """,
    "one evaluation of both": """
        a, b = llvm.Float(1, 2) + 1, cuda.Float(1, 2) + 2
        dr.eval(a, b)
        assert backend(a) == "llvm" and backend(b) == "second" and second.evaluations == 1
        assert (list(a), list(b)) == ([2, 3], [3, 4])
    """,
    "each of them forgets its kernels if there are too many": """
        class Crowded(Second):
            flushed = 0

            def crowded(self):
                return True

            def flush(self):
                self.flushed += 1

        crowded = Crowded(LIMITS) if issubclass(Second, Interpreted) else Crowded()
        core.register(crowded)
        dr.eval(cuda.Float(1, 2) + 1)
        assert crowded.flushed == 1
        dr.eval(llvm.Float(1, 2) + 1, cuda.Float(1, 2) + 2)
        assert crowded.flushed == 2
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
    "values for the host": """
        import pickle
        import numpy as np
        for package in (llvm, cuda):
            x = package.Float(np.arange(5, dtype=np.float32)) + 1
            assert x[2] == 3 and list(x) == x.tolist() == x.numpy().tolist() == [1, 2, 3, 4, 5]
            assert str(x) == "[1, 2, 3, 4, 5]"
            x[1] = 7
            assert from_dlpack(x).tolist() == [1, 7, 3, 4, 5] == list(pickle.loads(pickle.dumps(x)))
            assert package.Array3f(x, 2, 1).numpy().tolist() == [[1, 7, 3, 4, 5], [2] * 5, [1] * 5]
            assert str(dr.arange(package.UInt, 100)) == "[0, 1, 2, .. 94 skipped .., 97, 98, 99]"
            rows = str(package.TensorXf(np.arange(6), shape=(2, 3))).splitlines()
            assert rows == ["[[0, 1, 2],", " [3, 4, 5]]"], rows
            assert {backend(x), backend(pickle.loads(pickle.dumps(x)))} == {{llvm: "llvm", cuda: "second"}[package]}
            dr.print("{}", package.Int(4, 5), file=(out := __import__("io").StringIO()))
            assert out.getvalue().strip() == "[4, 5]"
    """,
    "foreign memory": """
        import numpy as np
        theirs = np.arange(4, dtype=np.float32)
        x, y = cuda.Float(theirs), cuda.TensorXf(theirs.reshape(2, 2).T)
        dr.eval(x, y)
        assert backend(x) == backend(y) == "second"
        x[0] = 9
        assert theirs[0] == 0 and list(x) == [9, 1, 2, 3] and y.numpy().tolist() == [[0, 2], [1, 3]]
    """,
    "reports of debug mode": """
        import warnings
        dr.set_flag(dr.JitFlag.Debug, True)
        for package in (llvm, cuda):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                read = dr.gather(package.UInt, package.UInt(1, 2), package.UInt(0, 7))
                if package is llvm or not isinstance(second, Interpreted):
                    assert list(read) == [1, 0] and "position 7 in an array of size 2" in str(found[0].message), found
    """,
    "what a loop prints": """
        import io
        for package in (llvm, cuda):
            out = io.StringIO()
            def body(i):
                dr.print("{}", i, file=out, active=i == 1)
                return i + 1,
            dr.eval(dr.while_loop((package.Int(0, 1),), lambda i: i < 3, body, mode="symbolic"))
            assert "1" in out.getvalue(), out.getvalue()
    """,
    "generators": """
        found = [list(package.PCG32(size=4).next_float32()) for package in (llvm, cuda)]
        assert found[0] == found[1]
        found = [dr.rng(7).uniform(package.Float, 5) for package in (llvm, cuda)]
        assert list(found[0]) == list(found[1]) and [backend(each) for each in found] == ["llvm", "second"]
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("base", ["Interpreted", "CPU", "Neutral", "Hidden"])
def test_two_backends(base: str, name: str) -> None:
    run(base, PROGRAMS[name])


#: Functions that are given arrays of two packages, and what the exception says besides "drjit" and their name.
MIXED = """
    zeros, at, elsewhere = dr.zeros(llvm.Float, 3), llvm.UInt(0, 1), cuda.UInt(0, 1)
    x, y, mask = llvm.Float(1, 2, 3), cuda.Float(1, 2), cuda.Bool(True, False)
    def local(index, value):
        memory = dr.alloc_local(llvm.Float, 4, value=0.0)
        memory[index] = value
    for words, function in (
        ("drjit.gather(): 'index'", lambda: dr.gather(llvm.Float, zeros, elsewhere)),
        ("drjit.gather(): 'index'", lambda: dr.gather(llvm.Float, x, elsewhere)),
        ("drjit.gather(): 'active'", lambda: dr.gather(llvm.Float, x, 0, cuda.Bool(True))),
        ("drjit.gather(): 'active'", lambda: dr.gather(llvm.Float, x, at, mask)),
        ("drjit.scatter(): 'index'", lambda: dr.scatter(zeros, llvm.Float(1), elsewhere)),
        ("drjit.scatter(): 'index'", lambda: dr.scatter(x, llvm.Float(1), elsewhere)),
        ("drjit.scatter(): 'value'", lambda: dr.scatter(zeros, y, 1)),
        ("drjit.scatter_add(): 'value'", lambda: dr.scatter_add(x, y, at)),
        ("drjit.scatter_inc(): 'index'", lambda: dr.scatter_inc(dr.zeros(llvm.UInt, 3), elsewhere)),
        ("drjit.scatter_exch(): ", lambda: dr.scatter_exch(x, y, at)),
        ("drjit.scatter_cas(): ", lambda: dr.scatter_cas(dr.zeros(llvm.UInt, 3), llvm.UInt(0), elsewhere, at)),
        ("drjit.llvm.Float.__getitem__(): ", lambda: x[elsewhere]),
        ("drjit.llvm.Float.__setitem__(): ", lambda: x.__setitem__(elsewhere, 1)),
        ("drjit.llvm.Float.__setitem__(): ", lambda: x.__setitem__(cuda.Bool(True, False, True), 1)),
        ("drjit.llvm.TensorXf.__getitem__(): ", lambda: llvm.TensorXf(x)[elsewhere]),
        ("drjit.Local.__setitem__(): 'index'", lambda: local(elsewhere, 1.0)),
        ("drjit.Local.__setitem__(): ", lambda: local(at, y)),
        ("drjit.while_loop(): ", lambda: dr.while_loop((at,), lambda i: elsewhere < 3, lambda i: (i + 1,))),
        ("drjit.if_stmt(): ", lambda: dr.if_stmt((at,), mask, lambda i: i + 1, lambda i: i)),
        ("drjit.switch(): ", lambda: dr.switch(elsewhere, [lambda i: i + 1, lambda i: i], at)),
    ):
        try:
            function()
        except (TypeError, RuntimeError) as error:
            assert str(error).startswith(words) and ("backends" in str(error) or "'" in words), error
        else:
            raise AssertionError(words)
    assert zeros.numpy().tolist() == [0, 0, 0] and x.numpy().tolist() == [1, 2, 3]
"""


@pytest.mark.parametrize("base", ["CPU", "Hidden"])
def test_arrays_of_two_packages_are_refused_in_the_names_of_the_users_function(base: str) -> None:
    """Positions, masks and values as well, also where all else is a literal: nothing has been changed then."""
    run(base, MIXED)


@pytest.mark.parametrize("base", ["CPU", "Hidden"])
def test_recordings_run_where_their_arguments_belong(base: str) -> None:
    run(base, """
        recorded = core.Recorded(lambda x: [core.ops.mul(x, x)])
        for _ in range(2):
            for package in (llvm, cuda):
                x = package.Float(1, 2, 3)
                (found,) = recorded(x._n)
                assert found.payload.backend.name == {llvm: "llvm", cuda: "second"}[package]
                assert [core.read_element(found, k) for k in range(3)] == [1, 4, 9]
        assert len(recorded.recordings) == 2
    """)


@pytest.mark.parametrize("base", ["CPU", "Hidden"])
def test_a_recording_launches_on_one_backend(base: str) -> None:
    run(base, """
    def raises(words, function, *args):
        try:
            function(*args)
        except RuntimeError as error:
            assert words in str(error), error
        else:
            raise AssertionError("nothing was raised")

    def evaluates(x):
        c = dr.arange(cuda.Float, 10) + 1
        dr.eval(c)
        return x + 1, c

    def allocates(x):
        c = dr.empty(cuda.Float, 10)
        dr.eval(c)
        return x + 1, c

    x, y, z = llvm.Float(1, 2, 3), cuda.Float(4, 5, 6), cuda.Float(7, 8)
    for function in evaluates, allocates:
        frozen = dr.freeze(function)
        for _ in range(2):
            raises("is being recorded for the backend 'llvm', and evaluates arrays of the backend 'second'", frozen, x)
        assert backend(frozen(y)[1]) == backend(frozen(z)[1]) == "second"
    for package, name in ((llvm, "llvm"), (cuda, "second")):  # arguments that belong nowhere have types that do
        def nowhere(x):
            y = dr.full(package.Float, 8, 4)
            dr.scatter_add(y, x, package.UInt(1))
            dr.eval(y)
            return y, dr.opaque(package.Float, 2, 3) + x
        frozen = dr.freeze(nowhere)
        frozen_there = dr.freeze(lambda: dr.arange(package.Float, 4) + 1, backend=dr.backend_v(package.Float))
        for k in range(3):
            one, two = frozen(package.Float(k))
            assert one.numpy().tolist() == [8, 8 + k, 8, 8] and two.numpy().tolist() == [2 + k] * 3
            assert backend(one) == backend(two) == backend(frozen_there()) == name
        assert frozen_there().numpy().tolist() == [1, 2, 3, 4]
        assert dr.freeze(lambda x: x + 1, backend=dr.backend_v(package.Float))(package.Float(1, 2))[1] == 3
    frozen = dr.freeze(lambda x, y: (x + 1, y + 1))
    raises("has arrays of the backends 'CUDA' and 'LLVM'", frozen, x, y)
    assert [a.numpy().tolist() for a in frozen(y, z)] == [[5, 6, 7], [8, 9]]
    assert [a.numpy().tolist() for a in frozen(x, x)] == [[2, 3, 4], [2, 3, 4]]
    """)


def test_what_is_decided_while_programs_are_traced_follows_from_where_they_belong() -> None:
    """Of two backends in one process, each has its own limits, whatever the thread would evaluate on."""
    run("Hidden", """
    from drjit import nn
    from drjit_core.ir.print import format_graph
    second.limits = LIMITS._replace(
        local=LIMITS.local._replace(array=0), tracing=LIMITS.tracing._replace(
            products=False, reductions=LIMITS.tracing.reductions._replace(results=1)))

    def launches(function):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            function()
            return len(dr.kernel_history())

    def product(package):
        net = nn.pack(nn.Linear(2, 3).alloc(package.ad.TensorXf16, rng=dr.rng(seed=1)))
        result = net(nn.CoopVec(dr.opaque(package.ad.Float16, 1, 4), dr.opaque(package.ad.Float16, 2, 4)))
        return format_graph([c._n for c in result]).count("gather")

    def reduced(package):
        x = dr.ones(package.TensorXf, (4, 1 << 16)) + dr.reshape(dr.arange(package.TensorXf, 4), (4, 1))
        dr.eval(x)
        return launches(lambda: dr.eval(dr.sum(x, axis=1)))

    def kept(package):
        x = package.ad.Float(1, 2, 3)
        dr.enable_grad(x)
        _, y = dr.while_loop((package.UInt(0), x), lambda i, y: i < 5, lambda i, y: (i + 1, dr.sin(y)),
                             max_iterations=5)
        dr.backward(dr.sum(y))
        return launches(lambda: dr.eval(dr.grad(x)))

    # biases are read by index in either case; parts of rows are added up first; values by a loop of their own
    found = [[function(package) for package in (llvm, cuda)] for function in (product, reduced, kept)]
    assert found == [[3, 9], [2, 1], [1, 2]], found
    """)


#: Graphs of one kernel, with a reduction or without; of several; with a write, a table for each thread, a step, a loop,
#: and a call.
SHORT_WAY = """
    import numpy as np
    from drjit_core.runtime.backends import LLVM

    def programs(p, x, index, one):
        yield lambda: x * 2.5 + one
        yield lambda: dr.sum(x * x)
        yield lambda: x / dr.sum(x * one)
        yield lambda: dr.gather(p.Float, dr.cumsum(x) * one, index) + 1
        yield lambda: dr.cumsum(x)
        for mode in (dr.ReduceMode.Auto, dr.ReduceMode.Local):
            def scattered():
                target = dr.zeros(p.Float, 4)
                dr.scatter_add(target, x * one, index % 4, mode=mode)
                return target
            yield scattered
        yield lambda: dr.while_loop((p.UInt(index), x), lambda i, x: i < 9, lambda i, x: (i + 1, x * one + i))[1]
        yield lambda: dr.switch(index % 3, [lambda x: x + 1, lambda x: x * one, lambda x: x - 1], x)

    found = {}
    for p, backend in ((llvm, LLVM), (cuda, second)):
        index = dr.opaque(p.UInt, 0, 100_000) + dr.arange(p.UInt, 100_000) % 7
        x, one = p.Float(np.arange(100_000, dtype=np.float32) % 8), dr.opaque(p.Float, 0.5)  # whose sums are exact
        dr.eval(index)
        found[p] = []
        for program in programs(p, x, index, one):
            for repetition in range(5):
                before = backend.recipes.launches
                result = program()
                dr.eval(result)
                assert result._n.payload.backend is backend
                found[p].append(result.numpy().tobytes())
                del result
            assert backend.recipes.launches > before
            found[p].append(backend.recipes.launches - before)
    assert found[llvm] == found[cuda]
"""


@pytest.mark.skipif(not rooms.compiled, reason="only the compiled form has a short way")
@pytest.mark.parametrize("base", ["CPU", "Neutral"])
def test_both_take_the_short_way(base: str) -> None:
    run(base, SHORT_WAY)


@pytest.mark.skipif(not rooms.compiled, reason="only the compiled form has a short way")
def test_launches_by_methods_take_memory_of_the_heap_themselves() -> None:
    run("Neutral", """
        x, one = dr.opaque(cuda.Float, 2, 10), dr.opaque(cuda.Float, 3)
        for repetition in range(4):
            expected = list(x / dr.sum(x * one))
        asked, before = [], second.recipes.launches
        second.allocate = lambda nbytes: asked.append(nbytes) or CPU.allocate(second, nbytes)
        result = x / dr.sum(x * one)
        dr.eval(result)
        assert not asked and second.recipes.launches == before + 2
        assert list(result) == expected
    """)


@pytest.mark.skipif(not rooms.compiled, reason="only the compiled form has a short way")
def test_what_is_interrupted_when_it_has_begun_counts_as_done() -> None:
    run("Neutral", """
        from drjit_core.runtime.backends import LLVM

        raising = False
        def submit(launch):
            ticket = CPU.submit(launch)
            if raising:
                raise KeyboardInterrupt
            return ticket
        second.submit = submit
        x, one = dr.opaque(cuda.Float, 2, 10), dr.opaque(cuda.Float, 3)
        for program in (lambda: x * one, lambda: x / dr.sum(x * one)):
            for repetition in range(4):
                expected = list(program())
            result, raising = program(), True
            before = second.recipes.launches
            try:
                dr.eval(result)
            except KeyboardInterrupt:
                raising = False
            assert not raising and second.recipes.launches == before + 1
            assert list(result) == expected
    """)
