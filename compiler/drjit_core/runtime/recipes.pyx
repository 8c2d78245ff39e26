"""The compiled form of ``recipes.py``.

Which kernels there are, and over what they go, follows from the whole graph. A recipe says what is launched for a
graph of some structure, and what the parameters are; it is found by all that planning looks at.
Nodes have *places*: those of the graph in the order of the walk, and behind them what planning has made besides.

Sizes are numbered in the order of the walk; number 0 is the size 1. What matters is which are equal, and in which
intervals they lie, as in recordings: a recipe is good for all others. Where there are views, and reductions of rows,
planning looks at the sizes themselves: then these are part of what a recipe is found by.

From a launch to the end of its commit no Python code runs here, so that no interrupt comes in between.
"""

import logging
import math

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ..context cimport Context, current
from ..ir.node cimport Node, become, blank_node, new_id
from .buffer cimport Buffer
from .native cimport Entry, Native
from .walk cimport Walk, bits_of, bytes_of, larger, width_of

from ..codegen.signature import Role, straight_decisions
from ..flags import EXCEPTIONAL as _EXCEPTIONAL_FLAGS
from ..ir.node import PARAMETER as _PARAMETER
from ..ops import table
from ..passes.domain import flat
from ..passes.schedule import Kernel
from . import explain
from .launch import evaluate_by_kernels, launch as _launch_any
from . import relaunch as _relaunch
from .stages import Facts, Listener, Stage, facts_of, leaves_of, note_releases
from .steps import placed_passes as _placed_passes

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xFFFFFFFFFFFFFFFF

cdef object _INPUT = Role.INPUT, _MEMORY = Role.MEMORY, _LITERAL = Role.LITERAL, _LIMIT = Role.LIMIT
cdef long long _EXCEPTIONAL = _EXCEPTIONAL_FLAGS
cdef int PARAMETER = _PARAMETER
cdef int LITERAL = table.LITERAL, BOUND = table.BOUND, UNDEFINED = table.UNDEFINED, EVALUATED = table.EVALUATED
cdef int STEP = table.STEP, REDUCE = table.REDUCE
cdef int INFO = logging.INFO

_log = logging.getLogger("drjit")
cdef dict _levels = _log._cache  # what Logger.isEnabledFor looks at first

cdef enum:
    MOST_ENTRIES = 65536
    MOST_STEPS = 1024
    MOST_RECIPES = 4096  # some kilobytes each
    MOST_OTHERS = 8  # recipes of one structure
    MOST_MET = 16384
    MOST_PAYLOADS = 16384


cdef class LoadedPass:
    """A launch of a step of some structure, wherever its arrays are."""

    cdef Entry entry
    cdef int64_t width
    cdef uint64_t* words  # parameters: numbers, and distances from the beginnings of arrays
    cdef int32_t* arrays  # of whose addresses they are distances: operands, then results, then scratch; -1: none
    cdef Py_ssize_t count

    def __dealloc__(self):
        free(self.words)
        free(self.arrays)


cdef class LoadedStep:
    """The launches of a step of some structure, and the bytes of memory of its own."""

    cdef list passes
    cdef tuple scratch


cdef class LoadedStage:
    """What is done for a stage (see :class:`.stages.Stage`), in C."""

    cdef Entry entry  # None: a step, or nothing
    cdef int64_t units, unit
    cdef int width  # number of the size that the units are; -1: they are always the same
    cdef uint64_t* words
    cdef int32_t* places
    cdef Py_ssize_t total
    cdef list firsts, links, symbols
    cdef object linked  # the code that the addresses in ``words`` are those of
    cdef list outputs, slots, undefined, written, tables, releases
    cdef object step
    cdef list operands, positions
    cdef object known  # of the launches of a recording that this is the first stage of

    def __dealloc__(self):
        free(self.words)
        free(self.places)


cdef class Recipe:
    """What takes a graph of some structure to its launches."""

    cdef bytes key
    cdef list stages  # empty: there is no recipe
    cdef list noted  # what these are made from, which recordings note; None: it does not tell all that these have to know
    cdef list made  # of each node that planning makes
    cdef bint exact  # whether the sizes are part of the key
    cdef list least, most  # bounds of the sizes, by their numbers
    cdef Recipe other  # for other sizes
    cdef int depth  # number of those
    cdef set used  # all places that launches look at; None: the graph holds them as long as it takes


