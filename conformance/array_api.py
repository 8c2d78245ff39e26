"""Runs the conformance suite of the Python array API standard.

The suite is not part of this repository; README.md says how to get it. Its folder is an argument, or the value of the
environment variable ARRAY_API_TESTS:

    python -m conformance.array_api /path/to/array-api-tests                    # drjit.array_api
    python -m conformance.array_api --module array_api_strict                   # another namespace, to compare with
    python -m conformance.array_api --module array_api_compat.numpy -- -k sum   # what follows goes to pytest

All tests run, with 200 examples each, in two processes: no list of tests to skip or that are expected to fail, be it of
the suite or of ours. Printed are the totals, which tests failed and which the suite itself skipped (and why), how long
it took, and how many kernels were compiled. The exit status is that of pytest: 0 if no test failed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

__all__ = ["Outcome", "main", "run", "summary"]

ROOT = pathlib.Path(__file__).resolve().parents[1]
VARIABLE = "ARRAY_API_TESTS"
#: The folder where the processes of pytest leave their counts, each in a file of its own.
_COUNTS = "DRJIT_CONFORMANCE_COUNTS"


def pytest_sessionfinish(session: Any) -> None:
    """Note how many kernels this process of pytest has compiled (this module is a plugin of it)."""
    core = sys.modules.get("drjit_core")
    folder = os.environ.get(_COUNTS)
    if core is not None and folder:
        path = pathlib.Path(folder) / f"{os.getpid()}.json"
        path.write_text(json.dumps(core.kernel_statistics()), encoding="utf-8")


class Outcome:
    """What a run has found."""

    def __init__(self, report: dict[str, Any], counts: list[dict[str, int]], seconds: float, status: int) -> None:
        self.seconds, self.status = seconds, status
        #: Names of tests by their outcome.
        self.tests: dict[str, list[str]] = collections.defaultdict(list)
        #: Why tests were skipped.
        self.reasons: dict[str, str] = {}
        for test in report.get("tests", ()):
            name = test["nodeid"].removeprefix("array_api_tests/")
            self.tests[test["outcome"]].append(name)
            if test["outcome"] == "skipped":
                self.reasons[name] = _reason(test)
        #: Modules that could not be collected.
        self.broken = [found["nodeid"] for found in report.get("collectors", ()) if found["outcome"] == "failed"]
        self.kernels: dict[str, int] = collections.Counter()
        for count in counts:
            for key, value in count.items():
                self.kernels[key] += value


def _reason(test: dict[str, Any]) -> str:
    for stage in ("setup", "call", "teardown"):
        text = test.get(stage, {}).get("longrepr", "")
        if text:
            return str(text).rpartition("Skipped: ")[2].rstrip("')")
    return ""


def summary(outcome: Outcome) -> str:
    """The outcome in words."""
    lines = []
    for title in ("failed", "error", "xfailed", "xpassed"):
        lines += [f"{title}: {name}" for name in sorted(outcome.tests.get(title, ()))]
    lines += [f"not collected: {name}" for name in outcome.broken]
    lines += [f"skipped by the suite: {name} ({outcome.reasons[name]})" for name in sorted(outcome.tests["skipped"])]
    totals = [f"{len(names)} {title}" for title, names in sorted(outcome.tests.items()) if names]
    lines.append(f"{', '.join(totals) or 'no tests'}; {outcome.seconds:.0f} s")
    if outcome.kernels:
        counts = ", ".join(f"{value} {key}" for key, value in outcome.kernels.items())
        lines.append(f"kernels of all processes: {counts}")
    return "\n".join(lines)


def run(suite: pathlib.Path, module: str, *, examples: int = 200, workers: int = 2,
        arguments: list[str] | None = None) -> Outcome:
    """Run the suite in a folder against a namespace."""
    with tempfile.TemporaryDirectory() as folder:
        report, nothing = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "nothing.txt")
        nothing.touch()  # the suite's own files of exceptions are not to be found
        command = [sys.executable, "-m", "pytest", "--rootdir", ".", "-p", "conformance.array_api",
                   "-p", "no:cacheprovider", "-q", "--tb=short", "--disable-warnings",
                   f"--max-examples={examples}", "--disable-deadline",
                   f"--skips-file={nothing}", f"--xfails-file={nothing}",
                   "--json-report", f"--json-report-file={report}",
                   "--json-report-omit", "keywords", "streams", "log", "warnings",
                   *(["-n", str(workers)] if workers > 1 else []), *(arguments or []),
                   *([] if any("::" in argument for argument in arguments or []) else ["array_api_tests"])]
        paths = [str(ROOT), str(ROOT / "compiler"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "ARRAY_API_TESTS_MODULE": module, _COUNTS: folder,
                       "PYTHONPATH": os.pathsep.join(paths)}
        start = time.perf_counter()
        status = subprocess.run(command, cwd=suite, env=environment, check=False).returncode
        seconds = time.perf_counter() - start
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        counts = [json.loads(path.read_text(encoding="utf-8")) for path in pathlib.Path(folder).glob("[0-9]*.json")]
    return Outcome(found, counts, seconds, status)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m conformance.array_api", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("suite", nargs="?", type=pathlib.Path, default=os.environ.get(VARIABLE),
                        help=f"folder of array-api-tests (default: ${VARIABLE})")
    parser.add_argument("--module", default="drjit.array_api", help="namespace to test (default: drjit.array_api)")
    parser.add_argument("--max-examples", type=int, default=200, help="examples of each test (default: 200)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    given = sys.argv[1:] if arguments is None else arguments
    end = given.index("--") if "--" in given else len(given)
    known = parser.parse_args(given[:end])
    if known.suite is None:
        parser.error(f"where is array-api-tests? Name its folder, or set {VARIABLE}; README.md says how to get it")
    suite = pathlib.Path(known.suite).resolve()
    if not (suite / "array_api_tests").is_dir():
        parser.error(f"{suite} is not a checkout of array-api-tests: it has no folder array_api_tests")
    if not (suite / "array-api" / "src").is_dir():
        parser.error(f"the submodule array-api of {suite} is missing: git submodule update --init")
    outcome = run(suite, known.module, examples=known.max_examples, workers=known.workers, arguments=given[end + 1:])
    print(summary(outcome))
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
