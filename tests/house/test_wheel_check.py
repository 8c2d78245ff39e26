"""The check of the wheel: what it refuses. That the wheel itself passes is seen by ``make wheel``."""

from __future__ import annotations

import sys
import sysconfig
import zipfile

import pytest

from conformance.check_wheel import ROOT, expected_files, problems

WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = """\
Metadata-Version: 2.4
Name: drjit-python
Version: 0.1.0
License-Expression: BSD-3-Clause
Requires-Python: >=3.11
Requires-Dist: llvmlite>=0.46
Requires-Dist: numpy>=1.26
Requires-Dist: torch>=2.4; extra == "torch"
"""


VERSION = "".join(map(str, sys.version_info[:2]))
NAMES = {True: "drjit_python-0.1.0-py3-none-any.whl",
         False: f"drjit_python-0.1.0-cp{VERSION}-cp{VERSION}-linux_x86_64.whl"}


def make_wheel(folder, name=NAMES[True], without=(), extra=(), wheel=WHEEL, metadata=METADATA, pure=True):
    path = folder / name
    info = "drjit_python-0.1.0.dist-info/"
    files = dict.fromkeys([*expected_files(pure), info + "licenses/LICENSE", *extra], "")
    files |= {info + "WHEEL": wheel, info + "METADATA": metadata}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in files.items():
            if entry not in without:
                archive.writestr(entry, text)
    return path


def test_a_good_wheel(tmp_path):
    assert problems(make_wheel(tmp_path), True) == []


def test_a_good_wheel_of_a_platform(tmp_path):
    wheel = make_wheel(tmp_path, NAMES[False], wheel=WHEEL.replace("true", "false"), pure=False)
    assert problems(wheel, False) == []


def test_a_wheel_of_a_platform_has_all_compiled_rooms(tmp_path):
    missing = f"drjit_core/ir/trace{sysconfig.get_config_var('EXT_SUFFIX')}"
    wheel = make_wheel(tmp_path, NAMES[False], [missing], wheel=WHEEL.replace("true", "false"), pure=False)
    assert problems(wheel, False) == [f"missing: {missing}"]


@pytest.mark.parametrize(("change", "message"), [
    ({"without": ["drjit/py.typed"]}, "missing: drjit/py.typed"),
    ({"without": ["drjit_core/py.typed"]}, "missing: drjit_core/py.typed"),
    ({"without": ["drjit_core/ops/table.py"]}, "missing: drjit_core/ops/table.py"),
    ({"without": ["drjit/llvm/ad.pyi"]}, "missing: drjit/llvm/ad.pyi"),
    ({"without": ["drjit_python-0.1.0.dist-info/licenses/LICENSE"]}, "missing: LICENSE"),
    ({"extra": ["tests/core/test_messages.py"]}, "does not belong there: tests/core/test_messages.py"),
    ({"extra": ["drjit_core/_fast.so"]}, "does not belong there: drjit_core/_fast.so"),
    ({"wheel": WHEEL.replace("true", "false")}, "it should be pure Python"),
    ({"metadata": METADATA + "Requires-Dist: scipy\n"}, "runtime dependencies ['llvmlite', 'numpy', 'scipy']"),
    ({"metadata": METADATA.replace("3.11", "3.9")}, "metadata Requires-Python: '>=3.9'"),
    ({"metadata": METADATA.replace("BSD-3-Clause", "MIT")}, "metadata License-Expression: 'MIT'"),
    ({"name": "drjit_python-0.1.0-cp311-cp311-linux_x86_64.whl"}, "the name says something else than py3-none-any"),
])
def test_what_is_refused(tmp_path, change, message):
    found = problems(make_wheel(tmp_path, **change), True)
    assert any(problem.startswith(message) or message in problem for problem in found)


def test_the_check_knows_both_packages():
    assert {name.partition("/")[0] for name in expected_files(True)} == {"drjit", "drjit_core"}
    assert (ROOT / "pyproject.toml").exists()