# --- what is learned from the general way ----------------------------------------------------------------------------

class _Straight:
    """Notes the kernel that a straight program has got."""

    found = None

    def begin(self, program, kernel):
        """The program is about to be launched."""
        self.found = kernel, kernel.course(program)

    def end(self):
        """It has been launched."""


class _OfGraph(Listener):
    """Makes stages of the launches of a plan, in terms of the walk over its graph."""

    def __init__(self, Walk walk, bint exact):
        cdef Py_ssize_t number
        Listener.__init__(self)
        self.exact = exact
        self.places = {(<Node> walk.nodes[number]).id: number for number in range(walk.place)}
        self.count = len(self.places)
        assert self.count == walk.place, "a node has two places"
        self.least, self.most = [0] * (walk.size_count + 1), [math.inf] * (walk.size_count + 1)
        self.sizes = {1: 0} | {walk.sizes[number]: number + 1 for number in range(walk.size_count)}
        self.fails = False

    def begin(self, program, kernel):
        """A program is about to be launched."""
        self.facts = facts_of(program)
        Listener.begin(self, program, kernel)
        if not program.block_tables and all([node.id in self.places for node in self.facts.used()]):
            self._begun.facts = self.facts.having(self.place_of)
        self.facts = None  # planning asks who holds nodes

    def place_of(self, node):
        """The place of a node; one that has none is not told by the structure."""
        place = self.places.get(node.id, -1)
        self.fails = self.fails or place < 0
        return place

    def place_of_output(self, node, program):
        """The place of what a launch gives: a new one for what planning has made."""
        if program is None or node.id in program.tables:
            return self.place_of(node)
        place = self.places.get(node.id)
        if place is None:
            place = self.places[node.id] = self.count + len(self.made)
            self.made.append((place, node.type, node.size, self.number(node.size)))
        return place

    def source_of(self, program, slot):
        """The place whose bits or address a parameter is; other parameters follow from the structure."""
        role, node = slot.role, slot.node
        if role is _INPUT or role is _MEMORY:
            return self.place_of(node)
        if role is _LIMIT and (number := self.number(slot.size)) >= 0:  # a table of a block: for memory of this size
            self.least[number] = self.most[number] = slot.size
        if role is not _LITERAL:
            return -1
        place = self.places.get(node.id, -1)
        if place < 0:
            self.exact = True  # planning has made it, maybe of a size
            self.fails = self.fails or node.attr == PARAMETER and node.size == 1
        return place

    def number(self, size):
        """The number of a size, unless it stays the same."""
        found = -1 if self.exact else self.sizes.get(size)
        if found is None:  # it follows from others, nobody knows how
            self.exact = True
            found = -1
        return found

    def width_of(self, program):
        """The number of the size that a program goes over; what has been decided by sizes is noted."""
        self.fails = self.fails or program.checked
        if program.width > 1 and not program.domain.is_flat:
            self.exact = True
        for decision in self.facts.decisions:
            number = self.number(program.width if decision.memory is None else decision.memory.size)
            if number >= 0:
                self.least[number] = max(self.least[number], decision.low)
                self.most[number] = min(self.most[number], decision.high)
        return self.number(program.width)

    def writes_of(self, program):
        """(Place of an array after a write, place of the one before)."""
        written = [(node, node.d0) for node in program.scatters if node.id not in program.tables]
        written += [(node, node.d0.payload.origin(node.attr)) for node in program.versions]
        return [(self.place_of(node), self.place_of(target)) for node, target in written]

    def recipe(self, Recipes recipes, bytes key):
        """The recipe, or that there is none."""
        cdef Recipe recipe = Recipe.__new__(Recipe)
        recipe.key, recipe.stages, recipe.made, recipe.used = key, [], self.made, None
        recipe.exact, recipe.least, recipe.most = self.exact, self.least, self.most
        if self.fails:
            return recipe
        kept = len(self.stages) > 1 or bool(self.made)
        for stage in self.stages:  # what has run may have been the last to hold what is noted next
            kept = kept or bool(stage.written or stage.tables)
        if kept:
            recipe.used = note_releases(self.stages)
        recipe.stages = [recipes.load(stage) for stage in self.stages]
        if all([stage.facts is not None or stage.kernel is None for stage in self.stages]):
            recipe.noted = self.stages
        return recipe


