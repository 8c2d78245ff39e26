"""Log levels: what is let through, where it is printed, and that it goes through ``logging``."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys

import pytest

from drjit_core import flags
from drjit_core import messages as log_module
from drjit_core.messages import INFO_SYM, LEVELS, TRACE, log_level, logger, set_log_level
from drjit_core.types import LogLevel


@pytest.fixture(autouse=True)
def restore_level():
    before = log_level()
    yield
    set_log_level(before)


def interpret(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, where logging is not configured."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, with the module imported."""
    return interpret("import logging\nfrom drjit_core.messages import *\n"
                     "from drjit_core.types import LogLevel\n" + program)


def test_default_is_warn():
    assert run("print(log_level().name, logger.level == logging.WARNING)").stdout == "Warn True\n"


@pytest.mark.parametrize("level", list(LogLevel))
def test_level_is_the_level_of_the_logger(level):
    set_log_level(level)
    assert log_level() is level
    assert logger.level == LEVELS[level]
    set_log_level(level.value)
    assert log_level() is level


@pytest.mark.parametrize("level", list(LogLevel))
def test_what_is_let_through(level, caplog):
    set_log_level(level)
    for other in LogLevel:
        if other is not LogLevel.Disable:
            logger.log(LEVELS[other], other.name)
    assert [record.message for record in caplog.records] == [
        other.name for other in LogLevel if 0 < other.value <= level.value]


@pytest.mark.parametrize(("number", "level"), [
    (logging.INFO, LogLevel.Info), (12, LogLevel.InfoSym), (1, LogLevel.Trace), (25, LogLevel.Warn),
    (logging.CRITICAL, LogLevel.Disable), (1000, LogLevel.Disable)])
def test_a_level_set_through_logging_is_reported(number, level):
    logger.setLevel(number)
    assert log_level() is level


@pytest.mark.parametrize("level", list(LogLevel))
def test_verbose_levels_log_variables(level):
    set_log_level(level)
    assert flags.log_variables is (level in (LogLevel.Debug, LogLevel.Trace))


@pytest.mark.parametrize("bad", ["Info", None, 1.0, True, LogLevel])
def test_wrong_type(bad):
    with pytest.raises(TypeError, match=r"drjit\.set_log_level\(\): the level must be a drjit\.LogLevel or its number"):
        set_log_level(bad)


@pytest.mark.parametrize("bad", [-1, 7, 30])
def test_unknown_number_lists_the_levels_and_changes_nothing(bad):
    set_log_level(LogLevel.Error)
    with pytest.raises(ValueError, match=r"no log level .*0 \(Disable\), 1 \(Error\), .*6 \(Trace\)"):
        set_log_level(bad)
    assert log_level() is LogLevel.Error


def test_messages_are_printed_on_stderr():
    done = run("set_log_level(LogLevel.Trace)\n"
               "logger.log(TRACE, 'one %s', 1)\nlogger.info('two')\nlogger.warning('three')\nlogger.error('four')")
    assert done.stderr == "one 1\ntwo\ndrjit: warning: three\ndrjit: error: four\n"
    assert done.stdout == ""


def test_below_the_level_nothing_is_printed():
    assert run("set_log_level(LogLevel.Disable)\nlogger.critical('x')").stderr == ""
    assert run("logger.info('x')").stderr == ""


@pytest.mark.parametrize("name", ["", "drjit"])
def test_an_application_that_configured_logging_gets_the_messages_alone(name):
    done = run(f"handler = logging.StreamHandler()\nhandler.setFormatter(logging.Formatter('app: %(message)s'))\n"
               f"logging.getLogger({name!r}).addHandler(handler)\nset_log_level(LogLevel.InfoSym)\n"
               f"logger.info('x')\nlogger.log(INFO_SYM, 'y')")
    assert done.stderr == "app: x\napp: y\n"


def test_a_level_that_the_application_chose_before_import_stays():
    assert interpret("import logging; logging.getLogger('drjit').setLevel('INFO')\n"
                     "from drjit_core.messages import *\nprint(log_level().name)").stdout == "Info\n"


def test_loading_the_module_again_adds_no_handler():
    before = list(logger.handlers)
    log_module._install()
    assert logger.handlers == before


def test_a_replaced_stderr_is_honoured(monkeypatch):
    buffer = io.StringIO()
    monkeypatch.setattr(sys, "stderr", buffer)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    set_log_level(LogLevel.Info)
    logger.info("here")
    assert buffer.getvalue() == "here\n"


def test_constants_lie_between_the_levels_of_logging():
    assert logging.DEBUG < INFO_SYM < logging.INFO
    assert 0 < TRACE < logging.DEBUG
