"""Time of ``import drjit`` and of the types of one backend, in a process that has imported neither."""

from __future__ import annotations

import time

from measure import case, main


@case("import drjit")
def _import_package() -> tuple[float, float]:
    start = time.perf_counter()
    import drjit  # noqa: F401

    return time.perf_counter() - start, 0.0


@case("from drjit.llvm import Float, after that")
def _import_types() -> tuple[float, float]:
    import drjit  # noqa: F401

    start = time.perf_counter()
    from drjit.llvm import Float  # noqa: F401

    return time.perf_counter() - start, 0.0


if __name__ == "__main__":
    main()
