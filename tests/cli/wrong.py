#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
wrong.py TOOL KIND COMMAND=OPERANDS...      every case of this kind (KINDS, at the end)
All commands of gpumemstat are named, each with what it takes, by operands_of of wrong.bash.
The first fault ends the run; else the number of cases is printed. A new option with an argument
needs a row in GOOD and rows in WRONG, a new form of operands needs one in MISUSED.
"""
import functools
import os
import re
import shlex
import signal
import string
import sys
from collections import namedtuple

TOOL, KIND = sys.argv[1:3]
COMMANDS = dict(word.split("=") for word in sys.argv[3:])
ENVIRONMENT = dict(os.environb)  # os.environ would be converted at each start
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")

# A good value for every option with an argument.
GOOD = {
    "SET": "GPUMEM_VERBOSE=1", "OUTPUT": "some.gml", "UNITS": "K", "SORT": "rank", "ROWS": "3",
    "COLOR": "never", "WIDTH": "100", "SIZE": "1M", "TIMEOUT": "10s", "POLICY": "pool,pytorch",
    "LAG": "10ms", "LIMIT": "90%", "MEMORY": "80G", "DEVICE": "1", "AT": "1.5s",
    "MAX": "mapped=1G", "DELAY": "1s", "STACKS": "all", "GROUP": "size", "BY": "pid",
    "PROGRAM": "python*", "JOB": "4711", "TREE": "4711",
    "FORMAT": "csv", "FILE": "some.out", "PIXELS": "640", "UNIT": "64K", "LEAST": "0.5",
}

# A byte above 127 that is no UTF-8 is written \udc80 to \udcff, as in os.fsencode.
STRANGE = ["", " ", "\x1b[31m", "\udcff\udcfe", "a\nb", "ä", "x" * 5000]
NUMBERS = STRANGE + ["-1", "+5", " 80", "80 ", "80x", "80.5", "1e2", "0x50", "NaN", "inf", "80K",
                     "８０", "99999999999999999999", "18446744073709551696"]

# Wrong values of every option with an argument, behind the reason in the message.
WRONG = {
    "SET": [
        ("expected KNOB=VALUE", [*STRANGE, "=1", "=", "GPUMEM_MODE"]),
        ("expected one of pool, trace",
         ["GPUMEM_MODE=", "GPUMEM_MODE=fast", "GPUMEM_MODE=po\nol", "GPUMEM_MODE=\udcff"]),
        ("GPUMEM_LIMITS is not a knob; did you mean GPUMEM_LIMIT?", ["GPUMEM_LIMITS=1G"]),
        ("PATH is not a knob; see gpumem-knobs(7)", ["PATH=/"]),
        ("expected at most 4095 bytes", ["GPUMEM_PROGRAM=" + "x" * 4096]),
    ],
    "OUTPUT": [
        ("expected a name", [""]),
        ("expected no % but %h, %p, %r, %j, %e and %%",
         ["%", "%q.gml", "logs%/a", "%%%", "a.%p.%1"]),
        ("expected at most 4095 bytes", ["x" * 4096]),
    ],
    "FILE": [("expected a name", [""])],
    "PROGRAM": [("expected a name like 'python*'", [""])],
    "JOB": [("expected the ID of a job", [""])],
    "TREE": [("expected PID", NUMBERS + "0 2147483648".split())],
    "UNITS": [("expected auto, B, K, M or G", STRANGE + "T k KB KiB AUTO 1024 BK".split())],
    "SORT": [("expected rank, program, start, requested, mapped, calls or failed",
              STRANGE + "size Rank rank, ranks".split())],
    "STACKS": [("expected off, large, all or held", STRANGE + "on 64K 0 ALLL largest".split())],
    "GROUP": [("expected stack, size or context", STRANGE + "stacks Size context, 0".split())],
    "SIZE": [("expected a size of 64K or more",
              STRANGE + "0 1 63K NaN 50% 1Q 1e9 -1".split())],
    "TIMEOUT": [("expected a time like 500ms or 30s",
                 STRANGE + "0 0s -1s NaN 1x 1e9s off".split())],
    "POLICY": [("expected names out of pool, pool-defer, pool-ordered, first-fit, exact-size, "
                "round-2m, pytorch, expandable, malloc-async and pytorch-pool",
                STRANGE + ["Pool", "pools", ",", "pool,", ",pool", "pool,,pytorch",
                           "pool, pytorch", "pool pytorch", "best-fit", "0"])],
    "LAG": [("expected a time like 10ms", STRANGE + "5 -1s NaN 1x 1e9s off".split())],
    "LIMIT": [("expected a size like 64G or a share like 90%",
               STRANGE + "0 0% 101% -1 NaN 1Q 1e9 90%% % off".split())],
    "MEMORY": [("expected a size from 2M to 16T",
                STRANGE + "0 1 1M 2097151 17T 16385G -1 NaN 50% 1Q 1e9".split())],
    "DEVICE": [("expected a number from 0 to 47", NUMBERS + "48 0,1 all".split())],
    "AT": [("expected peak, oom, exit, a time like 1.5s or a range like 1s..2.5s",
            STRANGE + "Peak end -1s 5 1x 1e9s peak,oom 1s.. ..1s 2s..1s 1s..2s..3s 1s...2s "
            "peak..exit 1s..2 1s-2s".split() + ["1" * 40 + "s..2s"])],
    "MAX": [
        ("expected COUNTER=VALUE", STRANGE + "mapped =1 = =".split()),
        ("expected a size like 2GiB",
         ["mapped=" + value for value in ("", "x", "-1", " 1", "1Q", "50%", "1=1")]),
        ("expected a number",
         ["live_blocks=" + value
          for value in ("", "1K", "-1", "+1", "1.5", "99999999999999999999")]),
        ("expected a time like 500ms",
         ["allocate_ns=" + value for value in ("", "5", "1x", "-1s")]),
        ("expected a ratio from 0 to 1, like 0.25",
         ["external_peak=" + value for value in ("", "2", "25%", "-1")]),
        ("no counter 'maped'; did you mean 'mapped'?", ["maped=1"]),
        ("no counter 'xyzzy'; gpumem-log(5) lists them", ["xyzzy=1"]),
        ("requested_peak_time is a moment, which has no limit", ["requested_peak_time=1s"]),
    ],
    "DELAY": [("expected a time of 100ms or more",
               STRANGE + "0 99ms 5 -1s NaN 1x 1e9s off".split())],
    "BY": [("expected memory, requested, pool, heap, foreign, external, pid or program",
            STRANGE + "size Pid pid, pids rank".split())],
    "PIXELS": [("expected a number of pixels from 400 to 8000",
                NUMBERS + "0 399 8001 640px 640x480".split())],
    "FORMAT": [("expected csv, openmetrics, prometheus, chrome or pytorch",
                STRANGE + "CSV json csv, tsv 0 prom".split())],
    "UNIT": [("expected a size like 64K",
              STRANGE + "0 0K -1 NaN 50% 1Q 1e9 99999999999999999999".split())],
    "LEAST": [("expected a ratio from 0 to 1, like 0.95",
               STRANGE + "-0.5 1.1 2 95% 95 NaN .5 1. 1e-1 0,95 0x1".split())],
    "ROWS": [("expected a number from 1 on", NUMBERS + "0 2147483648".split())],
    "COLOR": [("expected auto, always or never", STRANGE + "green yes Always alway".split())],
    "WIDTH": [("expected a number from 40 to 1000", NUMBERS + "0 39 1001".split())],
}

UNKNOWN_COMMANDS = ["", "xyzzy", "4711", "ä", "\x1b[31m", "\udcff", "a\nb", "x" * 5000]
UNKNOWN_OPTIONS = ["nonsense", "x", "0", "ä", "\x1b[31m", "non\udcff", "a\nb", "x" * 5000,
                   "nonsense=5", "x=\x1b"]
LETTERS = [*string.ascii_letters, *string.digits, *":;?=,+ @\x1b\udcff"]

Option = namedtuple("Option", "bit letter name argument")  # a row of options.def; "" for 0 and NULL
Case = namedtuple("Case", "status said words streams ignores prints")
STREAMS = ("null", "out", "err")


def demand(holds, what):
    if not holds:
        sys.exit("wrong.py %s: %s" % (KIND, what))


def raw(text):
    return text.encode("utf-8", "surrogateescape")


def text_of(said):
    return said.decode("utf-8", "surrogateescape")


def shown(text):
    """As in messages: one line, without control characters."""
    for strange, written in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\x1b", "\\x1b"),
                             ("\udcff", "\\xff"), ("\udcfe", "\\xfe")):
        text = text.replace(strange, written)
    return text


def source(name):
    with open(os.path.join(SOURCES, name), encoding="utf-8") as file:
        return file.read()


OPTIONS = [Option(*row) for row in re.findall(
    r"""^GM_OPTION\(([A-Z]*), *(?:'(.)'|0), *(?:NULL|"([a-z-]*)"), *(?:NULL|"([^"]*)"),""",
    source("options.def"), re.M)]

