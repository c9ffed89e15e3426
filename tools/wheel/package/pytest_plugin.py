# SPDX-License-Identifier: BSD-3-Clause
"""The limits of GPU memory of tests, for pytest.

    @pytest.mark.gpumem_limits(peak="2GiB", leaks=False)
    def test_step(): ...

With `pytest --gpumem` each test with this mark runs in a process of its own under `gpumemstat check`. It
fails with its message when a limit is exceeded, the process did not end by itself, or it used no CUDA.
Without --gpumem marks have no effect. Arguments of the mark:

    peak="2GiB"      most memory requested at a time on a device: --max requested_peak=2GiB
    leaks=False      every block is freed at the end of the process: --no-leaks
    partial=True     --partial
    COUNTER=VALUE    --max COUNTER=VALUE: failed=0, mapped_peak="3GiB"; gpumem-log(5) has the counters

The process gets rootdir and the configuration file of the session, not its command line nor addopts, but the
words of --gpumem-args: -p, or options of conftest.py that the tests need. Logs lie in --gpumem-logs, by
default gpumem-logs in rootdir: `gpumemstat report` shows them. That of an earlier run of the test is replaced.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zlib

import pytest

MARK = "gpumem_limits"
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "gpumemstat")


def pytest_addoption(parser):
    group = parser.getgroup("gpumem", "limits of GPU memory")
    group.addoption("--gpumem", action="store_true",
                    help="run tests marked with gpumem_limits in processes of their own, and check the limits")
    group.addoption("--gpumem-logs", metavar="DIR", help="where its logs are kept; gpumem-logs in rootdir")
    group.addoption("--gpumem-args", metavar="WORDS", default="",
                    help="options of pytest for these processes")


def pytest_configure(config):
    config.addinivalue_line("markers", MARK + "(peak=SIZE, leaks=False, partial=True, COUNTER=VALUE): "
                                              "limits of GPU memory, for --gpumem")


# --- the process of a test ---

class Reporter:
    """Writes the reports of a session, one line each, for `read_reports`."""

    def __init__(self, path):
        self.path, self.config = path, None

    def pytest_configure(self, config):
        self.config = config
        pytest_configure(config)  # this module is no plugin of the session if the outer one got it by -p

    def pytest_runtest_logreport(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def main():
    """python -m gpumem_preload.pytest_plugin SAID REPORTS ARGUMENT...: pytest, with its output in SAID."""
    said, reports = sys.argv[1:3]
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for number in (1, 2):
        os.dup2(file, number)
    sys.exit(pytest.main(sys.argv[3:], plugins=[Reporter(reports)]))


# --- the session ---

def limits_of(item):
    """The options of gpumemstat check; an inner mark replaces arguments of an outer one."""
    given = {}
    for mark in reversed(list(item.iter_markers(MARK))):
        if mark.args:
            raise pytest.UsageError("%s: %s takes arguments with names only" % (item.nodeid, MARK))
        given.update(mark.kwargs)
    options = ["--partial"] if given.pop("partial", False) else []
    if not given.pop("leaks", True):
        options.append("--no-leaks")
    if "peak" in given:
        given["requested_peak"] = given.pop("peak")
    return options + ["--max=%s=%s" % pair for pair in given.items()]


def log_of(item):
    """The name of its log. Different characters may become the same, so a sum tells such tests apart."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", item.nodeid).strip("-")[:150]
    if re.search(r"[^A-Za-z0-9_./:]", item.nodeid) or len(name) == 150:
        name += "-%08x" % zlib.crc32(item.nodeid.encode("utf-8", "surrogateescape"))
    folder = item.config.getoption("--gpumem-logs") or os.path.join(str(item.config.rootpath), "gpumem-logs")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name + ".gml").replace("%", "%%")


def command_of(item, said, reports):
    config = item.config
    words = [sys.executable, "-m", __spec__.name, said, reports,
             os.path.join(str(config.rootpath), item.nodeid), "--rootdir=%s" % config.rootpath,
             "-o", "addopts="]
    if config.inipath:
        words += ["-c", str(config.inipath)]
    return words + shlex.split(config.getoption("--gpumem-args"))


def read_reports(config, path):
    reports = []
    if not os.path.exists(path):
        return reports
    with open(path, encoding="utf-8") as file:
        for line in file:
            report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
            if isinstance(report.longrepr, list):
                report.longrepr = tuple(report.longrepr)  # of a skip; JSON has no tuples
            reports.append(report)
    return reports


def read_text(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def failure(item, message):
    return pytest.TestReport(nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed",
                             longrepr=message, when="call")


def item_run(item):
    """Run a test in its process. Returns its reports."""
    limits = limits_of(item)
    if not limits:
        return [failure(item, "%s has no limit: peak, leaks=False or a counter" % MARK)]
    with tempfile.TemporaryDirectory() as folder:
        said, reports = os.path.join(folder, "said"), os.path.join(folder, "reports")
        command = [TOOL, "check"] + limits + ["-o", log_of(item), "--"] + command_of(item, said, reports)
        done = subprocess.run(command, cwd=str(item.config.invocation_params.dir), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        found = read_reports(item.config, reports)
        if not found or found[-1].when != "teardown":
            found.append(failure(item, "the process of the test ended with status %d\n%s%s" %
                                 (done.returncode, done.stdout, read_text(said))))
    for report in found:
        # A test that failed or was skipped has its own message.
        if report.when == "call" and report.passed and done.returncode and all(one.passed for one in found):
            report.outcome, report.longrepr = "failed", done.stdout.rstrip()
            break
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if not item.config.getoption("--gpumem") or not item.get_closest_marker(MARK):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in item_run(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


if __name__ == "__main__":
    main()
