#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""faulty.py PLACE: system calls of the preload that fail in turn.

Each call site of the preload that a step of PLACE passes fails alone, with each errno of faulty.def, once and from then
on. The step must not crash or hang, contents stay right, each failure has at most one line on standard error; and once
calls succeed again, the step does all its work. EVERY=n: of each call only each n-th failure.
PLACE kills: a process is killed at each system call of the beginning of its log.
"""
import mmap
import os
import re
import select
import struct
import subprocess
import sys
import errno as numbers

HANG = 3600  # s
ONWARDS = 100  # calls: more than a step makes if it gives up, and fewer than the patience of a process that asks
ARMED = struct.Struct("=IIIiiiI")
HEAD = struct.Struct("=IIIiiiII")
PLACE = struct.Struct("=III")
PLACES = 1000
LIBRARY = os.path.abspath("tests/preload/.libs/libfaulty.so")
SLEEPS = os.path.abspath("tests/preload/sleeps")
TOOL = os.path.abspath("gpumemstat")
TMP = os.environ["BATS_TEST_TMPDIR"]
EVERY = int(os.environ["EVERY"])


def rows():
    """The rows of faulty.def: name, how, errors."""
    text = open(os.path.join(os.path.dirname(__file__), "faulty.def")).read()
    found = re.findall(r'^FAULTY(?:_NUMBER)?\((\w+),(?: (\w+),)? "(.*)"\)$', text, re.M)
    return [(name, how, errors.split()) for name, how, errors in found]


ROWS = rows()


class Control:
    """The file that a process shares with us."""

    def __init__(self, name):
        self.path = os.path.join(TMP, name)
        with open(self.path, "wb") as f:
            f.truncate(HEAD.size + PLACES * PLACE.size)
        with open(self.path, "r+b") as f:
            self.memory = mmap.mmap(f.fileno(), 0)

    def arm(self, call, at, error, before, times):
        self.memory[0 : ARMED.size] = ARMED.pack(0, call, at, error, before, times, 0)
        self.memory[0:4] = struct.pack("=I", 1)

    def disarm(self):
        """Returns the number of calls that failed."""
        self.memory[0:4] = struct.pack("=I", 0)
        return HEAD.unpack_from(self.memory)[6]

    def n_places(self):
        return HEAD.unpack_from(self.memory)[7]

    def made(self):
        """The calls made so far: (call, at) -> number."""
        result = {}
        for i in range(self.n_places()):
            at, call, made = PLACE.unpack_from(self.memory, HEAD.size + i * PLACE.size)
            result[call, at] = result.get((call, at), 0) + made
        return result


class Failure(Exception):
    pass


class Process:
    """A preloaded sleeps, which obeys commands."""

    count = 0

    def __init__(self, knobs, control=None):
        Process.count += 1
        self.said = os.path.join(TMP, "said.%d" % Process.count)
        self.control = control or Control("control.%d" % Process.count)
        self.seen = 0
        preload = os.environ.get("SANITIZE_LIB", "")
        env = dict(os.environ, FAULTY=self.control.path, LD_PRELOAD=(preload + ":" if preload else "") + LIBRARY)
        env.update({"GPUMEM_LOG": "off", **knobs})
        # A character device that the program has open is looked at.
        with open(self.said, "wb") as said, open(os.devnull) as device:
            self.child = subprocess.Popen([SLEEPS, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=said, env=env, bufsize=0,
                                          pass_fds=[device.fileno()])
        self.rest = b""
        word, self.pid = self.line().split()
        if word != "ready":
            raise Failure("it is not ready")

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.child.stdout], [], [], HANG)[0]:
                raise Failure("it hangs")
            more = os.read(self.child.stdout.fileno(), 4096)
            if not more:
                raise Failure("it ended: %d" % self.child.wait())
            self.rest += more
        text, self.rest = self.rest.split(b"\n", 1)
        return text.decode()

    def says(self, command):
        try:
            self.child.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            raise Failure("it ended: %d" % self.child.wait())
        return self.line()

    def must(self, command, expected):
        answer = self.says(command)
        if answer not in expected.split("|"):
            raise Failure("%s: %s" % (command[:20], answer))

    def lines(self):
        """New lines of standard error."""
        text = open(self.said, errors="replace").read().splitlines()
        new = [line for line in text[self.seen:] if not line.startswith("gpumem: out of memory ")]
        self.seen = len(text)
        return new

    def end(self):
        self.child.stdin.close()
        status = self.child.wait(HANG)
        if status != 0:
            raise Failure("it ended with %d" % status)

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


def tool(command, process):
    """Returns the status, and the lines of output."""
    done = subprocess.run([TOOL, command, process.pid], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG,
                          stdin=subprocess.DEVNULL)
    text = done.stdout.decode().splitlines()
    if len(text) != 1 or done.returncode not in (0, 1):
        raise Failure("gpumemstat %s: %d, %s" % (command, done.returncode, text))
    return done.returncode, text[0]


# --- places: the process that fails, a step with failures, and the step without ---


class Sleep:
    """One process: it sleeps and wakes by request."""

    def __init__(self, knobs):
        self.knobs = knobs
        self.fresh()

    def fresh(self):
        self.process = Process(self.knobs)
        self.control = self.process.control

    def begin(self):
        """Before each case."""

    def touch(self):
        """Wake the process. What cannot be read from the folder cannot return, before it can be read."""
        may_fail = "/" in self.knobs.get("GPUMEM_SLEEP_STORE", "")
        call = "cuMemsetD8_v2(blocks[0], byte, 1): "
        self.process.must("touch", call + "CUDA_SUCCESS" + ("|" + call + "CUDA_ERROR_UNKNOWN" if may_fail else ""))

    def step(self, works):
        p = self.process
        for command, where in ("sleep", "asleep"), ("wake", "awake"):
            status, text = tool(command, p)
            if works and status:
                raise Failure("afterwards: %s" % text)
            if works:
                p.must("where", where)
        if not works:
            tool("sleep", p)
            self.touch()
        if works or p.says("where") == "awake":
            p.must("check", "right")

    def processes(self):
        return [self.process]


class Copy(Sleep):
    """A process whose copies are staged: its first one makes the slots and threads."""

    def fresh(self):
        self.control = Control("copy")
        self.process = Process(self.knobs, self.control)

    def begin(self):
        self.process.end()
        self.process = Process(self.knobs, self.control)

    def step(self, works):
        self.process.must("copy", "right")
        self.process.must("check", "right")


class Join(Sleep):
    """A process from its start on; without failures it can be asked to sleep."""

    def fresh(self):
        self.process = None
        self.control = Control("join")
        self.told = False

    def step(self, works):
        if not works or not self.process:
            self.process = None
            self.process = Process(self.knobs, self.control)
            self.process.must("check", "right")
            self.process.must("where", "awake")
            self.told = False
        if works:
            self.process.must("check", "right")
            status, text = tool("sleep", self.process)
            # What was said once is off, and no socket is left that nobody answers.
            if status and (not self.told or "does not answer" in text):
                raise Failure("afterwards: %s" % text)
            self.process.must("check", "right")
            self.process.end()
            self.process = None

    def heard(self, lines, call, error):
        """The line has the error; the driver's, if it is of a pool. Of the counters it has the call, too."""
        self.told = self.told or bool(lines)
        for line in lines:
            whole = os.strerror(error) in line or "no pool on device" in line
            if not whole or ("live counters" in line and call.replace("gm_sys_", "") not in line):
                raise Failure("it says %s" % line)

    def processes(self):
        return [self.process] if self.process else []