# Output goes to files, which never fill as a pipe does. "gone": a pipe without a reader.
PLACES = {
    "null": os.open("/dev/null", os.O_RDWR),
    "full": os.open("/dev/full", os.O_WRONLY),
    "out": os.open("out", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666),
    "err": os.open("err", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666),
}
reader, PLACES["gone"] = os.pipe()
os.close(reader)


def taken(place):
    """What a command has written there; the file is empty again."""
    size = os.fstat(PLACES[place]).st_size
    if size == 0:
        return b""
    written = os.pread(PLACES[place], size, 0)
    os.truncate(PLACES[place], 0)
    return written


def start(words, streams=STREAMS, ignores=False):
    """
    The status, or the negative number of a signal; standard output; standard error. The streams
    are PLACES, or "closed". ignores: SIGPIPE is ignored, as it is in this process.
    """
    actions = [(os.POSIX_SPAWN_CLOSE, n) if place == "closed" else
               (os.POSIX_SPAWN_DUP2, PLACES[place], n) for n, place in enumerate(streams)]
    pid = os.posix_spawn(
        TOOL, [raw(word) for word in (TOOL, *words)], ENVIRONMENT, file_actions=actions,
        setsigdef=[signal.SIGXFSZ] if ignores else [signal.SIGXFSZ, signal.SIGPIPE])
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, taken("out"), taken("err")