class _Both:
    """Two listeners."""

    def __init__(self, *listeners):
        self.listeners = listeners

    def allocated(self, node):
        """An array without contents has got memory."""
        for each in self.listeners:
            each.allocated(node)

    def begin(self, program, kernel):
        """A program is about to be launched."""
        for each in self.listeners:
            each.begin(program, kernel)

    def end(self):
        """It has been launched."""
        for each in self.listeners:
            each.end()

    def begin_step(self, step, operands, results):
        """A step is about to be launched."""
        for each in self.listeners:
            each.begin_step(step, operands, results)

    def end_step(self, results):
        """It has been launched."""
        for each in self.listeners:
            each.end_step(results)


# --- what is known of a backend's launches ---------------------------------------------------------------------------

def _id_of(Node node):
    return node.id


@cython.final
cdef class Recipes:
    """Straight kernels, steps and recipes of a backend."""

    cdef Native native
    cdef Walk walk
    cdef dict entries, steps, recipes
    cdef set met  # hashes of keys that came once
    cdef readonly int64_t launches

    def __init__(self, Native native):
        self.native, self.walk = native, Walk(native.backend)
        self.entries, self.steps, self.recipes, self.met = {}, {}, {}, set()

    def forget(self):
        """Forget all kernels."""
        self.entries.clear()
        self.steps.clear()
        self._forget_recipes()

    cdef bint _forget_recipes(self) except -1:
        self.recipes.clear()
        self.met.clear()
        self.walk.payloads.clear()
        return True

    cdef bint begin(self) except -1:
        """Begin an evaluation; whether it can go the short way."""
        if not self.native.begin():
            return False
        if self.walk.target is not self.native.target:
            self.walk.aim(self.native.target)
        return True

    def key_of(self, list roots):
        """For tests: key and parameters (those of outputs are 0) of the one kernel of some nodes, or ``None``."""
        cdef Py_ssize_t position
        if not self.begin() or not roots or not self.walk.bind(roots, width_of(<Node> roots[0])):
            return None
        return self.walk.key_bytes(), [self.walk.parameters[position] for position in range(self.walk.parameter_count)]

    # --- straight kernels --------------------------------------------------------------------------------------------

    cdef bint evaluate_straight(self, list roots, object recorder) except -1:
        """Give values to nodes, if all kernels are straight ones; whether it was done.  A recorder notes it."""
        cdef Node root
        cdef int64_t width
        cdef bint several = False
        cdef dict groups
        cdef Py_ssize_t count = len(roots)
        width = width_of(<Node> roots[0])
        if count > 1:
            for root in roots:
                several = several or width_of(root) != width
            roots.sort(key=_id_of)
        if not several:
            return self._run(roots, width, recorder)
        if not self.walk.are_straight(roots):  # then no kernel is launched
            return False
        groups = {}  # in the order of plans
        for root in roots:
            groups.setdefault(width_of(root), []).append(root)
        root = None
        for size, group in groups.items():
            if not self._run(group, size, recorder):
                raise AssertionError("a kernel was straight a moment ago, and is not any more")
        return True

    def launch_straight(self, list roots, int64_t width, object recorder):
        """Launch a kernel of a plan, which a recorder notes, if it is straight; whether it was done."""
        return self.begin() and self._run(roots, width, recorder)

    cdef bint _run(self, list roots, int64_t width, object recorder) except -1:
        """Bind and launch one kernel; whether that was possible."""
        cdef Walk walk = self.walk
        cdef Entry entry
        cdef Node root
        cdef Py_ssize_t reductions = 0
        cdef uint64_t h
        cdef list order = None, sources = None
        if recorder is None:
            if not walk.bind(roots, width):
                return False
        else:
            try:
                if not walk.bind_noting(roots, width):
                    return False
                order, sources = walk.order, walk.sources
            finally:
                walk.order = walk.sources = None
        h = walk.hash()
        entry = self.entries.get(h)
        if entry is None or not walk.has_key(entry.key):
            for root in roots:
                reductions += root.kind == REDUCE
            entry = self.native.find(walk, width, reductions)
            if entry is None:
                root = None
                order = sources = None
                self._run_new(roots, width, h, recorder)
                return True
            self._enter(h, walk.key_bytes(), entry)
            if entry.is_counted:
                explain.note(entry.key, entry.kernel.hash)
        self.native.use(entry, width)
        if recorder is not None:
            self._tell(recorder, entry, roots, width, order, sources)
        self._launch(entry, roots, width, 1)
        if recorder is not None:
            recorder.end()
        return True

    cdef bint _tell(self, object recorder, Entry entry, list roots, int64_t width, list order, list sources) except -1:
        """Let a recorder note a launch that is about to be made, with the parameters that were made last."""
        cdef Walk walk = self.walk
        cdef Node root
        cdef Py_ssize_t position
        cdef list stored = [], reduced = []
        cdef object target = self.native.target
        stage = Stage(entry.kernel, entry.course, width, count=walk.parameter_count, firsts=[0],
                      words=[walk.parameters[position] for position in range(walk.parameter_count)])
        for position in range(len(roots)):
            root = <Node> roots[position]
            (reduced if root.kind == REDUCE else stored).append((root, walk.slots[position]))
        stored += reduced
        stage.slots, stage.arrays = [slot for _, slot in stored], (walk.input_count, len(stored))
        decisions = list(straight_decisions(target, width, order, walk.streamed_bytes()))
        recorder.begin_known(target, stage, Facts(True, leaves_of(order, width), decisions, [], [], False), sources,
                             [root for root, _ in stored])
        return True

    cdef bint _run_new(self, list roots, int64_t width, uint64_t h, object recorder) except -1:
        """Launch a kernel that is not known."""
        cdef bytes key = self.walk.key_bytes()
        listener = _Straight() if recorder is None else recorder
        self.native.look()
        kernel = Kernel(0, flat(width))
        kernel.outputs = roots
        _launch_any(self.native.backend, self.native.target, kernel, listener)
        if recorder is not None:
            stage = recorder.stages[-1]
            self._enter(h, key, self.native.enter(stage.kernel, stage.course))
        elif listener.found is not None:
            kernel, course = listener.found
            self._enter(h, key, self.native.enter(kernel, course))
        return True

    cdef bint _enter(self, uint64_t h, bytes key, Entry entry) except -1:
        if len(self.entries) > MOST_ENTRIES:
            self.entries.clear()
        entry.key = key
        self.entries[h] = entry
        return True

    cdef bint _launch(self, Entry entry, list roots, int64_t units, int64_t unit) except -1:
        """Launch a kernel with the parameters that were made last; its outputs are evaluated afterwards."""
        cdef Walk walk = self.walk
        cdef list buffers = []
        cdef Buffer buffer
        cdef Node root
        cdef Py_ssize_t position = 0
        cdef int64_t ticket
        for root in roots:
            buffer = self.native.allocate(bytes_of(root))
            walk.parameters[walk.slots[position]] = buffer.address
            position += 1
            buffers.append(buffer)
        ticket = self._submit(entry, units, unit)
        for position in range(len(roots)):
            buffer = <Buffer> buffers[position]
            buffer.ticket = ticket
            become(<Node> roots[position], buffer)
        return self._interrupted()

    cdef int64_t _submit(self, Entry entry, int64_t units, int64_t unit) except -1:
        """Launch a kernel with the parameters and inputs that were made last; returns its ticket."""
        cdef Walk walk = self.walk
        cdef Py_ssize_t position
        cdef int64_t ticket = self.native.launch(entry, walk.parameters, walk.parameter_count, units, unit,
                                                 walk.borrowed() if walk.borrowing else None)
        self.launches += 1
        for position in range(walk.input_count):
            (<Buffer> walk.inputs[position]).ticket = ticket
        return ticket

    cdef bint _interrupted(self) except -1:
        """Raise what came when something had been launched, now that all know of it."""
        if self.native.interrupt is not None:
            interrupt, self.native.interrupt = self.native.interrupt, None
            raise interrupt
        return True

    # --- steps -------------------------------------------------------------------------------------------------------

    cdef LoadedStep _passes_of(self, object step, list operands, dict results):
        """Make the launches of a step."""
        cdef LoadedStep found = LoadedStep.__new__(LoadedStep)
        cdef LoadedPass one
        cdef Py_ssize_t number
        plans, scratch = _placed_passes(self.native.backend, step, operands, results, self.native.target)
        found.passes, found.scratch = [], tuple(scratch)
        for plan, arrays, kernel in plans:
            one = LoadedPass.__new__(LoadedPass)
            one.width, one.count = plan.launch.width, len(plan.words)
            one.words = <uint64_t*> malloc(one.count * sizeof(uint64_t))
            one.arrays = <int32_t*> malloc(one.count * sizeof(int32_t))
            if one.words == NULL or one.arrays == NULL:
                raise MemoryError
            for number in range(one.count):
                one.words[number] = PyLong_AsUnsignedLongLongMask(plan.words[number])
                one.arrays[number] = arrays[number]
            one.entry = self.native.enter_pass(kernel, plan)
            found.passes.append(one)
        return found

    cdef bint _are_here(self, list operands) except -1:
        """Whether arrays are in memory of the backend."""
        cdef Node node
        for node in operands:
            if node.kind != EVALUATED or not isinstance(node.payload, Buffer) or \
                    (<Buffer> node.payload).backend is not self.native.backend:
                return False
        return True

    cdef bint launch_step(self, object step, list operands, list results, list positions) except -1:
        """Launch a step, if its operands are in memory; whether it was done."""
        cdef Walk walk = self.walk
        cdef Node node
        cdef LoadedStep known
        cdef LoadedPass one
        cdef Buffer buffer
        cdef Py_ssize_t number, count = len(operands)
        cdef list structure = [step, self.native.look()], buffers = []
        if not self._are_here(operands):
            return False
        for node in operands:
            structure.append(node.type)
            structure.append(node.size)
            buffers.append(node.payload)
        for number in range(len(results)):
            structure.append(positions[number])
            structure.append((<Node> results[number]).size)
        key = tuple(structure)
        known = self.steps.get(key)
        if known is None:
            if len(self.steps) >= MOST_STEPS:
                self.steps.clear()
            known = self.steps[key] = self._passes_of(step, operands, dict(zip(positions, results)))
        for node in results:
            buffers.append(self.native.allocate(bytes_of(node)))
        for nbytes in known.scratch:
            buffers.append(self.native.allocate(nbytes))
        for one in known.passes:
            walk.room_for(one.count, len(buffers), 0)
            walk.parameter_count, walk.input_count, walk.borrowing = one.count, 0, False
            for buffer in buffers:
                walk.borrowing = walk.borrowing or buffer.read_only
                walk.inputs[walk.input_count] = <PyObject*> buffer
                walk.input_count += 1
            for number in range(one.count):
                walk.parameters[number] = one.words[number]
                if one.arrays[number] >= 0:
                    walk.parameters[number] += (<Buffer> walk.inputs[one.arrays[number]]).address
            self.native.use(one.entry, one.width)
            self._submit(one.entry, one.width, 1)
            self._interrupted()  # it may run again
        for number in range(len(results)):
            become(<Node> results[number], buffers[count + number])
        return True

    cdef bint launch_one(self, Node node, list roots) except -1:
        """Launch the step of which a node is the only result that is wanted; whether it was done."""
        return self.launch_step(node.payload, [operand for operand in (node.d0, node.d1, node.d2)
                                               if operand is not None], roots, [node.attr])

    # --- recipes -----------------------------------------------------------------------------------------------------

    cdef Recipe _recipe_of(self, uint64_t h):
        """The recipe with the key that was made last, for the sizes at hand; else the last one with that key, or
        none."""
        cdef Recipe recipe = self.recipes.get(h), found
        if recipe is None or not self.walk.has_key(recipe.key):
            return None
        found = recipe
        while found is not None:
            if found.exact or self._are_between(found.least, found.most):
                return found
            found = found.other
        return None

    cdef bint _are_between(self, list least, list most) except -1:
        cdef int number
        for number in range(self.walk.size_count):
            if not least[number + 1] <= self.walk.sizes[number] <= most[number + 1]:
                return False
        return True

    cdef bint _is_worth_a_recipe(self, uint64_t h) except -1:
        """Whether a key has come before: many structures, such as those of sizes that vary, never come again."""
        if h in self.met:
            self.met.discard(h)
            return True
        if len(self.met) > MOST_MET:
            self.met.clear()
        self.met.add(h)
        return False

    cdef bint _make_recipe(self, list roots, uint64_t h, bint exact, object recorder) except -1:
        """Plan and launch what some nodes need, and make a recipe of it under the key that was made last, if that has
        come before; whether it was done."""
        cdef Recipe made, found
        if not self._is_worth_a_recipe(h):
            return False
        key = self.walk.key_bytes()
        listener = _OfGraph(self.walk, exact)
        evaluate_by_kernels(self.native.backend, roots, listener if recorder is None else _Both(recorder, listener))
        made = listener.recipe(self, key)
        if made.exact and not exact:  # it turned out to be for these sizes only: the next are looked up by them, too
            made.stages = []
        elif not exact:
            found = self.recipes.get(h)
            if found is not None and found.key == key and found.depth < MOST_OTHERS:
                made.other, made.depth = found, found.depth + 1
        self.recipes[h] = made
        return True

    cdef bint run_recipe(self, list roots, object recorder) except -1:
        """Launch what some nodes need whose structure is known; make a recipe if it is not; whether it was done.  A
        recorder notes it."""
        cdef Walk walk = self.walk
        cdef Node root, node
        cdef Recipe recipe
        cdef Py_ssize_t number, place, count
        cdef uint64_t h
        cdef list held = None
        cdef int which
        if len(self.recipes) > MOST_RECIPES or len(walk.payloads) > MOST_PAYLOADS:  # before anything is numbered
            self._forget_recipes()
        if not walk.scan(roots, self.native.look()):
            return False
        recipe = None
        if not walk.exact:
            h = walk.hash()
            recipe = self._recipe_of(h)
            if recipe is None:
                return self._make_recipe(roots, h, False, recorder)
        if recipe is None or recipe.exact:
            walk.add_sizes()
            h = walk.hash()
            recipe = self._recipe_of(h)
            if recipe is None:
                return self._make_recipe(roots, h, True, recorder)
        if not recipe.stages or recorder is not None and recipe.noted is None:
            return False
        count = walk.place
        if recipe.used is not None:
            held = [None] * (count + len(recipe.made))
            for place in recipe.used:
                if place < count:
                    held[place] = <Node> walk.nodes[place]
            if len(held) > walk.node_capacity:
                walk.nodes = <PyObject**> larger(walk.nodes, &walk.node_capacity, len(held), sizeof(PyObject*))
            for number, type_, size, which in recipe.made:
                node = blank_node()
                node.kind = UNDEFINED
                node.type, node.size, node.id = type_, size, new_id()
                if which >= 0:
                    node.size = walk.sizes[which - 1] if which else 1
                held[number] = node
                walk.nodes[number] = <PyObject*> node
            node = None
        if not self._run_stages(recipe.stages, held, None, recorder, recipe.noted):
            roots = [root for root in roots if (<Node> root).kind != EVALUATED]
            root = None
            held = None
            evaluate_by_kernels(self.native.backend, roots)  # what is left is planned anew
        return True

    # --- stages ------------------------------------------------------------------------------------------------------

    def target_number(self):
        """A number for what the backend's programs are assembled for just now."""
        return self.native.look()

    def replay(self, list steps, list nodes, list sizes):
        """Launch stages for nodes, by their places, and sizes, by their numbers.  The caller holds the lock, and has
        asked for the :meth:`target_number`."""
        cdef Walk walk = self.walk
        cdef Py_ssize_t number, count = len(nodes)
        cdef list stages
        cdef LoadedStage first
        cdef bint done
        if not steps:
            return
        if not self.native.may_launch():
            return _relaunch.run(self.native.backend, steps, nodes, sizes)
        if count > walk.node_capacity:
            walk.nodes = <PyObject**> larger(walk.nodes, &walk.node_capacity, count, sizeof(PyObject*))
        for number in range(count):
            walk.nodes[number] = <PyObject*> nodes[number]
        stages = [stage.loaded or self.load(stage) for stage in steps]
        first = stages[0]
        self.native.gather(first.known)
        try:
            done = self._run_stages(stages, nodes, sizes, None, None)
        finally:
            first.known = self.native.gathered(first.known)
        if not done:
            raise AssertionError("operands of a step are not in memory")

    cdef LoadedStage load(self, object stage):
        """A stage, ready to be launched."""
        cdef LoadedStage loaded = LoadedStage.__new__(LoadedStage)
        cdef Entry entry
        cdef Py_ssize_t number
        loaded.units, loaded.unit, loaded.width, loaded.total = stage.units, stage.unit, stage.width, len(stage.words)
        loaded.firsts, loaded.links, loaded.symbols = stage.firsts, stage.links, stage.functions
        loaded.outputs, loaded.slots, loaded.undefined = stage.outputs, stage.slots, stage.undefined
        loaded.written, loaded.tables, loaded.releases = stage.written, stage.tables, stage.releases
        loaded.step, loaded.operands, loaded.positions = stage.step, stage.operands, stage.positions
        loaded.words = <uint64_t*> malloc((loaded.total + 1) * sizeof(uint64_t))
        loaded.places = <int32_t*> malloc((loaded.total + 1) * sizeof(int32_t))
        if loaded.words == NULL or loaded.places == NULL:
            raise MemoryError
        for number in range(loaded.total):
            loaded.words[number] = stage.words[number]
            loaded.places[number] = stage.places[number]
        if stage.kernel is not None:
            entry = loaded.entry = self.native.enter(stage.kernel, stage.course)
            if stage.moves:
                entry.count, entry.moves = stage.count, tuple(stage.moves)
        stage.loaded = loaded
        return loaded

    cdef bint _run_stages(self, list stages, list held, list sizes, object recorder, list noted) except -1:
        """Launch stages for the nodes of the walk, those that are held let go when nothing needs them any more, and the
        sizes of the walk, or others; whether it could be done to the end.  A recorder notes them."""
        cdef Walk walk = self.walk
        cdef LoadedStage stage
        cdef Node node
        cdef Py_ssize_t place, position = 0
        cdef object known = None
        for stage in stages:
            if noted is not None:
                known = noted[position]
                position += 1
            for place in stage.undefined:
                node = <Node> walk.nodes[place]
                if node.kind == UNDEFINED:
                    become(node, self.native.allocate(bytes_of(node)))
                    if recorder is not None:
                        recorder.allocated(node)
            node = None
            if stage.entry is not None:
                if stage.width >= 0 and sizes is not None:
                    stage.units = sizes[stage.width]
                elif stage.width >= 0:
                    stage.units = walk.sizes[stage.width - 1] if stage.width else 1
                self._run_stage(stage, recorder, known)
            elif stage.step is not None and not self._run_step(
                    stage.step, [<Node> walk.nodes[place] for place in stage.operands],
                    [<Node> walk.nodes[place] for place in stage.outputs], stage.positions, recorder):
                return False
            if held is not None:
                for place in stage.releases:
                    held[place] = None
        return True

    cdef bint _run_step(self, object step, list operands, list results, list positions, object recorder) except -1:
        """Launch a step, if its operands are in memory; whether it was done."""
        if recorder is None or not self._are_here(operands):
            return self.launch_step(step, operands, results, positions)
        recorder.begin_step(step, operands, results)
        self.launch_step(step, operands, results, positions)
        recorder.end_step(results)
        return True

    cdef bint _run_stage(self, LoadedStage stage, object recorder, object known) except -1:
        """Launch a kernel, for the nodes of the walk.  A recorder notes it, by what is known of the stage."""
        cdef Walk walk = self.walk
        cdef Entry entry = stage.entry
        cdef Node node
        cdef Buffer buffer
        cdef Py_ssize_t number, other, position = 0
        cdef int32_t place
        cdef list outputs = [], tables = None
        if stage.tables:  # before the parameters are made: these are launches as well
            tables = [self.native.backend.fill_tables(self.native.target, <Node> walk.nodes[<Py_ssize_t> target], op)
                      for _, target, op, _ in stage.tables]
        walk.room_for(stage.total, stage.total + 8, len(stage.slots))
        self.native.use(entry, stage.units * stage.unit)
        if stage.symbols and (stage.linked is not entry.code or entry.code is None):  # other code lies elsewhere
            for number, function, records in stage.symbols:
                stage.words[number] = entry.kernel.function_address(function, records)
            stage.linked = entry.code
        memcpy(walk.parameters, stage.words, stage.total * sizeof(uint64_t))
        if stage.width >= 0:
            for number in stage.firsts:
                walk.parameters[number] = stage.units
        walk.parameter_count, walk.input_count, walk.borrowing = stage.total, 0, False
        for number in range(stage.total):
            place = stage.places[number]
            if place < 0:
                continue
            node = <Node> walk.nodes[place]
            if node.kind == LITERAL or node.kind == BOUND:
                walk.parameters[number] = bits_of(node.type, node.payload)
            else:
                buffer = <Buffer> node.payload
                walk.parameters[number] = buffer.address
                if buffer.read_only:
                    walk.borrowing = True
                walk.inputs[walk.input_count] = <PyObject*> buffer
                walk.input_count += 1
        for number, other in stage.links:
            walk.parameters[number] = walk.parameters[other]
        for slot in stage.slots:
            walk.slots[position] = slot
            position += 1
        for number in stage.outputs:
            outputs.append(<Node> walk.nodes[number])
        if recorder is not None:
            recorder.begin_again(self.native.target, known, known.facts, stage.units,
                                 {place: <Node> walk.nodes[<Py_ssize_t> place] for place in known.used()})
        if tables is not None:
            for position in range(len(tables)):
                number = stage.tables[position][0]
                walk.parameters[number], walk.parameters[number + 1] = tables[position].words
                buffer = tables[position].whole.payload
                walk.inputs[walk.input_count] = <PyObject*> buffer
                walk.input_count += 1
        self._launch(entry, outputs, stage.units, stage.unit)
        self._commit_writes(stage)
        if tables is not None:
            for position in range(len(tables)):
                node = <Node> walk.nodes[<Py_ssize_t> stage.tables[position][3]]
                become(node, self.native.backend.merge_tables(self.native.target, tables[position]))
            self._commit_writes(stage)
        if recorder is not None:
            recorder.end()
        return True

    cdef bint _commit_writes(self, LoadedStage stage) except -1:
        """The writes have values whose targets have been written in place."""
        cdef Node node, target
        for number, place in stage.written:
            node, target = <Node> self.walk.nodes[<Py_ssize_t> number], <Node> self.walk.nodes[<Py_ssize_t> place]
            if node.kind != EVALUATED and target.kind == EVALUATED:
                become(node, target.payload)
        return True


def evaluate(backend, list roots):
    """Give values to nodes.  The caller holds the lock."""
    cdef Context context = current()
    cdef Recipes recipes
    recorder = context.recording
    if not context.flags & _EXCEPTIONAL and (_levels.get(INFO) is False or not _log.isEnabledFor(INFO)):
        recipes = backend.recipes
        if recorder is not None:
            recorder.require(backend)
            if recipes.begin() and (recipes.evaluate_straight(roots, recorder) or recipes.run_recipe(roots, recorder)):
                return
        elif recipes.begin():
            if len(roots) == 1 and (<Node> roots[0]).kind == STEP and recipes.launch_one(<Node> roots[0], roots):
                return
            if recipes.evaluate_straight(roots, None) or recipes.run_recipe(roots, None):
                return
    evaluate_by_kernels(backend, roots)
