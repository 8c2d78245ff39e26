"""The runner of the array API's suite: what it asks pytest for, and what it says of a run."""

from __future__ import annotations

import json
import textwrap

import pytest

from conformance import array_api

CONFTEST = '''
import pytest

def pytest_addoption(parser):
    parser.addoption("--max-examples", type=int)
    parser.addoption("--disable-deadline", action="store_true")
    parser.addoption("--skips-file")
    parser.addoption("--xfails-file")

def pytest_configure(config):
    for name in ("skips", "xfails"):
        assert open(config.getoption(f"--{name}-file")).read() == ""
    assert config.getoption("--max-examples") == 7 and config.getoption("--disable-deadline")
'''
TESTS = '''
import os
import pytest
import drjit as dr
from drjit.llvm import Float

def test_module():
    assert os.environ["ARRAY_API_TESTS_MODULE"] == "some.namespace"

def test_kernel():
    assert list(Float(1, 2) + 1) == [2, 3]

@pytest.mark.parametrize("k", [1, 2])
def test_failure(k):
    assert k == 1

@pytest.mark.skip(reason="of no use here")
def test_left_out():
    pass
'''


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "array-api" / "src").mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (tmp_path / "array_api_tests" / "test_some.py").write_text(textwrap.dedent(TESTS))
    return tmp_path


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_counted_and_explained(suite, workers, capfd):
    pytest.importorskip("pytest_jsonreport", reason="pytest-json-report is a requirement of array-api-tests")
    status = array_api.main([str(suite), "--module", "some.namespace", "--max-examples", "7", "--workers",
                             str(workers)])
    lines = capfd.readouterr().out.splitlines()
    assert status == 1
    assert "failed: test_some.py::test_failure[2]" in lines
    assert "skipped by the suite: test_some.py::test_left_out (of no use here)" in lines
    assert lines[-2].startswith("1 failed, 3 passed, 1 skipped; ")
    assert lines[-1].startswith("kernels of all processes: 1 launches")


def test_other_arguments_go_to_pytest(suite, capfd):
    pytest.importorskip("pytest_jsonreport", reason="pytest-json-report is a requirement of array-api-tests")
    assert array_api.main([str(suite), "--module", "some.namespace", "--max-examples", "7", "--", "-k", "module"]) == 0
    assert "1 passed; " in capfd.readouterr().out
    assert array_api.main([str(suite), "--module", "some.namespace", "--max-examples", "7",
                           "--", "array_api_tests/test_some.py::test_kernel"]) == 0


def test_modules_that_cannot_be_collected_are_named():
    report = json.loads('{"collectors": [{"nodeid": "array_api_tests/test_x.py", "outcome": "failed"}]}')
    text = array_api.summary(array_api.Outcome(report, [], 1.6, 2))
    assert text == "not collected: array_api_tests/test_x.py\nno tests; 2 s"


def test_a_checkout_that_is_missing_or_incomplete_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(array_api.VARIABLE, raising=False)
    for arguments, message in (([], "set ARRAY_API_TESTS"), ([str(tmp_path)], "is not a checkout of array-api-tests")):
        with pytest.raises(SystemExit):
            array_api.main(arguments)
        assert message in capsys.readouterr().err
    (tmp_path / "array_api_tests").mkdir()
    monkeypatch.setenv(array_api.VARIABLE, str(tmp_path))
    with pytest.raises(SystemExit):
        array_api.main([])
    assert "git submodule update --init" in capsys.readouterr().err