class Ask:
    """Two processes: each gets the idle memory of the other. `answers`: the failures are of the one that answers."""

    knobs = {"GPUMEM_TRIM_AFTER": "off", "GPUMEM_SLEEP": "1"}

    def __init__(self, answers):
        self.answers = answers
        self.fresh()

    def begin(self):
        """Before each case."""

    def fresh(self):
        self.giver = Process(self.knobs)
        self.taker = Process(self.knobs)
        self.control = (self.giver if self.answers else self.taker).control

    def step(self, works):
        if works:  # a process that did not answer is left out for a minute
            self.taker.end()
            self.taker = Process(self.knobs, None if self.answers else self.control)
        expected = "peak: CUDA_SUCCESS" + ("" if works else "|peak: CUDA_ERROR_OUT_OF_MEMORY")
        self.giver.must("peak", expected)
        self.taker.must("peak", expected)
        for p in self.processes():
            p.must("check", "right")

    def processes(self):
        return [self.giver, self.taker]


class Ipc(Ask):
    """Two processes: one opens memory of the other."""

    knobs = {"SIM_MEMFD": "1"}

    def step(self, works):
        handle = self.giver.says("export")
        if len(handle) != 128:
            if works:
                raise Failure("afterwards: export: " + handle)
            return
        self.taker.must("import " + handle,
                        "right" if works else "right|CUDA_ERROR_INVALID_HANDLE|CUDA_ERROR_MAP_FAILED")
        for p in self.processes():
            p.must("check", "right")


