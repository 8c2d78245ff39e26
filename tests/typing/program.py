"""A program for type checkers: what they know, and what they must object to (lines marked as errors). It is not run."""

from typing import Any, assert_type

import numpy as np

import drjit as dr
from drjit import auto, scalar
from drjit.llvm import (
    PCG32,
    Array2f,
    Array3b,
    Array3f,
    Array3i,
    Array3u,
    Array4f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float32,
    Float64,
    Int,
    Int64,
    Matrix3f,
    Matrix4f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
    UInt32,
    UInt64,
    ad,
)


def promotion(f: Float, i: Int, u: UInt, b: Bool, d: Float64, v: Array3f, k: Array3i, w: Array3u) -> None:
    assert_type(w + v, Array3f)
    assert_type(v + w, Array3f)
    assert_type(f + 1, Float)
    assert_type(1 + f, Float)
    assert_type(f + 1.5, Float)
    assert_type(f + i, Float)
    assert_type(i * 1.5, Float)
    assert_type(i + u, UInt)
    assert_type(b + 1, Int)
    assert_type(i / 2.0, Float)
    assert_type(v + f, Array3f)
    assert_type(v * 2, Array3f)
    assert_type(k * f, Array3f)
    assert_type(f - k, Array3f)
    assert_type(v * d, dr.llvm.Array3f64)
    assert_type(v * [1, 2, 3], Array3f)
    assert_type(i // 2 << 1, Int)
    assert_type(Int64(1) + i, Int64)
    assert_type(f ** 2, Float)
    assert_type(f & b, Float)
    assert_type(b & f, Float)
    assert_type(b & v, Array3f)
    assert_type((v > 1) & f, Array3f)
    assert_type(dr.sin(np.ones(3)), Any)
    assert_type(dr.maximum(f, np.ones(3)), Any)
    assert_type(dr.lerp(i, 2, 1), Int)
    assert_type(b | ~b, Bool)
    assert_type(-v, Array3f)
    assert_type(abs(i), Int)
    x: Array3f = w + v
    y: Array3u = w + v  # error
    f | f  # error
    ~f  # error
    -b  # error
    i // f  # error
    b + b  # error
    v + Array2f(1)  # error
    v + "a"  # error
    z: Float = i / 2  # error
    f << 1  # error
    f + dr.cuda.Float(1)  # error


def comparisons(f: Float, v: Array3f, k: Array3i, z: Complex2f, t: TensorXf) -> None:
    assert_type(f == f, Bool)
    assert_type(v < 1, Array3b)
    assert_type(f < k, Array3b)
    assert_type(k >= v, Array3b)
    assert_type(z == 1, dr.llvm.Array2b)
    assert_type(t != t, TensorXb)
    z < 1  # error
    v < "a"  # error


def components(f: Float, v: Array3f, a: Array4f, m: Matrix3f, x: ArrayXf, z: Complex2f, q: Quaternion4f) -> None:
    assert_type(v[0], Float)
    assert_type(v.x, Float)
    assert_type(v.zyx, Array3f)
    assert_type(a.xy, Array2f)
    assert_type(v.zzyx, Array4f)
    assert_type(f[0], float)
    assert_type(f[1:], Float)
    assert_type(v[0, 1], float)
    assert_type(m[0], Array3f)
    assert_type(m[0, 1], Float)
    assert_type(x[0], Float)
    assert_type(q.w, Float)
    assert_type(z.real, Float)
    assert_type(q.imag, Array3f)
    assert_type([c for c in v], list[Float])
    assert_type([c for c in f], list[float])
    assert_type(len(v), int)
    assert_type(v.shape, tuple[int, ...])
    v.x = f
    v.y = 1
    v.zx = Array2f(1)
    v[0] = 2.5
    v[1:] = [1, 2]
    f[f > 1] = 0
    z.real = f
    v.foo  # error
    f.x  # error
    v.w  # error
    v.xw  # error
    m.x  # error
    v.x = "a"  # error


def algebra(f: Float, v: Array3f, m: Matrix3f, z: Complex2f, q: Quaternion4f, t: TensorXf, i: TensorXi) -> None:
    assert_type(v @ v, Float)
    assert_type(m @ v, Array3f)
    assert_type(m * v, Array3f)
    assert_type(v @ m, Array3f)
    assert_type(m @ m, Matrix3f)
    assert_type(m * f, Matrix3f)
    assert_type(2 * m, Matrix3f)
    assert_type(m.T, Matrix3f)
    assert_type(z * 2.0, Complex2f)
    assert_type(z + 1j, Complex2f)
    assert_type(abs(z), Float)
    assert_type(q * q, Quaternion4f)
    assert_type(t + f, TensorXf)
    assert_type(f * t, TensorXf)
    assert_type(i * f, TensorXf)
    assert_type(i + 1.5, TensorXf)
    assert_type(t[..., 0], TensorXf)
    assert_type(t.array, Float)
    assert_type(t.T, TensorXf)
    assert_type(t @ t, TensorXf)
    z @ z  # error
    m + v  # error
    v.T  # error
    t + v  # error


def functions(f: Float, i: Int, u: UInt, b: Bool, v: Array3f, k: Array3u, m: Matrix3f, z: Complex2f) -> None:
    assert_type(dr.sin(v), Array3f)
    assert_type(dr.sin(1.0), float)
    assert_type(dr.sincos(f), tuple[Float, Float])
    assert_type(dr.abs(z), Float)
    assert_type(dr.popcnt(5), int)
    assert_type(dr.maximum(k, v), Array3f)
    assert_type(dr.maximum(v, 1), Array3f)
    assert_type(dr.maximum(i, 1.5), Float)
    assert_type(dr.maximum(1, 2), int)
    assert_type(dr.fma(f, 2, v.x), Float)
    assert_type(dr.clip(v, 0, 1), Array3f)
    assert_type(dr.lerp(v, v, f), Array3f)
    assert_type(dr.select(v < 1, v, 0), Array3f)
    assert_type(dr.select(b, v, f), Array3f)
    assert_type(dr.select(f < 1, f, i), Float)
    assert_type(dr.select(b, 1, 0), Int)
    assert_type(dr.isnan(v), Array3b)
    assert_type(dr.sum(v), Float)
    assert_type(dr.sum(f), Float)
    assert_type(dr.sum(v, axis=None), Float)
    assert_type(dr.sum(m), Array3f)
    assert_type(dr.sum(TensorXf([1]), axis=0), TensorXf)
    assert_type(dr.all(v < 1), Bool)
    assert_type(dr.count(b), UInt)
    assert_type(dr.dot(v, v), Float)
    assert_type(dr.dot(v, k), Float)
    assert_type(dr.norm(v), Float)
    assert_type(dr.normalize(v), Array3f)
    assert_type(dr.cross(v, k), Array3f)
    assert_type(dr.det(m), Float)
    assert_type(dr.matmul(m, v), Array3f)
    assert_type(dr.transform_decompose(Matrix4f(1)), tuple[Matrix3f, Quaternion4f, Array3f])
    assert_type(dr.zeros(Array3f, 10), Array3f)
    assert_type(dr.arange(Float, 10), Float)
    assert_type(dr.arange(UInt, 1, 10, 2), UInt)
    assert_type(dr.linspace(Float, 0, 1, 10), Float)
    assert_type(dr.full(TensorXf, 1, (2, 3)), TensorXf)
    assert_type(dr.gather(Float, f, i), Float)
    assert_type(dr.gather(Array3f, f, u, active=b), Array3f)
    assert_type(dr.ravel(v), Float)
    assert_type(dr.reshape(TensorXf, f, (2, -1)), TensorXf)
    assert_type(dr.concat([f, f]), Float)
    assert_type(dr.meshgrid(f, f), tuple[Float, ...])
    assert_type(dr.value_t(Array3f), type[Float])
    assert_type(dr.mask_t(v), type[Array3b])
    assert_type(dr.width(v), int)
    assert_type(dr.eval(v, f), bool)
    assert_type(dr.while_loop((f, i), lambda f, i: f < 1, lambda f, i: (f + 1, i)), tuple[Float, Int])
    dr.scatter(f, i, u)
    dr.sin("x")  # error
    dr.sin()  # error
    dr.zeros(Array3f, "a")  # error
    dr.gather(Float, f, "x")  # error
    dr.maximum(v, "x")  # error
    dr.maximum(v, Array2f(1))  # error
    dr.norm(1.5)  # error
    dr.no_such_function(f)  # error
    dr.det(v)  # error


def construction(array: np.ndarray[Any, np.dtype[np.float32]], values: list[float], u: UInt) -> None:
    assert_type(Float(), Float)
    assert_type(Float(1, 2, 3), Float)
    Float([1, 2, 3]), Float(range(3)), Float(array), Float(u), Float(values), Float(array[0]), Float(memoryview(b""))
    Array3f(1), Array3f(1, 2, 3), Array3f([1, 2, 3]), Array3f(Float(1), 2, u), Array3f(array), Array3f([[1], [2], [3]])
    Matrix3f(1), Matrix3f([1, 0, 0], [0, 1, 0], [0, 0, 1]), Complex2f(1, 2), Complex2f(1j), Bool(True), Int(True)
    TensorXf([1, 2]), TensorXf(Float(1, 2), shape=(2, 1)), TensorXf(array)
    assert_type(Float32(1), Float)
    assert_type(UInt32(1), UInt)
    Float("a")  # error
    Float(None)  # error
    Array3f("a")  # error


def in_place(f: Float, i: Int, v: Array3f) -> None:
    f += i
    f *= 2
    v += f
    v *= 2
    i <<= 1
    i += 1.5  # error
    f += v  # error


def packages(f: Float, g: ad.Float, v: ad.Array3f, s: scalar.Array3f, a: auto.Float) -> None:
    assert_type(f + g, ad.Float)
    assert_type(v * f, ad.Array3f)
    assert_type(s[0], float)
    assert_type(s * 2, scalar.Array3f)
    assert_type(dr.sum(s), float)
    assert_type(s + Array3f(1), Array3f)
    assert_type(a, Float)
    x: Float = g  # error


def generators(f: Float) -> None:
    rng = PCG32(1000)
    assert_type(rng.next_float32(), Float)
    assert_type(rng.next_uint64(f < 1), UInt64)
    assert_type(rng.next_float(Float64), Float64)
    assert_type(rng + 5, PCG32)
    assert_type(rng - rng, Int64)
    assert_type(ad.Philox4x32(1, 2).next_float32x4(), ad.Array4f)
    rng.next_float()  # error
    rng.no_such_method()  # error


def generic(x: dr.ArrayBase, y: dr.AnyArray) -> None:
    dr.sin(x * 2 + y)
    x.shape, x.numpy(), x[0]


def twice(x: dr.ArrayT) -> dr.ArrayT:
    return dr.sqrt(x)


def entry(x: "dr.ArrayBase[Any, Any, dr.ValT, Any, Any, Any, Any]") -> dr.ValT:
    return x[0]


def use(v: Array3f) -> None:
    assert_type(twice(v), Array3f)
    assert_type(entry(v), Float)
    twice(1)  # error