def check(case):
    status, out, err = start(case.words, case.streams, case.ignores)
    if status != case.status or err != raw(case.said) or bool(out) != case.prints:
        sys.exit("gpumemstat %s\nstreams: %s\nexit %d, expected %d\nstandard error: %s\n"
                 "expected: %s\nstandard output, expected %s: %s" % (
                     " ".join(shlex.quote(shown(word)) for word in case.words),
                     ", ".join(case.streams), status, case.status, ascii(text_of(err)),
                     ascii(case.said), "some" if case.prints else "none", ascii(text_of(out))))


def fails(status, said, *words, streams=STREAMS, ignores=False, prints=False):
    """Exactly this status and standard error; standard output is empty, or with prints, is not."""
    return Case(status, said + "\n" if said else "", words, streams, ignores, prints)


def misused(command, said, *words):
    """A usage error of command; of "": of none."""
    return fails(2, "gpumemstat: %s\nTry 'gpumemstat %s--help'" % (
        said, command + " " if command else ""), *words)


@functools.lru_cache(None)
def help_of(command):
    """The part of --help with the options."""
    status, out, err = start([command, "--help"])
    demand(status == 0 and not err, "%s --help: exit %d, %s" % (command, status, err))
    return re.search(r"^Options:$.*?(^$|\Z)", out.decode(), re.M | re.S)[0]


@functools.lru_cache(None)
def accepted(command):
    """The rows of options.def for this command."""
    def words(option):
        if option.name:
            return " --%s " % with_value(option, option.argument)
        return "  -%s " % option.letter
    return [option for option in OPTIONS if words(option) in help_of(command)]


def with_value(option, value):
    """The long option behind "--", with its value if it takes one."""
    return option.name + "=" + value if option.argument else option.name


def good(option):
    return [GOOD[option.bit]] if option.argument else []


def tables():
    """The options are those of the commands' --help, and each has the values that it needs."""
    for command in COMMANDS:
        bits = [option.bit for option in accepted(command)]
        demand(bits.count("HELP") == bits.count("VERSION") == 1, command + ": --help, --version")
        demand(len(bits) == len(re.findall("^ +-", help_of(command), re.M)),
               command + ": --help has another line with an option")
    for option in OPTIONS:
        demand(any(option in accepted(command) for command in COMMANDS),
               option.bit + ": no command has it")
        if option.argument:
            demand(GOOD.get(option.bit), "no good value of " + option.bit)
            demand(sum(len(values) for why, values in WRONG.get(option.bit, [])) > 0,
                   "no wrong value of " + option.bit)
    return []


