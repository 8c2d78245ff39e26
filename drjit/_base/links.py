"""What the base class of arrays asks of the floors above: a table that those fill when they are imported.

``ArrayBase`` has the methods of the public interface, such as ``.numpy()``; what they do is known further up. The
functions are looked up here when a method is called, so that imports go downwards only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from .records import Record

__all__ = ["Links", "links"]


class Links:
    """Functions of higher floors, by what they do."""

    #: ``drjit._arrays.host``: a NumPy array, and a view of the values as memory.
    to_numpy: Callable[[Any], Any]
    to_memoryview: Callable[[Any], memoryview]
    #: ``drjit._arrays.host``: nested lists of Python numbers.
    to_list: Callable[[Any], Any]
    #: ``drjit._arrays.pickling``: what pickles hold of an array, given the protocol, and an array made from that.
    array_state: Callable[[Any, int], Any]
    restore_array: Callable[[Any, Any], None]
    #: ``drjit._arrays.pickling``: an array with the same values, which shares memory with nobody outside, given what
    #: has been copied so far.
    independent: Callable[[Any, dict[int, Any]], Any]
    #: ``drjit._arrays.dlpack``: a capsule, given stream, version, device and whether to copy.
    to_capsule: Callable[[Any, Any, tuple[int, int] | None, tuple[int, int] | None, bool | None], Any]
    #: There as well: the device, and what the CUDA array interface tells.
    device_of: Callable[[Any], tuple[int, int]]
    to_interface: Callable[[Any], dict[str, Any]]
    #: ``drjit.interop.frameworks``: arrays of other frameworks that show the same memory.
    to_torch: Callable[[Any], Any]
    to_jax: Callable[[Any], Any]
    to_tf: Callable[[Any], Any]
    #: ``drjit._arrays.format``: the text of ``repr``, dimensions of more entries than a limit abbreviated.
    format_array: Callable[[Any, int], str]
    #: ``drjit._tools.listing``: gives arrays a label.
    set_label: Callable[[Any, str], None]
    #: ``drjit._ad.arrays``: the gradients of an array, and what sets them.
    gradient: Callable[[Any], Any]
    set_gradient: Callable[[Any, Any], None]
    #: ``drjit._random.generators``: the class of a random number generator: its name, its module, the package's record.
    #: That module is loaded when a program first asks for one.
    generator: Callable[[str, str, Record], type]
    #: ``drjit._texture.texture``: the class of textures, likewise.
    texture: Callable[[str, str, Record], type]
    #: ``drjit._control.surroundings``: what a function refers to, given who calls it, the function and its arguments;
    #: likewise.
    surroundings: Callable[[str, Callable[..., Any], Sequence[Any]], Any]

    def __init__(self) -> None:
        self.generator, self.texture, self.surroundings = _load_generators, _load_textures, _load_surroundings


def _load_generators(name: str, module: str, record: Record) -> type:
    importlib.import_module("drjit._random.generators")  # which takes the place of this function
    return links.generator(name, module, record)


def _load_textures(name: str, module: str, record: Record) -> type:
    importlib.import_module("drjit._texture.texture")  # likewise
    return links.texture(name, module, record)


def _load_surroundings(name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    importlib.import_module("drjit._control.surroundings")  # likewise
    return links.surroundings(name, function, arguments)


links = Links()