SETS = {
    "join": lambda: Join({"GPUMEM_SLEEP": "1"}),
    "sleep": lambda: Sleep({"GPUMEM_SLEEP": "1", "GPUMEM_SLEEP_STORE": "16M"}),
    "folder": lambda: Sleep({"GPUMEM_SLEEP": "1", "GPUMEM_SLEEP_STORE": os.path.join(TMP, "store")}),
    "copy": lambda: Copy({"GPUMEM_COPY": "2", "GPUMEM_TRIM_AFTER": "off", "HANDLED": "1"}),
    "ask": lambda: Ask(False),
    "exporter": lambda: Ipc(True),
    "importer": lambda: Ipc(False),
}

# Calls that must have failed in a place; else the test tests nothing.
MUST_FAIL = {
    "join": "gm_sys_open gm_sys_read gm_sys_fstat gm_sys_fcntl gm_sys_random gm_sys_socket gm_sys_bind gm_sys_listen "
            "gm_sys_connect gm_thread_start mmap memfd_create sysinfo SYS_getdents64 SYS_membarrier "
            "SYS_sched_getaffinity",
    "sleep": "gm_sys_accept gm_sys_peer_user gm_sys_recvmsg gm_sys_sendmsg gm_sys_poll gm_sys_open gm_sys_read mmap "
             "munmap madvise SYS_membarrier SYS_getdents64 readlink gm_thread_start",
    "folder": "gm_sys_fallocate gm_sys_pwrite gm_sys_pread gm_sys_statfs gm_sys_open gm_sys_fcntl gm_sys_close "
              "gm_thread_start",
    "copy": "SYS_getdents64 mmap madvise gm_thread_start SYS_process_vm_readv SYS_process_vm_writev",
    "ask": "gm_sys_accept gm_thread_start gm_sys_open gm_sys_read gm_sys_socket gm_sys_connect gm_sys_peer_user gm_sys_recvmsg gm_sys_sendmsg "
             "gm_sys_poll",
    "exporter": "gm_sys_accept gm_sys_peer_user gm_sys_recvmsg gm_sys_sendmsg gm_sys_poll gm_sys_random",
    "importer": "gm_sys_socket gm_sys_connect gm_sys_send_timeout gm_sys_peer_user gm_sys_recvmsg gm_sys_sendmsg "
                "gm_sys_poll",
}

# --- the run ---


def place_name(at):
    done = subprocess.run(["addr2line", "-f", "-s", "-e", LIBRARY, hex(at - 1)], stdout=subprocess.PIPE)
    return " ".join(done.stdout.decode().split()) or hex(at)


def passed(control, step):
    """The places that a step passes: (call, at) -> number of calls."""
    before = control.made()
    step()
    after = control.made()
    return {place: after[place] - before.get(place, 0) for place in sorted(after) if after[place] > before.get(place, 0)}


def cases(places):
    """In the order of calls."""
    for (call, at), made in places.items():
        for error in ROWS[call][2]:
            if ROWS[call][1] != "ONCE":
                yield call, at, error, 0, ONWARDS
            yield call, at, error, 0, 1
            if made > 1:
                yield call, at, error, 1, 1


def case_run(scene, case):
    """Returns the number of calls that failed."""
    call, at, error, before, times = case
    scene.begin()
    number = 0 if error == "0" else getattr(numbers, error)
    scene.control.arm(call, at, number, before, times)
    try:
        scene.step(False)
    finally:
        failed = scene.control.disarm()
    lines = [line for p in scene.processes() for line in p.lines()]
    if isinstance(scene, Join):
        scene.heard(lines, ROWS[call][0], number)
    # Where the failures of a place concern several things, each has its line.
    if len(lines) > failed or len(set(lines)) < len(lines) or any(not line.startswith("gpumem: ") for line in lines):
        raise Failure("it says %s" % lines)
    if os.environ.get("SAID") and lines:
        print("# %s %s: %s" % (ROWS[call][0], error, lines[0]))
    scene.step(True)
    lines = [line for p in scene.processes() for line in p.lines()]
    if lines:
        raise Failure("afterwards it says %s" % lines)
    return failed


