"""The rule between floors that import-linter has no word for: what builds on the public API imports nothing private."""

from __future__ import annotations

import grimp

#: Modules that make the public API; everything else in ``drjit`` that is not ``drjit._*`` itself is a user of it.
FOUNDATION = ("drjit", "drjit.__main__", "drjit.scalar", "drjit.llvm", "drjit.cuda", "drjit.auto")


def is_user(module: str) -> bool:
    return module not in FOUNDATION and not module.startswith(("drjit._", *(f"{name}." for name in FOUNDATION[1:])))


def test_users_of_the_public_api_import_no_private_module():
    graph = grimp.build_graph("drjit", cache_dir=None)
    found = [f"{user} imports {imported}" for user in sorted(graph.modules) if is_user(user)
             for imported in sorted(graph.find_modules_directly_imported_by(user)) if imported.startswith("drjit._")]
    assert not found
