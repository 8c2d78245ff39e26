"""Optimisers in loops, branches and calls: as an argument each is one array of parameters for each element, as any
object is; what functions find elsewhere they do not change."""

import pytest

import drjit as dr
import drjit.llvm.ad as la
from drjit.opt import SGD, Adam, GradScaler

F = la.Float
MODES = ("symbolic", "evaluated")
SOME = la.Bool(True, False, True)


def made(cls=SGD, value=None, **params):
    return cls(lr=0.5, params={"x": F(1, 2, 3) if value is None else value, **params})


def doubled(opt):
    opt["x"] = opt["x"] * 2


def stepped(opt):
    opt.step(eval=False)


def followed(opt):
    x = opt["x"]
    dr.backward(x * x)
    opt.step(eval=False)


def looked(opt):
    x = opt["x"]
    dr.backward(x * x)


def nothing(opt):
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fetched", [False, True])
@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("function, value, gradient", [
    (doubled, [2, 2, 6], [0, 0, 0]),
    (followed, [0, 2, 0], [0, 0, 0]),
    (looked, [1, 2, 3], [2, 0, 6]),
    (nothing, [1, 2, 3], [0, 0, 0]),
])
def test_an_argument_changes_for_the_elements_that_take_the_function(construct, function, value, gradient, fetched,
                                                                     mode):
    opt = made()
    if fetched:
        assert dr.all(opt["x"] > 0)
    if construct == "branch":
        dr.if_stmt((opt,), SOME, function, nothing, mode=mode)
    else:
        dr.switch(la.UInt32(0, 1, 0), [function, nothing], opt, mode=mode)
    assert dr.all(opt["x"] == F(value))
    assert dr.all(opt["x"].grad == F(gradient))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value, after, gradient", [
    (F(1, 2, 3), [0, 2, 0], [0, 4, 0]),
    (la.Float16(1, 2, 3), [0, 2, 0], [0, 4, 0]),
    (la.TensorXf([[1, 2, 3]]), [[0, 2, 0]], [[0, 4, 0]]),
    (la.Array2f([1, 2, 3], [4, 5, 6]), [[0, 2, 0], [0, 5, 0]], [[0, 4, 0], [0, 10, 0]]),
])
def test_gradients_of_before_are_those_of_arguments(value, after, gradient, mode):
    opt = made(value=value)
    x = opt["x"]
    dr.backward(x * x)
    dr.if_stmt((opt,), SOME, stepped, nothing, mode=mode)
    assert dr.all(opt["x"] == type(value)(after), axis=None)
    assert dr.all(opt["x"].grad == type(value)(gradient), axis=None)


@pytest.mark.parametrize("mode", MODES)
def test_parameters_that_are_left_alone_remain_the_variables_that_the_program_has(mode):
    opt = made(y=F(4, 5, 6))
    y = opt["y"]
    dr.if_stmt((opt,), SOME, doubled, nothing, mode=mode)
    dr.backward(y * y)
    assert dr.all(opt["y"].grad == F(8, 10, 12)) and dr.all(opt["x"] == F(2, 2, 6))


@pytest.mark.parametrize("options", [{"mode": "symbolic"}, {"mode": "evaluated"},
                                     {"mode": "evaluated", "compress": True}])
@pytest.mark.parametrize("momentum, after", [(0, [0.75, 1.5, 3]), (0.5, [0.75, 1.375, 3])])
def test_state_of_loops(options, momentum, after):
    opt = SGD(lr=0.5, momentum=momentum, params={"x": F(1, 2, 3)})
    dr.set_grad(opt["x"], 0.25)

    def body(i, n, opt):
        dr.backward(opt["x"] * 0.25)
        opt.step(eval=False)
        dr.backward(opt["x"] * 0.25)
        return i + 1, n, opt

    *_, found = dr.while_loop((la.UInt32(0), la.UInt32(1, 2, 0), opt), lambda i, n, opt: i < n, body, **options)
    assert found is opt
    assert dr.allclose(opt["x"], F(after)) and dr.allclose(opt["x"].grad, 0.25)