def unknown_command():
    for command in COMMANDS:
        for word, said, *more in (
                (command[0] + command, "; did you mean '%s'?" % command),
                (command + "s", "; did you mean '%s'?" % command, "x.gml", "--json"),
                (command.upper(), ""),
                (" " + command, "; did you mean '%s'?" % command)):
            yield misused("", "unknown command '%s'%s" % (word, said), word, *more)
    for word in UNKNOWN_COMMANDS:
        yield misused("", "unknown command '%s'" % shown(word), word)


def unknown_option():
    for command in COMMANDS:
        letters = [option.letter for option in accepted(command)]
        for name in UNKNOWN_OPTIONS:
            yield misused(command, "unrecognized option '--%s'" % shown(name), command, "--" + name)
        for letter in LETTERS:
            if letter not in letters:
                yield misused(command, "invalid option -- '%s'" % shown(letter),
                              command, "-" + letter)
    yield misused("summary", "unrecognized option '--nonsense'", "--nonsense")
    yield misused("summary", "invalid option -- 'x'", "-x")


def distance(a, b):
    """Letters to change, add or remove."""
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        last, row = row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(last[j - 1] + (letter != other), last[j] + 1, row[j - 1] + 1))
    return row[-1]


def suggested(name, own):
    """The part of a message behind an unknown long option: the nearest name of the command, if it is near."""
    near = min((option.name for option in own if option.name), key=lambda mine: distance(name, mine))
    return "; did you mean '--%s'?" % near if distance(name, near) < 2 + len(name) // 4 else ""


def foreign_option():
    for command in COMMANDS:
        own = accepted(command)
        letters = [option.letter for option in own]
        for option in OPTIONS:
            if option in own:
                continue
            if option.letter and option.letter not in letters:
                yield misused(command, "invalid option -- '%s'" % option.letter,
                              command, "-" + option.letter, *good(option))
            # The name is no abbreviation of an own option either.
            if option.name and not any(mine.name.startswith(option.name) for mine in own):
                word = "--" + with_value(option, GOOD.get(option.bit))
                yield misused(command, "unrecognized option '%s'%s" % (word, suggested(option.name, own)),
                              command, word)


def argument():
    for command in COMMANDS:
        for option in accepted(command):
            if option.argument:
                if option.letter:
                    yield misused(command, "option requires an argument -- '%s'" % option.letter,
                                  command, "-" + option.letter)
                if option.name:
                    yield misused(command, "option '--%s' requires an argument" % option.name,
                                  command, "--" + option.name)
            elif option.name:
                for value in ("", "1", "\x1b"):
                    yield misused(command, "option '--%s' doesn't allow an argument" % option.name,
                                  command, "--%s=%s" % (option.name, value))


def abbreviation():
    for command in COMMANDS:
        names = [option.name for option in accepted(command)]
        for option in accepted(command):
            for short in (option.name[:n] for n in range(1, len(option.name))):
                if short in names:
                    continue
                if sum(name.startswith(short) for name in names) > 1:
                    yield misused(command, "option '--%s' is ambiguous" % short,
                                  command, "--" + short)
                elif option.argument:
                    yield misused(command, "option '--%s' requires an argument" % option.name,
                                  command, "--" + short)
                else:
                    yield misused(command, "option '--%s' doesn't allow an argument" % option.name,
                                  command, "--" + short + "=1")


def wrong_value():
    for command, operands in COMMANDS.items():
        tail = ["true"] if operands == "launch" else []
        for option in accepted(command):
            letter = "-" + option.letter
            wrong = WRONG[option.bit] if option.argument else []
            for value, why in ((value, why) for why, values in wrong for value in values):
                said = "%s%s: %s" % ("--%s=" % option.name if option.name else letter + " ",
                                     shown(value), why)
                if option.name:
                    words = ["--" + with_value(option, value)]
                else:
                    words = [letter, *good(option), letter, value]
                yield misused(command, said, command, *words, *tail)
                if option.letter:
                    yield misused(command, said,
                                  command, letter, value, letter, *good(option), *tail)


