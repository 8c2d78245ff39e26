"""Random networks: values as NumPy computes them in double precision, gradients as differences of that.

    python conformance/random_networks.py [--cases 20000] [--seed N] [--part K/N] [--types f64 f32 f16 bf16]

A *case* is a network of random depth, widths, layers (nested ones as well), precision and initial weights, in one
*form*: of tensors, or packed with one of the layouts, as it is or in a loop, branch, call or frozen function. Values
may differ from the model's by what rounding does: the model runs again with results of layers that are moved by about
as much, each element at random. Gradients of all parameters and inputs are compared along one direction with a
difference of the model, in single and double precision. Differences are shown; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import collections
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]

import drjit as dr  # noqa: E402
from drjit import nn  # noqa: E402
from drjit.llvm import ad  # noqa: E402

erf = np.vectorize(math.erf, otypes=[float])
FORMS = "tensor", "inference", "training", "loop", "branch", "call", "frozen"
#: Tensor types, and the error of a rounding.
TYPES: dict[str, tuple[Any, float]] = {"f64": (ad.TensorXf64, 2.0**-53), "f32": (ad.TensorXf, 2.0**-24),
                                       "f16": (ad.TensorXf16, 2.0**-11), "bf16": (ad.TensorXbf16, 2.0**-8)}


def sigmoid(x: Any) -> Any:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


#: Layers without parameters, and what they do to features and samples.
PLAIN: dict[str, tuple[Any, Any]] = {
    "relu": (nn.ReLU, lambda x: np.maximum(x, 0)), "leaky": (nn.LeakyReLU, lambda x: np.where(x >= 0, x, 0.01 * x)),
    "exp": (nn.Exp, np.exp), "exp2": (nn.Exp2, np.exp2), "tanh": (nn.Tanh, np.tanh),
    "sigmoid": (nn.Sigmoid, sigmoid),
    "silu": (nn.SiLU, lambda x: x * sigmoid(x)), "gelu": (nn.GELU, lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))),
    "softplus": (nn.Softplus, lambda x: np.logaddexp(x, 0)),
    "elu": (nn.ELU, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "sin": (lambda: nn.Sin(3), lambda x: np.sin(3 * x)), "identity": (nn.Identity, lambda x: x),
    "scale": (lambda: nn.ScaleAdd(0.5, -0.25), lambda x: 0.5 * x - 0.25),
    "encode": (lambda: nn.SinEncode(2, 0.25), lambda x: np.stack([
        wave(2 * np.pi * (row * 2**octave + octave * 0.25))
        for row in x for octave in range(2) for wave in (np.sin, np.cos)]))}
NAMES = {type(make()): name for name, (make, _) in PLAIN.items()}


def layers(rng: Any, depth: int, nested: int = 1) -> list[Any]:
    """Random layers that fit each other, whatever the first one gets."""
    found: list[Any] = []
    for _ in range(depth):
        width = int(rng.integers(1, 9) if rng.integers(8) else rng.integers(9, 40))
        found.append(nn.Linear(-1, width, bias=bool(rng.integers(3)),
                               init=str(rng.choice(["default", "torch", "lecun_normal", "he_uniform"]))))
        kind = int(rng.integers(10))
        if kind == 0 and nested:
            found.append(nn.Skip(*layers(rng, 1, nested - 1), nn.Linear(-1, found[-1].config[1])))
        elif kind == 1 and nested:
            found.append(nn.Concat(nn.Identity(), nn.Sequential(*layers(rng, 1, nested - 1))))
        elif kind == 2:
            found.append((nn.LayerNorm, nn.RMSNorm)[int(rng.integers(2))](eps=0.1, affine=bool(rng.integers(2))))
        found.append(PLAIN[str(rng.choice(list(PLAIN)))][0]())
        if isinstance(found[-1], nn.SinEncode | nn.Exp | nn.Exp2):
            found.insert(-1, nn.Tanh())  # which keeps within bounds what they enlarge
    return found


class Model:
    """What a network computes, with parameters by name; results of layers may be moved by some multiple of themselves.
    """

    def __init__(self, parameters: dict[str, Any], amount: float = 0, rng: Any = None) -> None:
        self.parameters, self.amount, self.rng = parameters, amount, rng

    def moved(self, x: Any, size: Any = None) -> Any:
        if self.amount:
            x = x + self.amount * np.maximum(abs(x), 0 if size is None else size) * self.rng.choice([-1, 1], x.shape)
        return x

    def __call__(self, module: Any, x: Any, path: str = "") -> Any:
        get = self.parameters.get
        if isinstance(module, nn.Linear):
            w, b = get(f"{path}weights"), get(f"{path}bias")
            extra = 0 if b is None else b[:, None]
            return self.moved(w @ x + extra, abs(w) @ abs(x) + abs(extra))
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            x = x - x.mean(axis=0) if isinstance(module, nn.LayerNorm) else x
            x = self.moved(x / np.sqrt((x * x).mean(axis=0) + 0.1), abs(x).max(axis=0))
            w, b = get(f"{path}weights"), get(f"{path}bias")
            return x * (1 if w is None else w[:, None]) + (0 if b is None else b[:, None])
        if isinstance(module, nn.Concat):
            return np.concatenate([self(each, x, f"{path}layers.{k}.") for k, each in enumerate(module.layers)])
        if isinstance(module, nn.Sequential):
            y = x
            for k, each in enumerate(module.layers):
                y = self(each, y, f"{path}layers.{k}.")
            return self.moved(x + y) if isinstance(module, nn.Skip) else y
        return self.moved(PLAIN[NAMES[type(module)]][1](self.moved(x)), 0.1)


def to_numpy(value: Any) -> Any:
    """A tensor in double precision."""
    return np.array(value.numpy()).astype(np.float64)


def of_form(form: str, net: Any, x: Any) -> Any:
    """Rows of results, in double precision."""
    if form == "tensor":
        return ad.TensorXf64(net(x))
    v = nn.CoopVec(x)
    if form == "loop":
        # what the network returns is more or less than it gets: a state of numbers of its components
        count = len(net(nn.CoopVec(x)))
        leaf, width = type(x)._leaf, x.shape[1]
        y = dr.while_loop((ad.UInt(0), v, [dr.zeros(leaf, width) for _ in range(count)]), lambda k, v, y: k < 1,
                          lambda k, v, y: (k + 1, v, list(net(v))), max_iterations=1)[2]
        return ad.TensorXf64(nn.cast(nn.CoopVec(y), ad.Float64))
    if form == "branch":
        rows = list(v)
        yes = dr.opaque(ad.Bool, True, x.shape[1])
        y = dr.if_stmt((rows,), yes, lambda rows: list(net(nn.CoopVec(rows))),
                       lambda rows: [r * 0 for r in net(nn.CoopVec(rows))], mode="symbolic")
        return ad.TensorXf64(nn.cast(nn.CoopVec(y), ad.Float64))
    if form == "call":
        index = dr.opaque(ad.UInt, 1, x.shape[1])
        y = dr.switch(index, [lambda v: net(v * 0), lambda v: net(v)], v)
        return ad.TensorXf64(nn.cast(y, ad.Float64))
    if form == "frozen":
        frozen = dr.freeze(lambda net, v: list(net(v)))
        frozen(net, nn.CoopVec(x * 0))
        return ad.TensorXf64(nn.cast(nn.CoopVec(frozen(net, v)), ad.Float64))
    return ad.TensorXf64(nn.cast(net(v), ad.Float64))


def run(seed: int, kind: str) -> str:
    """What is wrong with a case; empty if nothing is."""
    rng = np.random.default_rng(seed)
    dtype, unit = TYPES[kind]
    form, inputs, samples = str(rng.choice(FORMS)), int(rng.integers(1, 9)), int(rng.choice([1, 2, 15, 16, 33, 100]))
    net = nn.Sequential(*layers(rng, int(rng.integers(1, 5)))).alloc(dtype, inputs, rng=dr.rng(seed=seed))
    for key in net:
        if key.endswith("bias"):
            net[key] = dtype(rng.uniform(-0.5, 0.5, net[key].shape).astype(np.float32))
    x = dtype(rng.uniform(-1, 1, (inputs, samples)).astype(np.float32))
    given, parameters = to_numpy(x), {key: to_numpy(net[key]) for key in net}
    wanted = Model(parameters)(net, given)
    spread = np.max([abs(Model(parameters, 2 * unit, rng)(net, given) - wanted) for _ in range(6)], axis=0)
    most = 6 * np.maximum(spread, spread.mean()) + 4 * unit * np.maximum(abs(wanted), 0.1)
    what = f"seed {seed}, {kind}, {form}, {inputs} × {samples}: {net}"
    packed = net if form == "tensor" else nn.pack(net, layout="inference" if form == "inference" else "training")
    differentiates = kind in ("f64", "f32") and form != "frozen"
    if differentiates:
        dr.enable_grad(x, *([packed[key] for key in packed]))
    found = of_form(form, packed, x)
    values = to_numpy(dr.detach(found))
    if values.shape != wanted.shape:
        return f"{what}: shape {values.shape} instead of {wanted.shape}"
    wrong = ~(abs(values - wanted) <= most)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        return f"{what}: {values[place]:.9g} instead of {wanted[place]:.9g} at {place}, of {most[place]:.2g}"
    if not differentiates:
        return ""
    factors = rng.normal(size=wanted.shape)
    dr.backward(dr.sum(found * ad.TensorXf64(factors), axis=None))
    direction = {key: rng.normal(size=value.shape) for key, value in parameters.items()}
    move = rng.normal(size=given.shape)
    gradients = nn.unpack(_gradients(packed)) if form != "tensor" else packed
    by_parameters = [_at(gradients, key) if form != "tensor" else packed[key].grad for key in parameters]
    dr.eval(x.grad, by_parameters)
    by_input = to_numpy(x.grad) * move
    total, parts = float(by_input.sum()), np.abs(by_input).sum()
    for gradient, along in zip(map(to_numpy, by_parameters), direction.values(), strict=True):
        total += float((gradient.reshape(along.shape) * along).sum())
        parts += np.abs(gradient.reshape(along.shape) * along).sum()
    step = 1e-5
    ends = [(Model({key: value + h * direction[key] for key, value in parameters.items()})(net, given + h * move)
             * factors).sum() for h in (step, -step, step / 2, -step / 2)]
    slope, closer = (ends[0] - ends[1]) / (2 * step), (ends[2] - ends[3]) / step
    if abs(slope - closer) > 1e-5 * max(abs(slope), parts * 0.01, 1e-3):
        return ""  # a kink
    allowed = (2e-3 if kind == "f32" else 1e-5) * max(abs(closer), parts * 0.05, 1e-3)
    return "" if abs(total - closer) <= allowed else f"{what}: slope {total:.9g} instead of {closer:.9g}"


def _gradients(packed: Any) -> Any:
    """A packed network like another one, of gradients."""
    result = dr.copy(packed)
    buffer = dr.detach(packed["weights"].grad)
    for key in result:
        result[key] = buffer
    return result


def _at(net: Any, key: str) -> Any:
    """A parameter of an unpacked network of views, as a tensor."""
    value: Any = net
    for name in key.split("."):
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    return type(value._tensor())(value) if not value._flat else value._tensor()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="one of several parts of the cases")
    parser.add_argument("--types", nargs="*", default=list(TYPES))
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    failures, counts, start = 0, collections.Counter[str](), time.perf_counter()
    for number, seed in enumerate(range(arguments.seed + part - 1, arguments.seed + arguments.cases, parts)):
        kind = arguments.types[seed % len(arguments.types)]
        counts[kind] += 1
        try:
            problem = run(seed, kind)
        except Exception as error:  # whatever it is, it is one of the differences
            problem = f"seed {seed}, {kind}: {type(error).__name__}: {str(error)[:300]}"
        if problem:
            failures += 1
            print(problem, flush=True)
        if number % 100 == 99:
            print(f"{number + 1} networks, {failures} differences, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{sum(counts.values())} networks ({', '.join(f'{k} {v}' for k, v in counts.items())}), {failures} "
          "differences")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