@pytest.mark.parametrize("mode", MODES)
def test_syntax(mode):
    @dr.syntax
    def train(opt, n):
        i = la.UInt32(0)
        while i < n:
            dr.backward(opt["x"] * 0.5)
            if i < 1:
                opt.step(eval=False)
            i += 1

    opt = made()
    is_symbolic = mode == "symbolic"
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, is_symbolic):
        train(opt, la.UInt32(1, 2, 0))
    assert dr.all(opt["x"] == F(0.75, 1.75, 3)) and dr.all(opt["x"].grad == F(0, 0.5, 0))


def added(opt):
    opt["z"] = F(1, 2, 3)


def removed(opt):
    del opt["x"]


def slowed(opt):
    opt.set_learning_rate(x=F(0.25))


def renewed(opt):
    opt.reset()


@pytest.mark.parametrize("construct, mode", [
    *[(construct, mode) for construct in ("branch", "call", "loop", "both") for mode in MODES], ("loop", "compressed")])
@pytest.mark.parametrize("cls", [SGD, Adam])
@pytest.mark.parametrize("function", [doubled, stepped, followed, added, removed, slowed, renewed])
def test_what_a_function_finds_elsewhere_it_does_not_change(function, cls, construct, mode):
    opt = made(cls)
    x = opt["x"]
    dr.backward(x * x)
    opt.step()
    dr.set_grad(opt["x"], F(1, 2, 3))
    before, kept = opt["x"], opt.state

    def change():
        function(opt)

    with pytest.raises(RuntimeError, match=rf"drjit\.\w+\(\).*'?{cls.__name__}.*elsewhere than among its arguments"):
        if construct == "branch":
            dr.if_stmt((), SOME, change, lambda: None, mode=mode)
        elif construct == "call":
            dr.switch(la.UInt32(0, 1, 0), [change, lambda: None], mode=mode)
        elif construct == "both":
            dr.if_stmt((opt,), SOME, lambda other: change(), lambda other: None, mode=mode)
        else:
            options = {"mode": "evaluated", "compress": True} if mode == "compressed" else {"mode": mode}
            dr.while_loop((la.UInt32(0), la.UInt32(1, 2, 0)), lambda i, n: i < n, lambda i, n: (change(), i + 1, n)[1:],
                          **options)
    assert list(opt) == ["x"] and opt.learning_rate("x") is None
    assert dr.all(opt["x"] == before)
    if function is not followed or mode == "symbolic":  # what evaluated traversals have brought to variables stays
        assert dr.all(opt["x"].grad == F(1, 2, 3))
    for one, other in zip(opt.state["x"], kept["x"], strict=True):
        assert one is other or dr.all(one == other) if not isinstance(one, tuple) else True
    dr.set_grad(before, F(0))
    assert dr.all(opt["x"].grad == 0)  # it is the variable that the program has


@pytest.mark.parametrize("mode", MODES)
def test_what_is_an_argument_is_not_looked_at_elsewhere(mode):
    opt = made()

    def mixed(other):
        other["x"] = opt["x"] * 2

    with pytest.raises(RuntimeError, match="elsewhere than among its arguments"):
        dr.if_stmt((opt,), SOME, mixed, nothing, mode=mode)
    assert dr.all(opt["x"] == F(1, 2, 3))


@pytest.mark.parametrize("mode", MODES)
def test_what_is_found_elsewhere_may_be_read_and_differentiated(mode):
    opt = made()
    dr.if_stmt((), SOME, lambda: looked(opt), lambda: None, mode=mode)
    assert dr.all(opt["x"].grad == F(2, 0, 6))


