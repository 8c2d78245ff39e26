"""Calls that are like one before are recognised at once; what is different in any place is noticed all the same."""

import copy
import functools
import random
import types

import numpy as np
import pytest

import drjit as dr
from drjit._freeze import frozen as module
from drjit.llvm.ad import Array3f, Float, TensorXf
from drjit.opt import SGD, Adam

HITS = 3


def same(a, b):
    return np.array_equal(np.array(a), np.array(b))


def arrays():
    return dr.arange(Float, 4) + dr.opaque(Float, 1), dr.arange(Float, 4) + dr.opaque(Float, 5)


class Thing:
    factor = 2

    def __init__(self, x):
        self.x, self.k = x, 1

    def scale(self, x):
        return x * self.factor


def default(x, k=2):
    return x * k


def named(x, *, k=2):
    return x * k


def by_default(x):
    return default(x) + named(x)


strength = 3


def by_global(x):
    return x * strength


other = types.ModuleType("other_module_of_a_test")
exec("def weight(x):\n    return x * 2\nnumber = 3\n", vars(other))
other.__file__ = __file__


def by_module(x):
    return other.weight(x) * other.number


def through(make, function, change, *, again=None):
    """Call a frozen function several times, change something, and compare with the function as it is."""
    frozen = dr.freeze(function)
    args = make()
    for _ in range(HITS):
        assert same(frozen(*args), function(*args))
    before = frozen.n_recordings
    args = change(args) or args
    for _ in range(HITS):
        assert same(frozen(*args), function(*args))
    assert frozen.n_recordings == before + (again is not False), "recorded again"


def sum_of(a, b):
    return a * 2 + b


