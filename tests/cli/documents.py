# SPDX-License-Identifier: BSD-3-Clause
"""Compares the output of gpumemstat in documents with today's.

    documents.py SOURCES LIST DOCUMENT...

SOURCES is the source folder, LIST is documents.txt, a DOCUMENT is Markdown or a manual page. A block of code is a
fenced block or an indented one, or .Bd -literal. If it begins with "$ " it is a session: command lines, each with
its output. A session is run in the current folder, with bash, and its output is compared line by line, unless LIST
excepts the command or all of the session's output is in a file of LIST. Any other block that looks like output of
gpumemstat must be in a file of LIST. Every documented command line of gpumemstat must have valid options. Prints a
line for each fault."""
import glob
import os
import re
import shlex
import subprocess
import sys

# What differs from run to run. Blanks count as one, since columns are as wide as their figures.
MASKS = [(re.compile(pattern), mask) for pattern, mask in (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE"),
    (r"\b[\d,.]+ (ns|us|ms|s|min|h)\b", "TIME"),
    (r"\b[\d,.]+ ([KMGT]iB|B)/s", "RATE"),
    (r"\bpid \d+", "pid PID"),
    (r"\bgpumem\.[\w-]+\.\d+\.gml", "gpumem.HOST.PID.gml"),
    (r"\b0x[0-9a-f]+", "ADDRESS"),
    (r"\|[ .#]*$", "| CURVE"),
    (r" +", " "),
)]

# Lines of gpumemstat, and of the library's messages.
OUTPUT = re.compile("|".join((
    r"program +\S+, .*(closed|killed|running|ended)", r"GPU \d+ +\S", r"peak +[\d.]+ [KMG]?i?B requested",
    r"next +gpumemstat ", r"[\d.]+ [KMG]?i?B +\d+ blocks?\b", r"(ok|warn|fail) +(system|proc|driver|command) ",
    r"state +check +what", r"symbol +flags", r"knob +value", r"result +It (works|cannot)",
    r" +\S.* \(\S+\.(c|cc|cu|py):\d+\)(, inlined)?$", r"gpumem(stat)?: ")))


def masked(line):
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def markdown_blocks(lines):
    """Yields (number of the first line, lines) of each block."""
    number = 0
    while number < len(lines):
        begin, block = number, []
        fence = re.match(r"\s*(```+|~~~+)", lines[number])
        if fence:
            indent = len(lines[number]) - len(lines[number].lstrip())
            begin = number = number + 1
            while number < len(lines) and not lines[number].strip().startswith(fence[1]):
                block.append(lines[number][indent:])
                number += 1
        elif lines[number].startswith("    ") and (number == 0 or not lines[number - 1].strip()):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                block.append(lines[number][4:])
                number += 1
        number += 1
        while block and not block[-1].strip():
            block.pop()
        if block:
            yield begin + 1, block


def plain(line):
    """A line of a manual page without its escapes."""
    line = re.sub(r"\\\((dq|mi|aq|ti|ha)", lambda match: {"dq": '"', "mi": "-", "aq": "'", "ti": "~", "ha": "^"}[match[1]], line)
    return line.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


def manual_blocks(lines):
    begin, block = 0, None
    for number, line in enumerate(lines, 1):
        if re.match(r"\.(Bd -(literal|unfilled)|EX)", line):
            begin, block = number + 1, []
        elif re.match(r"\.(Ed|EE)", line) and block is not None:
            yield begin, block
            block = None
        elif block is not None:
            block.append(plain(line))
        elif line.startswith(".Dl "):
            yield number, [plain(line[4:])]


def session_of(block):
    """A list of [command, lines of output]; None: the block is none. A command ends without a backslash."""
    if not block[0].startswith("$ "):
        return None
    parts = []
    for line in block:
        if parts and parts[-1][0].endswith("\\") and not parts[-1][1]:
            parts[-1][0] = parts[-1][0][:-1] + line
        elif line.startswith("$ "):
            parts.append([line[2:], []])
        else:
            parts[-1][1].append(line)
    return parts


