"""Kernels of the CPU in files: see :mod:`..portable`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...codegen.steps import Text
from ...llvm import jit
from .. import disk
from . import cache, launches

__all__ = ["Carrier"]

#: What has to be the same, and what it is called.
_SAME = {"architecture": "the architecture", "lanes": "the number of elements in a packet",
         "llvm": "the version of LLVM", "emitter": "the version of this package"}


class Carrier:
    """What carries them, and knows where they can run."""

    @staticmethod
    def environment() -> dict[str, Any]:
        """What code of this process depends on."""
        name, features = jit.host_cpu()
        return {"architecture": jit.triple(), "lanes": jit.lanes(), "llvm": ".".join(map(str, jit.version())),
                "emitter": (disk.emitter() or b"").hex()[:32], "processor": name,
                "features": sorted(each[1:] for each in features.split(",") if each.startswith("+"))}

    @classmethod
    def obstacle(cls, environment: dict[str, Any]) -> str:
        """Why code of another process cannot run in this one; empty if it can."""
        here = cls.environment()
        for key, name in _SAME.items():
            if environment[key] != here[key]:
                return f"{name} is {here[key]}, and was {environment[key]}"
        missing = sorted(set(environment["features"]) - set(here["features"]))
        if missing:
            return f"this processor ({here['processor']}) lacks what that one ({environment['processor']}) had: " \
                f"{', '.join(missing)}"
        return ""

    @staticmethod
    def facts(kernel: cache.CompiledKernel) -> Sequence[Any]:
        """What is to be known of a kernel besides its code; first what makes it different from others."""
        return _plain(kernel.facts())

    @staticmethod
    def packed(kernel: cache.CompiledKernel) -> bytes:
        """Its code."""
        return kernel.packed()

    @staticmethod
    def facts_of_text(text: Text) -> Sequence[Any]:
        """What is to be known of a text besides its code."""
        return _plain(cache.facts_of_text(text))

    @staticmethod
    def packed_text(text: Text) -> bytes:
        """Its code."""
        return cache.packed_text(text)

    @staticmethod
    def unpacked(facts: Sequence[Any], found: bytes) -> cache.CompiledKernel:
        """A kernel again."""
        key, *others = facts
        return cache.bring(cache.Facts(bytes.fromhex(key), *others), found)

    @staticmethod
    def course(fields: Sequence[Any]) -> launches.Course:
        """What launches depend on, which is a tuple, again."""
        return launches.Course(*fields)


def _plain(facts: cache.Facts) -> Sequence[Any]:
    return facts._replace(key=facts.key.hex(), exports=list(facts.exports))  # type: ignore[arg-type]