def before_command():
    for command in COMMANDS:
        for option in OPTIONS:
            if option.bit not in ("HELP", "VERSION"):
                word = "--" + option.name if option.name else "-" + option.letter
                yield misused(command, "options go behind the command: gpumemstat %s [OPTION]..."
                              % command, word, *good(option), command)
    yield fails(1, none_here("summary"), "--", "summary")
    yield fails(1, none_here("summary"), "--json", "--", "summary")


def none_here(*names):
    return "\n".join("gpumemstat: %s: no such file" % name for name in names)


BAD_PIDS = ("0", "", "x", "1x", " 1", "2147483648", "99999999999999999999")

# Wrong operands by what a command takes: the message behind its name, and its words.
MORE, TWO = "unexpected argument 'more'", "unexpected argument 'two'"
OLD_NEW, FILE, COMMAND = "expected OLD and NEW", "expected a FILE", "expected a COMMAND"
LIMIT = "expected a limit: --max=COUNTER=VALUE or --no-leaks"
MISUSED = {
    "none": [(MORE, "more"), (MORE, "--", "more"),
             ("unexpected argument '--json'", "--", "--json"),
             ("unexpected argument '--'", "--", "--"),
             ("unexpected argument ''", ""), ("unexpected argument '\\x1b'", "\x1b")],
    "one": [(TWO, "one", "two"), (TWO, "one", "--", "two", "three")],
    "pids": [("expected PID, --all, --program, --job or --tree",),
             ("expected PID, --all, --program, --job or --tree", "--json"),
             ("--all and PID exclude each other", "--all", "1"),
             ("--all and --program exclude each other", "--all", "--program=x"),
             ("--program and --job exclude each other", "--job=1", "--program=x"),
             ("--job and --tree exclude each other", "--tree=1", "--job=1", "1")] + [
        ("expected PID, not '%s'" % pid, "1", pid)
        for pid in BAD_PIDS],
    "asked": [("expected PID",), ("expected 'events' or 'small'", "1"),
              ("unexpected argument 'more'", "1", "small", "more")] + [
        ("expected PID, not '%s'" % pid, pid, "events") for pid in BAD_PIDS] + [
        ("expected 'events' or 'small', not '%s'" % word, "1", word)
        for word in ("", "off", "Events", "events,1s", "event")],
    "log": [(TWO, "one", "two"), (TWO, "one", "--", "two", "three")],
    "logs": [],
    "checks": [(LIMIT,), (LIMIT, "one.gml"), (LIMIT, "--"), (COMMAND, "--no-leaks", "--")],
    "two": [(OLD_NEW,), (OLD_NEW, "one.gml"), (OLD_NEW, "--", "one.gml"),
            ("unexpected argument 'three'", "one", "two", "three")],
    "traces": [],
    "files": [(FILE,), (FILE, "--"), (FILE, "--json")],
    "launch": [(COMMAND,), (COMMAND, "--"), (COMMAND, "-e", "GPUMEM_MODE=pool"),
               (COMMAND, "-e", "GPUMEM_MODE=pool", "--")],
    "asks": [],
}
# An operand before an unknown option.
OPERAND = {"one": "one", "log": "one.gml", "logs": "one.gml", "checks": "one.gml",
           "traces": "one.csv",
           "files": "one.cubin"}
# Operands that cannot be read: status, standard error, and the words behind the command.
NO_LOG = "gpumemstat: no log *.gml here: 'gpumemstat record COMMAND' makes one"
UNREADABLE = {
    "one": [(1, none_here("--json"), "--", "--json")],
    "log": [(1, none_here("--nonsense"), "--", "--nonsense"), (1, none_here("''"), "")],
    "logs": [(1, none_here("--json"), "--", "--json"),
             (1, none_here("one.gml", "two.gml"), "one.gml", "--", "two.gml")],
    "checks": [(1, none_here("one.gml"), "--no-leaks", "one.gml"),
               (127, "gpumemstat: nowhere: No such file or directory", "--no-leaks", "--",
                "nowhere")],
    "two": [(1, none_here("''", "--json"), "--", "", "--json")],
    "traces": [(1, NO_LOG), (1, NO_LOG, "--"), (1, NO_LOG, "--json"),
               (1, none_here("--json"), "--", "--json"),
               (1, none_here("''", "two.csv"), "", "--", "two.csv")],
    "files": [(1, none_here("--json"), "--", "--json"),
              (1, none_here("''", "two.cubin"), "", "--", "two.cubin")],
    "launch": [(127, "gpumemstat: --json: No such file or directory", "--", "--json")],
}


