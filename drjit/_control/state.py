"""What the functions of loops, branches and calls are called with, and how it is compared with what they return."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit_core as core

from .._base.array import ArrayBase
from .._base.errors import describe, user_part
from .._base.handle import held
from .._trees.classes import sole_array
from .._trees.holders import are_same
from .._trees.pytree import TreeSpec, flatten

__all__ = ["copies", "difference_of", "is_made_of", "is_retracked", "lane_shape", "mask_of", "no_mask", "shape_of",
           "told_apart", "uninitialized"]

_EVALUATED, _LITERAL = core.KIND["evaluated"], core.KIND["literal"]
#: Classes of traced masks of one dimension.
_masks: set[type] = set()


def copies(function: str, spec: TreeSpec, nodes: Sequence[core.Node], leaves: Sequence[Any]) -> list[Any]:
    """Leaves with arrays of their own, so that in-place changes do not reach those of the caller."""
    found = flatten(spec.rebuild_nodes(nodes, leaves), function)[0]
    return [type(leaf)(leaf) if isinstance(leaf, ArrayBase) and not leaf._dynamic else leaf for leaf in found]


def mask_of(value: Any) -> core.Node | None:
    """The node of a condition: of a traced mask of one dimension, which may be of another package."""
    if type(value) in _masks:
        return held(value)  # type: ignore[no-any-return]
    array = sole_array(value)
    if not (isinstance(array, ArrayBase) and array._kind == "b" and array._depth <= 0 and array._dynamic):
        return None
    if array is value and not array._depth:
        _masks.add(type(value))
    return array._nodes()[0]  # type: ignore[no-any-return]


def no_mask(found: Any) -> str:
    """What a message says of a condition that is none."""
    compared = isinstance(found, ArrayBase) and not found._depth and found._kind in "iuf"
    return f"{describe(found)}{': compare it, as in x != 0' if compared else ''}."


def shape_of(mask: Any, spec: TreeSpec | None) -> tuple[int, ...]:
    """The shape of a mask with one element for each lane, which may be of another package; a flat one goes with that
    of tensors, if all that have so many elements are of one shape."""
    if type(mask) in _masks:
        return lane_shape(held(mask).size, spec)
    array = sole_array(mask)
    if not isinstance(array, ArrayBase):
        return ()
    return array._s if array._depth < 0 else lane_shape(array._nodes()[0].size, spec)


def lane_shape(width: int, spec: TreeSpec | None) -> tuple[int, ...]:
    """The shape of tensors with one element for each of some lanes: that of those in a tree."""
    if spec is None or not spec.has_tensors():
        return (width,)
    shapes = {shape for _, _, shape, _, depth in spec.traced() if depth < 0 and math.prod(shape) == width}
    return shapes.pop() if len(shapes) == 1 else (width,)


def told_apart(nodes: list[core.Node]) -> list[core.Node]:
    """Nodes of variables, of which each one without elements is another than what operations make: so that it can be
    seen whether functions leave it alone."""
    for node in nodes:
        if not node.size:
            return [_told_apart(node) for node in nodes]
    return nodes


def _told_apart(node: core.Node) -> core.Node:
    if node.size:
        return node
    vertex, value = core.vertex_of(node), core.nothing(node.type)
    return value if vertex is None else core.dual(value, vertex)


def uninitialized(error: Exception, nodes: Sequence[core.Node], spec: TreeSpec) -> int:
    """The position of the first leaf that has no elements, if a construct fails for sizes that do not go with that;
    else -1.

    What functions of the user raise says itself what is wrong, unless other leaves have several elements.
    """
    sizes = {node.size for node in nodes}
    if 0 not in sizes or user_part(error) is not None and sizes <= {0, 1}:
        return -1
    position = [node.size for node in nodes].index(0)
    for leaf, _, _, count, _ in spec.traced():
        position -= count
        if position < 0:
            return leaf
    return -1


def _equal(old: Any, new: Any) -> bool:
    """Whether two objects other than traced arrays are known to be equal."""
    if isinstance(old, ArrayBase):
        return [node.payload for node in old._nodes()] == [node.payload for node in new._nodes()]
    try:
        return bool(old == new)
    except Exception:  # of objects that hold symbolic arrays, or several elements
        return False


def difference_of(before: Sequence[Any], after: Sequence[Any]) -> int:
    """The first place in which leaves other than traced arrays are not known to be equal; -1 if there is none."""
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is not new and not (isinstance(new, ArrayBase) and new._dynamic) and not (
                are_same(old, new) or _equal(old, new)):
            return place
    return -1


def is_made_of(nodes: Sequence[core.Node], given: Sequence[core.Node], since: int = -1) -> bool:
    """Whether any of what a function has computed may be one of some nodes that it was given, or computed of them: of
    what is evaluated, and was made ``since`` a node of some id, nobody knows, if things are evaluated meanwhile."""
    made, wide = [[core.primal(node) for node in each if node.kind != _LITERAL] for each in (nodes, given)]
    return bool([node for node in made if node in wide or node.kind == _EVALUATED and -1 < since < node.id]) or \
        core.depend_on(made, wide)


def is_retracked(new: core.Node, old: core.Node) -> bool:
    """Whether a component is what it was, but for derivatives, which a function has enabled or disabled; another
    constant of the same value may have been put there."""
    if core.primal(new) is not core.primal(old):
        return False
    before, after = core.vertex_of(old), core.vertex_of(new)
    if after is None:
        return before is not None and core.primal(old).kind != _LITERAL
    return before is None and after.rule is core.LEAF