def run(command):
    """Lines of the command's output, without blank ones."""
    out = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=100)
    return full(out.stdout.decode(errors="replace").splitlines())


def full(lines):
    return [line.rstrip() for line in lines if line.strip()]


def holds(kept, part):
    """Are these lines next to each other in a kept file?"""
    return any(kept[at:at + len(part)] == part for at in range(len(kept) - len(part) + 1))


def difference(expected, found):
    """The first line that differs; None: none."""
    for nth in range(max(len(expected), len(found))):
        old, new = (lines[nth] if nth < len(lines) else "nothing" for lines in (expected, found))
        if masked(old) != masked(new):
            return "%r is now %r" % (old, new)
    return None


def command_words(line):
    """The words of the first gpumemstat in a command line, up to its operands after -- or the shell's next word."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return None
    if "gpumemstat" not in words:
        return None
    words = words[words.index("gpumemstat"):]
    for nth, word in enumerate(words):
        if word in ("--", "|", "&&", "||", ";", "&") or word[0:1] in "<>" or word.endswith(";"):
            return words[:nth] + [word[:-1]] * (word.endswith(";") and word != ";")
    return words


def options_fault(line):
    words = command_words(line)
    if not words:
        return None
    done = subprocess.run(words + ["--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
    return None if done.returncode == 0 else done.stderr.decode().splitlines()[0]


class Documents:
    def __init__(self, sources, listed):
        self.sources, self.kept, self.excepted, self.faults = sources, [], {}, 0
        for line in open(listed):
            if not line.strip() or line.startswith("#"):
                continue
            kind, rest = line.rstrip("\n").split(" ", 1)
            name, text = rest.split(": ", 1)
            if kind == "not":
                self.excepted[name] = False  # until a document has it
                continue
            self.kept.append(full(open("%s/%s" % (sources, name))))
            if kind == "made":
                self.compare(name, text, self.kept[-1])

    def fault(self, where, text):
        print("%s: %s" % (where, text))
        self.faults += 1

    def compare(self, where, command, expected):
        found = difference(expected, run(command))
        if found:
            self.fault(where, "%s: %s" % (command, found))

    def is_kept(self, lines):
        return any(holds(kept, lines) for kept in self.kept)

    def block(self, where, block):
        session = session_of(block)
        for line in block if session is None else [command for command, _ in session]:
            text = options_fault(line) if session or line.startswith("gpumemstat ") else None
            if text:
                self.fault(where, "%s: %s" % (line, text))
        if session is None:
            if any(line.startswith("$ ") for line in block):
                self.fault(where, "%r: a session begins with its first command" % block[0])
            elif any(OUTPUT.match(line) for line in block) and not self.is_kept(full(block)):
                self.fault(where, "%r: output without its command, and in no file of documents.txt" % block[0])
        elif not all(self.is_kept(full(output)) for _, output in session):
            self.session(where, session)

    def session(self, where, session):
        for log in glob.glob("gpumem.*.gml"):  # of an earlier session
            os.remove(log)
        for command, output in session:
            if command in self.excepted:
                self.excepted[command] = True
            elif full(output):
                self.compare(where, command, full(output))
            else:
                run(command)

    def document(self, name):
        lines = open("%s/%s" % (self.sources, name)).read().split("\n")
        blocks = markdown_blocks if name.endswith(".md") else manual_blocks
        for number, block in blocks(lines):
            self.block("%s:%d" % (name, number), block)


def main():
    documents = Documents(sys.argv[1], sys.argv[2])
    for name in sys.argv[3:]:
        documents.document(name)
    for command in [command for command, used in documents.excepted.items() if not used]:
        documents.fault(sys.argv[2], "%s: excepted, but in no document" % command)
    return documents.faults > 0


if __name__ == "__main__":
    sys.exit(main())
