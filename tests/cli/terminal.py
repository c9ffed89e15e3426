#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""terminal.py HOW COMMAND...: run COMMAND in a terminal of 24 lines and 80 columns, end it in one of these
ways after it has drawn, and print the kind of its end and whether the terminal's state is restored.

    key:X       type X
    signal:N    send signal N
    keys:XYZ    type each key after the last one's picture, then "q"; print the last picture
    stop        stop it by SIGTSTP, check the terminal, continue it, and type "q"
    resize:N    make the terminal N columns wide, type "q" after the next picture, and print that picture
"""
import os, re, select, signal, sys, termios, time
from session import Terminal

HOW, COMMAND = sys.argv[1], sys.argv[2:]
LINES, COLUMNS = 24, 80
MOST = 3600  # seconds; a hanging test ends
CLEAR = b"\x1b[H"
terminal = Terminal(LINES, COLUMNS, COMMAND)


def read_until(done):
    """Read output until done(seen)."""
    end = time.monotonic() + MOST
    while not done(terminal.seen):
        if time.monotonic() > end:
            sys.exit("no answer: %r" % terminal.seen[-300:])
        if select.select([terminal.master], [], [], 0.1)[0]:
            terminal.read()


def pictures(text):
    return text.count(b"\x1b[J")


def drawn():
    """Wait for one more complete picture."""
    n = pictures(terminal.seen)
    read_until(lambda text: pictures(text) > n)


def picture():
    text = terminal.seen[terminal.seen.rindex(CLEAR) + len(CLEAR):]
    text = text[:text.index(b"\x1b[J")]
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", text).replace(b"\r", b"").decode()


read_until(lambda text: pictures(text) > 0)
drawn_in = termios.tcgetattr(terminal.slave)
kind, _, value = HOW.partition(":")
if kind == "key":
    os.write(terminal.master, value.encode())
elif kind == "signal":
    os.kill(terminal.pid, int(value))
elif kind == "keys":
    for key in value:
        os.write(terminal.master, key.encode())
        drawn()
    print(picture())
    os.write(terminal.master, b"q")
elif kind == "stop":
    os.kill(terminal.pid, signal.SIGTSTP)
    os.waitpid(terminal.pid, os.WUNTRACED)
    print("stopped:", "as before" if termios.tcgetattr(terminal.slave) == terminal.before else "changed")
    os.kill(terminal.pid, signal.SIGCONT)
    drawn()
    print("continued:", "as when drawn" if termios.tcgetattr(terminal.slave) == drawn_in else "changed")
    os.write(terminal.master, b"q")
elif kind == "resize":
    terminal.size_set(LINES, int(value))
    drawn()
    print(picture())
    os.write(terminal.master, b"q")
code = terminal.end()
left, entered = terminal.seen.rindex(b"\x1b[?1049l"), terminal.seen.rindex(b"\x1b[?1049h")
print("ended:", code if code >= 0 else "signal %d" % -code)
print("drawn with echo:", bool(drawn_in[3] & termios.ECHO))
print("terminal:", "as before" if termios.tcgetattr(terminal.slave) == terminal.before else "changed")
print("screen:", "as before" if left > entered else "changed")