# --- the beginning of a log ---

DIES_BEFORE, DIES_BEHIND = -1, -2
BEGAN = ("no segment is complete: its process was killed as it began, or is just beginning",
         "empty: no gpumem log, or its process was killed as it began")


def start(knobs, control):
    """Start a process and end it. Returns whether it was killed."""
    try:
        Process(knobs, control).end()
        return False
    except Failure as failure:
        if str(failure) not in ("it ended: -9", "it ended with -9"):
            raise
        return True


def starts_made(level):
    """The calls of a start with logs of this level."""
    control = Control("made")
    start({"GPUMEM_LOG": level, "GPUMEM_LOG_NAME": os.path.join(TMP, "good.gml")}, control)
    return control.made()


def log_check(log, good):
    """Returns what is said about the log; "": it can be read. The good log is always read."""
    done = subprocess.run([TOOL, "summary", "--json", log, good], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=HANG)
    said = done.stderr.decode().replace("gpumemstat: %s: " % log, "").rstrip("\n")
    if good not in done.stdout.decode():
        raise Failure("the good log is not read: %s" % said)
    if said not in BEGAN + ("",) or done.returncode != (1 if said else 0):
        raise Failure("%d: %s" % (done.returncode, said))
    return said


def kills():
    """Kill a process before and behind each call that only a process with a log makes."""
    wrong, said = 0, dict.fromkeys(BEGAN + ("",), 0)
    for level in "small", "events":
        log, good = os.path.join(TMP, "log.gml"), os.path.join(TMP, "good.gml")
        without = starts_made("off")
        made = starts_made(level)
        control = Control("kill")
        for (call, at), n in made.items():
            for before in range(n if n > without.get((call, at), 0) else 0):
                for how in DIES_BEFORE, DIES_BEHIND:
                    control.arm(call, at, how, before, 1)
                    try:
                        killed = start({"GPUMEM_LOG": level, "GPUMEM_LOG_NAME": log}, control)
                        if killed and os.path.exists(log):
                            said[log_check(log, good)] += 1
                    except Failure as failure:
                        wrong += 1
                        print("%s, %s: %s" % (place_name(at), ROWS[call][0], failure))
                    if os.path.exists(log):
                        os.unlink(log)
        os.unlink(good)
    for text, n in said.items():
        print("%d logs: %s" % (n, text or "they can be read"))
    return 1 if wrong or not all(said.values()) else 0


def main():
    name = sys.argv[1]
    if name == "kills":
        return kills()
    os.makedirs(os.path.join(TMP, "store"), exist_ok=True)
    scene = SETS[name]()
    scene.step(True)
    scene.begin()
    places = passed(scene.control, lambda: scene.step(False))
    failed, passed_over, wrong = {}, {}, 0
    for case in cases(places):
        call = ROWS[case[0]][0]
        # A place that only time leads to may not be passed again: then the next case takes its turn.
        if failed.get(call) and passed_over[call] < EVERY - 1:
            passed_over[call] += 1
            continue
        try:
            n = case_run(scene, case)
            failed[call] = failed.get(call, 0) + n
            passed_over[call] = 0 if n else EVERY
        except Failure as failure:
            wrong += 1
            print("%s, %s, %s%s: %s" % (place_name(case[1]), call, case[2], ", 100 times" if case[4] > 1 else
                                        ", the second time" if case[3] else "", failure), flush=True)
            for p in scene.processes():
                p.kill()
            scene.fresh()
            scene.step(True)
    for p in scene.processes():
        p.end()
    print("%s: %d calls of %d places failed: %s" % (name, sum(failed.values()), len(places),
          ", ".join("%s %d" % each for each in sorted(failed.items()))))
    missing = [call for call in MUST_FAIL[name].split() if not failed.get(call)]
    if missing:
        print("none failed of " + " ".join(missing))
    return 1 if wrong or missing else 0


sys.exit(main())
