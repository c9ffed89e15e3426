# SPDX-License-Identifier: BSD-3-Clause
"""A copy of a commit's files, and builds of it: each worker has one, and changes one file of it at a time."""
import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
import sys

BUILDS = {
    "coverage": "--enable-debug --enable-coverage CFLAGS='-O0 -w'",
    "plain": "--enable-debug CFLAGS='-O1 -g0 -w'",
    "sanitize": "--enable-sanitize=address,undefined CFLAGS='-g1 -Og -w'",
    "thread": "--enable-debug --enable-sanitize=thread CFLAGS='-O1 -g0 -w'",
}
# Targets of local.mk: generated sources, unit tests, and the programs that all other tests need.
SOURCES, UNIT, PROGRAMS = "mutants-sources", "mutants-unit", "mutants-programs"


under_way = set()  # processes, each the leader of a session


@contextlib.contextmanager
def started(command, where, **options):
    """A process that `kill` ends with all its children, and that ends with this block."""
    with subprocess.Popen(command, cwd=where, stdin=subprocess.DEVNULL, start_new_session=True, **options) as process:
        under_way.add(process)
        try:
            yield process
        finally:
            kill(process)
            under_way.discard(process)


def kill(process, sign=signal.SIGKILL):
    try:
        os.killpg(process.pid, sign)
    except ProcessLookupError:
        pass


def answer(command, where):
    return subprocess.run(command, cwd=where, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def is_unit(test):
    return not test.endswith((".bats", ".sh"))


class Copy:
    def __init__(self, options, commit, top):
        self.options, self.commit, self.top = options, commit, top
        self.tree = os.path.join(top, "tree")
        self.log = os.path.join(top, "log")
        self.made = {}   # {path of a build: its objects}
        self.since = 0   # the time at which a file of the tree was changed
        os.makedirs(self.tree, exist_ok=True)
        self.must("GIT_DIR=%s GIT_INDEX_FILE=%s git --work-tree=. read-tree --reset -u %s" % (
            shlex.quote(answer(["git", "rev-parse", "--absolute-git-dir"], options.source)),
            shlex.quote(os.path.join(top, "index")), commit), self.tree)
        if not os.path.exists(os.path.join(self.tree, "configure")):
            self.must("./autogen.sh", self.tree)

    def run(self, command, where):
        with open(self.log, "ab") as output, started(command, where, stdout=output, stderr=subprocess.STDOUT) as process:
            return process.wait()

    def must(self, command, where):
        if self.run(["sh", "-c", command], where) != 0:
            sys.exit("mutants: '%s' failed; see %s" % (command, self.log))

    def make(self, build, *targets, jobs=1):
        """Whether the targets could be made. nvcc takes minutes, and no test here runs its output, which
        counts as made."""
        made = [word for name in self.options.device_code.split() for word in ("-o", name)]
        return self.run(["make", "-s", "-j%d" % jobs, *made, *targets], build) == 0

    def build(self, name):
        """The path of a build of this commit."""
        path = os.path.join(self.top, name)
        if path in self.made:
            return path
        if not os.path.exists(os.path.join(path, "Makefile")):
            os.makedirs(path, exist_ok=True)
            self.must("%s/configure --quiet %s %s" % (os.path.relpath(self.tree, path), self.options.configure,
                                                      BUILDS[name]), path)
            self.must("cp -p --parents %s %s" % (self.options.device_code, shlex.quote(path)), self.options.build)
        if not (self.make(path, "Makefile") and self.make(path, SOURCES)
                and self.make(path, PROGRAMS, UNIT, jobs=self.options.jobs)):
            sys.exit("mutants: the commit does not build; see " + self.log)
        self.made[path] = self.objects(path, 0)
        return path

    def tests(self, build):
        return answer(["make", "-s", "--no-print-directory", "mutants-tests",
                       "MUTANTS_TESTS=" + self.options.tests], self.build(build)).split()

    def objects(self, build, since):
        """{object file: digest} of the objects written since."""
        found = {}
        for where, _, names in os.walk(build):
            for name in [os.path.join(where, name) for name in names if name.endswith(".o")]:
                if os.stat(name).st_mtime_ns >= since:
                    with open(name, "rb") as file:
                        found[name] = hashlib.sha256(file.read()).hexdigest()
        return found

    def is_changed(self, build):
        """Whether an object written since `change` differs from the commit's."""
        return any(self.made[build].get(name) != digest for name, digest in self.objects(build, self.since).items())

    def change(self, path, line, text):
        """Changes a line of a file; returns the former text of the file."""
        with open(os.path.join(self.tree, path), encoding="utf-8") as file:
            before = file.read()
        lines = before.split("\n")
        lines[line - 1] = text
        self.restore(path, "\n".join(lines))
        self.since = os.stat(os.path.join(self.tree, path)).st_mtime_ns
        return before

    def restore(self, path, content):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8") as file:
            file.write(content)
