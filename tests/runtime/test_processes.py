"""Arrays in other processes and threads: forked and spawned workers, children that pickle, pools of the library."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import drjit as dr
from drjit.llvm import PCG32, Array3f, Float

POOL = """
import sys
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
import drjit as dr
from drjit.llvm import Array3f, Float, Matrix3f, PCG32, TensorXf, UInt
import drjit.scalar


def work(tree, rng):
    x = tree["x"] * 2 + rng.next_float32() * 0
    return {"x": x, "sum": dr.sum(x), "v": dr.normalize(tree["v"]), "t": tree["t"] @ tree["t"], "rng": rng,
            "wide": tree["wide"] + 1, "s": tree["s"] + 1}


if __name__ == "__main__":
    x = dr.arange(Float, 100_000) + 1
    dr.eval(dr.sum(x * x))                      # the pool of this process is running
    tree = {"x": x, "v": Array3f([3, 0], 0, [4, 1]), "t": TensorXf([[1, 2], [3, 4]]),
            "wide": dr.zeros(Float, 10**9), "s": drjit.scalar.Array2f(1, 2)}
    expected = work(tree, PCG32(100_000))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        for found in pool.map(work, [tree] * 4, [PCG32(100_000)] * 4):
            assert dr.format(found) == dr.format(expected), dr.format(found)
            assert found["wide"].state == dr.VarState.Literal and found["wide"].shape == (10**9,)
    assert str(tree["x"][:3]) == "[1, 2, 3]"
    print("done")
"""


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_process_pools(method, tmp_path):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method}")
    program = tmp_path / "program.py"
    program.write_text(POOL)
    done = subprocess.run([sys.executable, "-W", "ignore", program, method], capture_output=True, text=True,
                          timeout=120, env=environment())
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-2000:]


CHILD = """
import os, pickle, threading
import drjit as dr
from drjit.llvm import Float, PCG32

x = dr.arange(Float, 1 << 20) + 1
dr.eval(x)                                      # launched, perhaps not finished
rng = PCG32(4)
{before}
read, write = os.pipe()
child = os.fork()
if not child:
    with open(write, "wb") as file:
        file.write(pickle.dumps((x * 2, rng, dr.sum(x) if {sums} else 0)))
    os._exit(0)
os.close(write)
with open(read, "rb") as file:
    y, other, total = pickle.loads(file.read())
assert os.waitpid(child, 0)[1] == 0
assert dr.all(y == x * 2)
assert str(rng.next_uint32()) == str(other.next_uint32())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("before", ["", "threading.Thread(target=lambda: pickle.dumps(x + 3)).start()"])
@pytest.mark.parametrize("sums", [False, True])
def test_forked_children_pickle(before, sums):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD.format(before=before, sums=sums)],
                          capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0, done.stderr[-2000:]


def test_threads_pickle_what_others_traced():
    arrays = [Array3f(dr.arange(Float, 1000) * k, 1, k) for k in range(16)]
    rng = PCG32(10)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(pickle.dumps, [*arrays, *arrays, rng]))
    for k, text in enumerate(texts[:-1]):
        assert str(pickle.loads(text)) == str(arrays[k % 16])
    assert str(pickle.loads(texts[-1]).next_uint32()) == str(rng.next_uint32())
