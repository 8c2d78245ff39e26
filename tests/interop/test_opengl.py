"""What ``drjit.cuda`` has besides types: green contexts, and buffers and textures of OpenGL.

On a machine without a GPU each use says why there is none. Otherwise: over a library of the driver's functions that is
made of the machine, in a process of its own, since types know whether their backend is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

import drjit as dr
from drjit import cuda

ROOT = Path(__file__).resolve().parents[2]
USES: dict[str, Callable[[], Any]] = {
    "green_context": lambda: cuda.green_context(8), "ad.green_context": lambda: cuda.ad.green_context(sm_count=8),
    "GLInterop.from_buffer": lambda: cuda.GLInterop.from_buffer(1),
    "GLInterop.from_texture": lambda: cuda.GLInterop.from_texture(gl_texture=1),
    "register_gl_buffer": lambda: cuda.register_gl_buffer(1),
    "register_gl_texture": lambda: cuda.register_gl_texture(gl_texture=1),
    "unregister_cuda_resource": lambda: cuda.unregister_cuda_resource(None),
    "map_graphics_resource_ptr": lambda: cuda.map_graphics_resource_ptr(None),
    "map_graphics_resource_array": lambda: cuda.map_graphics_resource_array(None, mip_level=1),
    "unmap_graphics_resource": lambda: cuda.unmap_graphics_resource(None),
    "memcpy_2d_to_array_async": lambda: cuda.memcpy_2d_to_array_async(1, 2, 3, height=4, from_host=True)}


@pytest.mark.parametrize("name", USES)
def test_without_a_gpu_each_use_says_why(name: str) -> None:
    if dr.has_backend(dr.JitBackend.CUDA):
        pytest.skip("there is a GPU")
    names = {"ad.green_context": "green_context", "GLInterop.from_buffer": "register_gl_buffer",
             "GLInterop.from_texture": "register_gl_texture"}
    with pytest.raises(RuntimeError) as caught:
        USES[name]()
    assert str(caught.value).startswith(f"drjit.cuda.{names.get(name, name)}(): the backend 'CUDA' is not available on "
                                        "this machine: ")
    assert dr.detail.missing_backend(dr.JitBackend.CUDA) in str(caught.value)


@pytest.mark.parametrize(("use", "error", "message"), [
    (lambda: cuda.green_context(0), ValueError, r"green_context\(\): 'sm_count' must be an int >= 1, found 0"),
    (lambda: cuda.green_context(1.5), TypeError, r"green_context\(\): 'sm_count' must be an int, found float"),
    (lambda: cuda.GLInterop(), TypeError, r"use GLInterop.from_buffer\(\), or GLInterop.from_texture\(\)"),
    (lambda: cuda.register_gl_buffer("a"), TypeError, r"register_gl_buffer\(\): 'gl_buffer' must be an int, found str"),
    (lambda: cuda.register_gl_texture(-1), ValueError, r"register_gl_texture\(\): 'gl_texture' must be an int >= 0"),
    (lambda: cuda.map_graphics_resource_array(None, -1), ValueError, r"'mip_level' must be an int >= 0, found -1"),
    (lambda: cuda.memcpy_2d_to_array_async(1, 2, 0, 4), ValueError, r"'src_pitch' must be an int >= 1, found 0"),
    (lambda: cuda.memcpy_2d_to_array_async(1, 2, 3, 4, 1), TypeError, r"'from_host' must be a bool, found int")])
def test_arguments_are_checked(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use()


BEGIN = '''
import ctypes, gc
import numpy as np
import drjit_core as core
from drjit_core.cuda.driver import Driver
from drjit_core.runtime.gpu.backend import GPU
from tests.machine.driver import MachineDriver
from tests.machine.library import Library

library, CDLL = Library(MachineDriver()), ctypes.CDLL
ctypes.CDLL = lambda name: library
gpu = GPU(Driver())
ctypes.CDLL = CDLL
core.register(gpu)
import drjit as dr
from drjit import cuda
from drjit._base import capsules

def raises(error, text, work, *arguments):
    try:
        work(*arguments)
    except error as found:
        assert text in str(found), str(found)
    else:
        raise AssertionError(f"nothing was raised: {text}")

def left():
    gc.collect()
    return library.left("resource") + library.left("array") + library.left("green context")

'''
#: After each of them.
END = '''
assert not library.errors, library.errors
assert not left()
'''


PROGRAMS = {
    "without functions of OpenGL": """
        lost = library._functions.pop("cuGraphicsMapResources")
        raises(RuntimeError, "register_gl_buffer(): resources of OpenGL need a CUDA driver of version 12.1 or newer; "
               "that of this machine, 13.0, lacks a function: ", cuda.register_gl_buffer, 3)
        assert (dr.arange(cuda.Float, 3) + 1)[2] == 3
        library._functions["cuGraphicsMapResources"] = lost
    """,
    "green contexts": """
        from drjit.cuda import Float, green_context
        assert cuda.ad.green_context is green_context
        del library.launched[:]
        with green_context(9) as context:
            x = dr.arange(Float, 100) + 1
            dr.eval(x)
            y = dr.sum(x)
            assert y[0] == 5050
        assert (context.sm_count, context.requested_sm_count) == (16, 9)
        stream = context._context.part.stream
        assert {each for _, each in library.launched} == {stream}
        assert (x * 2)[99] == 200 and library.launched[-1][1] == gpu.driver.stream != stream
        capsule = context.remaining_ctx
        handle = capsules.pointer(id(capsule), b"CUcontext")
        assert library.left("green context") == [16, 4] and library.handles[handle][0] == "context"
        assert capsules.pointer(id(context.remaining_ctx), b"CUcontext") == handle
        with green_context(20) as whole:
            assert whole.remaining_ctx is None and whole.sm_count == 20
        try:
            with context, green_context(8):
                dr.eval(x + 7)
                assert library.launched[-1][1] not in (stream, gpu.driver._stream)
                raise KeyError
        except KeyError:
            pass
        assert gpu.driver.stream == gpu.driver._stream
        raises(RuntimeError, "drjit.cuda.green_context(): 21 multiprocessors were asked for, the GPU has 20.",
               green_context, 21)
        raises(RuntimeError, "drjit.cuda.green_context.__exit__(): this thread has not entered", context.__exit__, None,
               None, None)

        @dr.freeze
        def frozen(x):
            return dr.sqrt(x) + dr.sum(x)

        for round_ in range(4):
            before = len(library.launched)
            with context:
                assert frozen(x + round_)[0] > 0
            assert {each for _, each in library.launched[before:]} == {stream}
            before = len(library.launched)
            assert frozen(x - round_)[99] > 0
            assert {each for _, each in library.launched[before:]} == {gpu.driver.stream}

        @dr.freeze
        def long(x):  # launched as one graph
            for _ in range(9):
                x = x * (2 / dr.sum(x))
            return x

        for round_ in range(6):
            before = len(library.launched)
            if round_ % 2:
                with context:
                    assert abs(dr.sum(long(x))[0] - 2) < 1e-5
            else:
                assert abs(dr.sum(long(x))[0] - 2) < 1e-5
            where = stream if round_ % 2 else gpu.driver.stream
            assert {each for _, each in library.launched[before:]} == {where}
        assert ("cuGraphLaunch" in library.calls) == core.rooms.compiled
        del context, whole, capsule
    """,
    "buffers": """
        library.opengl[3] = bytearray(b"." * 40)
        interop = cuda.GLInterop.from_buffer(3)
        numbers = np.arange(10, dtype=np.float32)
        for cls, values in ((cuda.TensorXf, numbers.reshape(2, 5)), (cuda.ad.Float, numbers + 1),
                            (cuda.UInt8, np.arange(4, dtype=np.uint8))):
            x = cls(values)
            assert interop.map().upload(x + 1).unmap() is interop
            assert bytes(library.opengl[3])[:values.nbytes] == (values + 1).tobytes()
        assert bytes(library.opengl[3])[4:8] == np.float32(3).tobytes()  # what is behind stays
        with interop as mapped:
            assert mapped is interop
            interop.upload(cuda.Float())
            raises(RuntimeError, "drjit.cuda.map_graphics_resource_ptr(): the CUDA driver has failed: "
                   "cuGraphicsMapResources: CUDA_ERROR_ALREADY_MAPPED (208).", interop.map)
            raises(ValueError, "GLInterop.upload(): 'tensor' has 44 bytes (shape (11,)), the buffer 40.",
                   interop.upload, dr.zeros(cuda.Float, 11))
            for wrong in (np.zeros(3), dr.llvm.Float(1), cuda.Array3f(1), 3, None):
                raises(TypeError, "GLInterop.upload(): 'tensor' must be a tensor or a flat array of drjit.cuda, found",
                       interop.upload, wrong)
        raises(RuntimeError, "GLInterop.upload(): nothing is mapped; call map() before.", interop.upload, cuda.Float(1))
        raises(RuntimeError, "NOT_MAPPED (211)", interop.unmap)
        raises(TypeError, "GLInterop.map(): buffers have no levels, found mip_level=1", interop.map, 1)
        try:
            with interop:
                raise KeyError
        except KeyError:
            pass
        interop.map()
        del interop, mapped  # which is mapped: it is unmapped before it goes
        assert not left()
        raises(RuntimeError, "register_gl_buffer(): the CUDA driver has failed: cuGraphicsGLRegisterBuffer: "
               "CUDA_ERROR_INVALID_VALUE (1).", cuda.GLInterop.from_buffer, 4)
        library.opengl = None
        raises(RuntimeError, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT (219)", cuda.GLInterop.from_buffer, 3)
        library.opengl = {}
    """,
    "textures": """
        one, four = np.zeros((3, 5, 1), np.float32), np.zeros((4, 2, 4), np.uint8)
        half = np.zeros((2, 1, 4), np.uint8)
        library.opengl.update({1: (0x20, [one]), 2: (0x01, [four, half]), 3: (0x99, [one]), 4: bytearray(8)})
        interop = cuda.GLInterop.from_texture(1)
        x = np.arange(15, dtype=np.float32)
        for shape in ((3, 5), (3, 5, 1)):
            x += 1
            interop.map().upload(cuda.TensorXf(x.reshape(shape)) * 2).unmap()
            assert (one[..., 0] == 2 * x.reshape(3, 5)).all()
        with interop:
            for shape in ((5, 3), (15,), (3, 5, 3), (1, 3, 5)):
                raises(ValueError, f"'tensor' must have the shape (3, 5, 1) or (3, 5) of the texture, found {shape}.",
                       interop.upload, dr.zeros(cuda.TensorXf, shape))
            for cls, name in ((cuda.TensorXf16, "float16"), (cuda.TensorXi, "int32"), (cuda.TensorXb, "bool8")):
                raises(TypeError, f"'tensor' must have elements of type float32, as the texture does, found {name}.",
                       interop.upload, dr.zeros(cls, (3, 5)))
        with cuda.GLInterop.from_texture(2) as interop:
            interop.upload(dr.reshape(cuda.TensorXu8(dr.arange(cuda.UInt8, 32)), (4, 2, 4)))
        assert four.ravel().tolist() == list(range(32))
        interop.map(mip_level=1).upload(dr.full(cuda.TensorXu8, 7, (2, 1, 4))).unmap()
        assert (half == 7).all() and four.ravel().tolist() == list(range(32))
        raises(RuntimeError, "CUDA_ERROR_INVALID_VALUE (1)", interop.map, 2)
        interop.map().unmap()  # it is not mapped after a failure
        with cuda.GLInterop.from_texture(3) as interop:
            raises(TypeError, "the texture must have two dimensions, and numbers of 8, 16 or 32 bits",
                   interop.upload, cuda.TensorXf(x.reshape(3, 5)))
        raises(RuntimeError, "cuGraphicsGLRegisterImage", cuda.GLInterop.from_texture, 4)
        del interop
    """,
    "functions": """
        texels = np.zeros((3, 2, 4), np.uint8)
        library.opengl.update({1: bytearray(range(16)), 2: (0x01, [texels])})
        buffer, texture = cuda.register_gl_buffer(1), cuda.register_gl_texture(2)
        address, nbytes = cuda.map_graphics_resource_ptr(buffer)
        assert nbytes == 16 and gpu.driver.download(address, 16) == bytes(range(16))
        cuda.unmap_graphics_resource(buffer)
        array = cuda.map_graphics_resource_array(texture, mip_level=0)
        host = np.arange(24, dtype=np.uint8)
        cuda.memcpy_2d_to_array_async(array, host.ctypes.data, 8, 3, from_host=True)
        assert texels.ravel().tolist() == list(range(24))
        x = dr.full(cuda.UInt8, 9, 16)
        dr.eval(x)
        cuda.memcpy_2d_to_array_async(array, x.__cuda_array_interface__["data"][0], 8, 2)
        assert texels.ravel().tolist() == [9] * 16 + list(range(16, 24))
        for width, height in ((9, 3), (8, 4)):
            raises(RuntimeError, "memcpy_2d_to_array_async(): the CUDA driver has failed: cuMemcpy2DAsync_v2: "
                   "CUDA_ERROR_INVALID_VALUE (1).", cuda.memcpy_2d_to_array_async, array, host.ctypes.data, width,
                   height, True)
        cuda.unmap_graphics_resource(texture)
        raises(RuntimeError, "INVALID_HANDLE", cuda.memcpy_2d_to_array_async, array, host.ctypes.data, 8, 3, True)
        raises(RuntimeError, "NOT_MAPPED_AS_POINTER (213)", cuda.map_graphics_resource_ptr, texture)
        raises(RuntimeError, "NOT_MAPPED_AS_ARRAY (212)", cuda.map_graphics_resource_array, buffer)
        for resource in (buffer, texture):  # neither is mapped after a failure
            cuda.unregister_cuda_resource(resource)
        for function in (cuda.unregister_cuda_resource, cuda.map_graphics_resource_ptr, cuda.unmap_graphics_resource,
                         cuda.map_graphics_resource_array):
            raises(TypeError, f"drjit.cuda.{function.__name__}(): 'cuda_resource' has been unregistered.", function,
                   buffer)
            raises(TypeError, f"drjit.cuda.{function.__name__}(): 'cuda_resource' must be a capsule of "
                   "register_gl_buffer() or register_gl_texture(), found int", function, 3)
    """,
    "they go on in green contexts": """
        library.opengl[3] = bytearray(8)
        with cuda.green_context(8) as context:
            x = cuda.UInt8(np.arange(8)) + 1
            interop = cuda.GLInterop.from_buffer(3).map().upload(x).unmap()
        assert library.opengl[3] == bytes(range(1, 9))
        interop.map().upload(x + 1).unmap()
        assert library.opengl[3] == bytes(range(2, 10))
        del context, interop
    """,
}


def test_on_the_machine(tmp_path: Path) -> None:
    program = BEGIN
    for number, (name, text) in enumerate(PROGRAMS.items()):
        program += f"\ndef program_{number}():  # {name}\n{indent(dedent(text), '    ')}\nprogram_{number}()\n{END}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT,
                           env=os.environ | {"DRJIT_CACHE_DIR": str(tmp_path)})
    assert found.returncode == 0, found.stderr + "\n".join(
        f"{line:4} {text}" for line, text in enumerate(program.splitlines(), 1))
    assert not found.stderr, found.stderr  # finalisers that fail