CHANGES = {
    "number": (lambda: (*arrays(), 2), lambda a, b, k: a * k + b, lambda args: (*args[:2], 3)),
    "type of a number": (lambda: (*arrays(), 2), lambda a, b, k: a + (b if type(k) is int else 0),
                         lambda args: (*args[:2], 2.0)),
    "sign of zero": (lambda: (arrays()[0], 0.0), lambda a, k: a * (1 if str(k)[0] == "-" else 2),
                     lambda args: (args[0], -0.0)),
    "entry": (lambda: ({"a": arrays()[0], "k": 2},), lambda d: d["a"] * d["k"], lambda args: args[0].update(k=4)),
    "order of keys": (lambda: ({"a": arrays()[0], "k": arrays()[1]},), lambda d: next(iter(d.values())),
                      lambda args: ({"k": args[0]["k"], "a": args[0]["a"]},)),
    "another key": (lambda: ({"a": arrays()[0]},), lambda d: next(iter(d.values())) * (2 if "a" in d else 3),
                    lambda args: ({"b": args[0]["a"]},)),
    "length": (lambda: (list(arrays()),), lambda each: sum(each[1:], each[0]) * len(each),
               lambda args: args[0].append(arrays()[0])),
    "arrays that are one": (arrays, sum_of, lambda args: (args[0], args[0])),
    "literals that are one": (lambda: (Float(1), Float(2)), sum_of, lambda args: (args[0], args[0])),
    "lists that are one": (lambda: ([arrays()[0]], [arrays()[0]]), lambda a, b: a[0] * (2 if a is b else 3),
                           lambda args: (args[0], args[0])),
    "shape": (lambda: (TensorXf(arrays()[0], (2, 2)),), lambda t: t.array * t.shape[0],
              lambda args: (TensorXf(args[0].array, (4, 1)),)),
    "type of an array": (lambda: (arrays()[0],), lambda x: x * (2 if isinstance(x, Float) else 3),
                         lambda args: (dr.detach(args[0], preserve_type=False),)),
    "derivatives": (lambda: (arrays()[0],), lambda x: x * (2 if dr.grad_enabled(x) else 3),
                    lambda args: dr.enable_grad(args[0])),
    "attribute": (lambda: (Thing(arrays()[0]),), lambda t: t.x * t.k, lambda args: setattr(args[0], "k", 3)),
    "attribute of a class": (lambda: (Thing(arrays()[0]),), lambda t: t.scale(t.x),
                             lambda args: setattr(args[0], "factor", 5)),
    "contents of a NumPy array": (lambda: (arrays()[0], np.array([1, 2])), lambda x, a: x * int(a[0]),
                                  lambda args: args[1].__setitem__(0, 7)),
    "a set": (lambda: (arrays()[0], {1}), lambda x, s: x * len(s), lambda args: args[1].add(2)),
    "a component": (lambda: (lambda v: (v, v.x))(Array3f(*arrays(), 1)), lambda v, x: v.y * (2 if x is v.x else 3) + x,
                    lambda args: (args[0], args[0].y)),
    "a function": (lambda: (arrays()[0], lambda x: x * 2), lambda x, f: f(x), lambda args: (args[0], lambda x: x * 3)),
    "what a partial has": (lambda: (arrays()[0], functools.partial(default, k=3)), lambda x, f: f(x),
                           lambda args: (args[0], functools.partial(default, k=4))),
    "a method": (lambda: (arrays()[0], Thing(None).scale), lambda x, f: f(x) + f.__self__.k,
                 lambda args: setattr(args[1].__self__, "k", 9)),
    "a default value": (lambda: (arrays()[0],), by_default, lambda args: setattr(default, "__defaults__", (7,))),
    "a named one": (lambda: (arrays()[0],), by_default, lambda args: setattr(named, "__kwdefaults__", {"k": 8})),
    "a global": (lambda: (arrays()[0],), by_global, lambda args: globals().update(strength=strength + 1)),
    "a function of a module": (lambda: (arrays()[0],), by_module,
                               lambda args: exec("def weight(x):\n    return x * 20\n", vars(other))),
    "a number of a module": (lambda: (arrays()[0],), by_module, lambda args: setattr(other, "number", 11)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_different_is_noticed(name):
    through(*CHANGES[name])


def test_a_class_that_changes_is_noticed():
    class Own:
        factor = 2

        def scale(self, x):
            return x * self.factor

    thing = Own()
    x = arrays()[0]
    frozen = dr.freeze(lambda: thing.scale(x))
    for _ in range(HITS):
        assert same(frozen(), x * 2)
    Own.factor = 3
    for _ in range(HITS):
        assert same(frozen(), x * 3)
    Own.scale = lambda self, x: x - self.factor
    for _ in range(HITS):
        assert same(frozen(), x - 3)


def test_a_variable_that_changes_is_noticed():
    x = arrays()[0]
    k, table = 2, {"x": [1, 2]}

    @dr.freeze
    def f(x):
        return x * k + table["x"][1]

    for _ in range(HITS):
        assert same(f(x), x * 2 + 2)
    k = 3
    for _ in range(HITS):
        assert same(f(x), x * 3 + 2)
    table["x"] = [1, 5]
    for _ in range(HITS):
        assert same(f(x), x * 3 + 5)
    assert f.n_recordings == 3


def test_rates_of_optimisers_are_noticed():
    def run(wrap):
        opt = SGD(lr=0.5, params={"x": Float(1, 2)})

        def step(opt):
            dr.backward(dr.sum(opt["x"] * opt["x"]))
            opt.step()

        step = wrap(step)
        found = []
        for k in range(8):
            if k == 4:
                opt.set_learning_rate(0.25)
            if k == 6:
                opt["y"] = Float(7)
            step(opt)
            found.append(opt["x"].numpy().copy())
        return found

    assert same(run(dr.freeze), run(lambda f: f))


def test_lists_that_contain_themselves():
    @dr.freeze
    def f(x):
        found = [x * 2]
        found.append(found)
        return found

    for _ in range(HITS):
        found = f(Float(1, 2))
        assert found[1] is found and same(found[0], [2, 4])


@pytest.mark.parametrize("call", ["arrays", "optimiser", "object", "gradients", "unevaluated"])
def test_calls_that_are_alike_are_recognised(call, monkeypatch):
    """The general road is not taken."""
    opt = Adam(lr=0.1, params={"x": Float(1, 2)})

    def step(opt):
        dr.backward(dr.sum(dr.square(opt["x"])))
        opt.step()

    x, y = arrays()
    thing = Thing(x)
    vars(thing)["note"] = -1  # which nobody reads
    z = Float(x)
    dr.enable_grad(z)
    function, args = {"arrays": (sum_of, (x, y)), "optimiser": (step, (opt,)),
                      "object": (lambda t: t.x * t.k, (thing,)), "gradients": (lambda z: z * 2, (z,)),
                      "unevaluated": (lambda x: x + 1, (x,))}[call]
    frozen = dr.freeze(function)
    for _ in range(3):
        frozen(*args)

    def refused(*_):
        raise AssertionError("not recognised")

    monkeypatch.setattr(module, "Inputs", refused)
    for k in range(3):
        vars(thing)["note"] = k
        frozen(*args if call != "unevaluated" else (x * (k + 2),))


# --- random structures, which change a little from call to call ------------------------------------------------------


class Node:
    shared = 1

    def __init__(self, left, right):
        self.left, self.right, self.unread = left, right, 0


def _leaf(rng):
    return rng.choice([
        lambda: rng.choice([0, 1, 2, True, 0.5, -0.0, 0.0, None, "a", "b"]),
        lambda: dr.opaque(Float, rng.random(), rng.choice([1, 3])),
        lambda: Float([rng.randint(0, 3) for _ in range(3)]),
        lambda: Float(rng.randint(0, 2)),
        lambda: Array3f(Float(1, 2, 3) + rng.randint(0, 1), Float(rng.randint(1, 2)), 3)])()


def _tree(rng, depth, pool):
    """A random PyTree, in which things occur more than once."""
    if pool and rng.random() < 0.15:
        return rng.choice(pool)
    if not depth or rng.random() < 0.3:
        found = _leaf(rng)
    else:
        parts = [_tree(rng, depth - 1, pool) for _ in range(rng.randint(1, 3))]
        found = rng.choice([list, tuple, lambda each: dict(zip("abc", each, strict=False)),
                            lambda each: Node(each[0], each[-1])])(parts)
    pool.append(found)
    return found


def _digest(value, seen, path):
    """A number that depends on everything in a tree."""
    if value is None or isinstance(value, bool | int | float | str):
        return path * (len(type(value).__name__) + sum(map(ord, str(value))) % 7)
    number = next((k for k, other in enumerate(seen) if other is value), None)
    if number is not None:
        return path * (number + 11)
    seen.append(value)
    if isinstance(value, Array3f):
        return dr.sum(value.x + 2 * value.y + 3 * value.z) * path
    if isinstance(value, Float):
        return dr.sum(value) * path
    if isinstance(value, Node):
        parts = [value.left, value.right, value.shared]
    elif isinstance(value, dict):
        parts = [part for item in value.items() for part in item]
    else:
        parts = value
    total = Float(len(parts))
    for k, part in enumerate(parts):
        total = total + _digest(part, seen, path * (0.7 + 0.1 * k))
    return total


def _changed(rng, value):
    """Change something in a tree."""
    containers, todo = [], [value]
    while todo:
        each = todo.pop()
        if isinstance(each, list | dict | Node | tuple) and not any(each is other for other in containers):
            containers.append(each)
            todo += each if isinstance(each, list | tuple) else each.values() if isinstance(each, dict) else \
                [each.left, each.right]
    each = rng.choice(containers)
    new = rng.choice([_leaf(rng), [_leaf(rng)], rng.choice(containers[1:] or [1])])
    if isinstance(each, list):
        rng.choice([lambda: each.append(new), lambda: each.__setitem__(0, new), lambda: each[1:] or each.append(new),
                    each.reverse])()
    elif isinstance(each, dict):
        each[rng.choice("abcd")] = new
    elif isinstance(each, Node):
        setattr(each, rng.choice(["left", "right", "unread", "shared"]), new)


def check_structures(seed):
    rng = random.Random(seed)

    def function(x, tree, write):
        total = x + _digest(tree, [], 1)
        if write == 1 and isinstance(tree, dict):
            tree["a"] = total
        if write == 2 and isinstance(tree, list) and isinstance(tree[0], Float):
            tree[0] += 1
        if write == 3:
            kept.append(x)
            kept.pop(0)
        return total, tree

    kept = [1]
    frozen = dr.freeze(function, dynamic=None, warn_after=1000)
    tree = [_tree(rng, 3, []), _leaf(rng)]
    for _ in range(14):
        if rng.random() < 0.35:
            try:
                _changed(rng, tree)
            except RecursionError:
                return frozen
        write = rng.choice([0, 0, 0, 1, 2, 3]) if rng.random() < 0.3 else 0
        x = Float([rng.random() for _ in range(3)])
        copied = copy.deepcopy(tree)
        try:
            expected = function(x, copied, write)[0]
        except RecursionError:  # it contains itself
            return frozen
        found, returned = frozen(x, tree, write)
        assert np.allclose(np.array(found), np.array(expected)), f"seed {seed}"
        assert returned is tree, f"seed {seed}"
        both = [_digest(each, [], 1) for each in (tree, copied)]
        assert np.allclose(*[np.array(Float(each)) for each in both]), f"seed {seed}: afterwards"
    return frozen


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_structures(first):
    for seed in range(first, first + 20):
        check_structures(seed)


def test_calls_with_other_arguments_are_not_taken_for_positional_ones():
    def function(x, y=None, k=2):
        return x * k if y is None else x * k + y

    frozen, (x, y) = dr.freeze(function), arrays()
    calls = [((x,), {}), ((x, y), {}), ((x,), {"k": 3}), ((x,), {"y": y}), ((x, None), {}), ((), {"x": x}),
             ((x, y, 5), {}), ((x, y), {"k": 7}), ((y,), {})]
    for _ in range(HITS):
        for args, kwargs in calls:
            assert same(frozen(*args, **kwargs), function(*args, **kwargs))
    assert frozen.n_recordings == len(calls) - 1


def test_a_state_is_looked_at_although_arguments_are_positional():
    state = [None]
    frozen = dr.freeze(lambda x: x * 2 if state[0] is None else x * 2 + state[0], state_fn=lambda x: state[0])
    x, y = arrays()
    for _ in range(HITS):
        for state[0] in (None, y, 3.0):
            assert same(frozen(x), x * 2 if state[0] is None else x * 2 + state[0])
    assert frozen.n_recordings == 3


def test_numbers_that_follow_from_sizes_are_those_of_the_call():
    def function(x, y):
        return x + dr.width(y), dr.mean(y) * dr.width(x), dr.arange(type(x), dr.width(x) + 1)

    frozen = dr.freeze(function)
    for count, other in ((3, 3), (3, 3), (5, 4), (5, 4), (4, 5), (3, 3), (5, 4), (3, 4), (4, 3), (4, 4)):
        x, y = dr.arange(Float, count) + dr.opaque(Float, 1), dr.arange(Float, other) + dr.opaque(Float, 2)
        for found, expected in zip(frozen(x, y), function(x, y), strict=True):
            assert same(found, expected)


def test_arrays_that_are_evaluated_no_longer_are_noticed():
    frozen, (x, y) = dr.freeze(lambda a, b: a * b), arrays()
    kinds = [x, dr.zeros(Float, 4) + 3, x + 1, Float(x)]
    tracked = Float(x)
    dr.enable_grad(tracked)
    for _ in range(HITS):
        for one in [*kinds, tracked, y]:
            found = frozen(one, y)
            assert same(dr.detach(found), dr.detach(one) * y)
            assert dr.grad_enabled(found) == dr.grad_enabled(one)