def test_loops_that_are_evaluated_may_change_what_they_find_as_long_as_all_elements_take_part():
    opt = made(Adam)
    expected = made(Adam)
    for _ in range(3):
        followed(expected)

    def body(i):
        followed(opt)
        return (i + 1,)

    dr.while_loop((la.UInt32(0),), lambda i: i < 3, body, mode="evaluated")
    assert dr.allclose(opt["x"], expected["x"])


@pytest.mark.parametrize("mode", MODES)
def test_scalers(mode):
    opt, scaler = made(), GradScaler(init_scale=4, growth_interval=1)
    dr.backward(scaler.scale(opt["x"]))
    before = scaler.state_dict()
    with pytest.raises(RuntimeError, match="elsewhere than among its arguments"):
        dr.if_stmt((), SOME, lambda: scaler.step(opt, eval=False), lambda: None, mode=mode)
    assert scaler.state_dict() == before and dr.all(opt["x"] == F(1, 2, 3))
    scaler.step(opt)
    assert dr.all(opt["x"] == F(0.5, 1.5, 2.5))


def test_a_copy_has_the_gradients_of_the_original_and_becomes_independent():
    opt = made()
    dr.backward(opt["x"] * 3)
    copy = dr.copy(opt)
    assert dr.all(copy["x"].grad == 3)
    dr.backward(copy["x"] * 1)
    assert dr.all(copy["x"].grad == 4) and dr.all(opt["x"].grad == 3)
    stepped(copy)
    assert dr.all(opt["x"] == F(1, 2, 3)) and dr.all(copy["x"] == F(-1, 0, 1))


# --- rules that count steps -------------------------------------------------------------------------------------------


def descended(opt):
    dr.backward(dr.square(opt["x"] - 5))
    opt.step(eval=False)


def steps_of_elements(construct, mode, counts, value, **options):
    """The parameter after a number of steps of each element in a construct, and one more of all."""
    opt = Adam(lr=0.1, params={"x": F(value)}, **options)
    descended(opt)
    if construct == "loop":
        dr.while_loop((la.UInt32(0), opt), lambda i, opt: i < la.UInt32(counts),
                      lambda i, opt: (i + 1, (descended(opt), opt)[1]), mode=mode)
    elif construct == "branch":
        dr.if_stmt((opt,), la.UInt32(counts) > 0, descended, nothing, mode=mode)
    elif construct == "both sides":
        dr.if_stmt((opt,), la.UInt32(counts) > 0, descended, descended, mode=mode)
    else:
        dr.switch(dr.minimum(la.UInt32(counts), 1), [nothing, descended], opt, mode=mode)
    descended(opt)
    opt.step()  # without a gradient
    return opt["x"]


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["loop", "branch", "both sides", "call"])
def test_each_element_counts_its_steps(construct, mode, options):
    counts = [0, 1, 3] if construct == "loop" else [0, 1, 1]
    expected = []
    for start, count in zip([1, 2, 3], counts, strict=True):
        opt = Adam(lr=0.1, params={"x": F(start)}, **options)
        for _ in range((1 if construct == "both sides" else count) + 2):
            descended(opt)
        opt.step()
        expected.append(opt["x"][0])
    # corrections come from powers that the device keeps, and not from those of the host
    assert dr.allclose(steps_of_elements(construct, mode, counts, [1, 2, 3], **options), expected, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_host_goes_on_counting_where_constructs_leave_an_optimiser_alone(mode):
    opt = Adam(lr=0.1, params={"x": F(1, 2, 3)})
    descended(opt)
    dr.while_loop((la.UInt32(0), opt), lambda i, opt: i < la.UInt32(1, 2, 3), lambda i, opt: (i + 1, opt), mode=mode)
    dr.if_stmt((opt,), SOME, nothing, nothing, mode=mode)
    descended(opt)
    assert opt.state["x"][3][0] == 2 and set(opt.state_dict()) >= {"x.steps"}
    other = Adam(lr=0.1, params={"x": F(1, 2, 3)})
    descended(other)
    descended(other)
    assert dr.all(opt["x"] == other["x"])