def operand():
    for command, operands in COMMANDS.items():
        for said, *words in MISUSED[operands]:
            yield misused(command, command + ": " + said, command, *words)
        if operands in OPERAND:
            yield misused(command, "unrecognized option '--nonsense'",
                          command, OPERAND[operands], "--nonsense")
        for status, said, *words in UNREADABLE.get(operands, []):
            yield fails(status, said, command, *words)


def process():
    for command in COMMANDS:
        if COMMANDS[command] != "one":
            continue
        for pid in ("0", "4194999", "00", "99999999999999999999999"):
            yield fails(1, "gpumemstat: process %s: no such process" % pid, command, pid)
        # An operand that is no number is a log.
        for name in ("-5", "5x", " 5", "1.5", "+5"):
            yield fails(1, none_here(name), command, "--", name)


FULL = "gpumemstat: standard output: No space left on device"


def full_or_closed():
    for command in ([], *([name] for name in COMMANDS)):
        for option in ("--help", "--version", "-h", "-V"):
            yield fails(1, FULL, *command, option, streams=("null", "full", "err"))
            yield fails(1, "gpumemstat: standard output: Bad file descriptor", *command, option,
                        streams=("null", "closed", "err"))
    for command, operands in COMMANDS.items():
        if operands in ("launch", "asks", "pids", "asked", "checks"):
            continue
        files = {"none": [], "two": ["x.gml", "x.gml"], "files": ["x.ptx"]}.get(operands, ["x.gml"])
        has_json = any(option.bit == "JSON" for option in accepted(command))
        for json in ([], ["--json"]) if has_json else ([],):
            words = [command, *json, *files]
            yield fails(1, FULL, *words, streams=("null", "full", "err"))
            # A usage error keeps its status, even if its message cannot be written.
            yield fails(2, "", command, *json, "--nonsense", *files,
                        streams=("null", "closed", "closed"))
            yield fails(0, "", *words, streams=("closed", "out", "closed"), prints=True)


def without_reader():
    for words in (*([command, "--help"] for command in COMMANDS), ["env"]):
        yield fails(-signal.SIGPIPE, "", *words, streams=("null", "gone", "err"))
        yield fails(1, "gpumemstat: standard output: Broken pipe", *words,
                    streams=("null", "gone", "err"), ignores=True)


def taking(*forms):
    return sum(operands in forms for operands in COMMANDS.values())


# Each kind, and the least number of its cases. Every command has --help and --version.
ROWS = len(re.findall(r'^\t{"[a-z]*", gm_[a-z]*_main,', source("main.c"), re.M))
KINDS = {
    "tables": (tables, 0),
    "unknown_command": (unknown_command, 4 * ROWS + len(UNKNOWN_COMMANDS)),
    "unknown_option": (unknown_option, ROWS * (len(UNKNOWN_OPTIONS) + len(LETTERS) // 2)),
    "foreign_option": (foreign_option, ROWS * len(OPTIONS) // 2),
    "argument": (argument, ROWS * 2 * 3),
    "abbreviation": (abbreviation, ROWS * (len("help") - 1 + len("version") - 1)),
    "wrong_value": (wrong_value,
                    sum(len(values) for rows in WRONG.values() for why, values in rows)),
    "before_command": (before_command, ROWS * (len(OPTIONS) - 2) + 2),
    "operand": (operand, 3 * (ROWS - taking("asks"))),
    "process": (process, 9 * max(1, taking("one"))),
    "full_or_closed": (full_or_closed,
                       8 * (ROWS + 1) + 3 * (ROWS - taking("launch", "asks", "pids", "asked", "checks"))),
    "without_reader": (without_reader, 2 * (ROWS + 1)),
}

demand(len(COMMANDS) == ROWS > 0, "%d commands, of %d in main.c" % (len(COMMANDS), ROWS))
demand(len(OPTIONS) == source("options.def").count("\nGM_OPTION(") > 0,
       "a row of options.def is not read")
cases = list(KINDS[KIND][0]())
demand(len(cases) >= KINDS[KIND][1], "%d cases, expected %d" % (len(cases), KINDS[KIND][1]))
for each in cases:
    check(each)
print("%s: %d cases" % (KIND, len(cases)))
