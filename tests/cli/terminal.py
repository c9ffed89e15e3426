#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""terminal.py HOW COMMAND...: run COMMAND in a terminal of 24 lines and 80 columns, end it in one of these ways once it
has drawn, and report how it ended and whether the terminal is as before.

    key:X       type X
    signal:N    send signal N
    keys:XYZ    type them, each once the one before has been drawn, then "q"; print the last picture
    stop        stop it by SIGTSTP, look at the terminal, continue it, and type "q"
    resize:N    make the terminal N columns wide, and type "q" once it is drawn anew; print the last picture
"""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

HOW, COMMAND = sys.argv[1], sys.argv[2:]
MOST = 3600  # seconds; only keeps a test from hanging
CLEAR = b"\x1b[H"


def size_set(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


master, slave = pty.openpty()
size_set(slave, 80)
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.environ.pop("COLUMNS", None)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)  # Python and shells ignore some
    os.execvp(COMMAND[0], COMMAND)
seen = b""


def read_until(done):
    """Read what is drawn until done(seen)."""
    global seen
    end = time.monotonic() + MOST
    while not done(seen):
        if time.monotonic() > end:
            sys.exit("no answer: %r" % seen[-300:])
        if select.select([master], [], [], 0.1)[0]:
            seen += os.read(master, 65536)


def pictures(text):
    return text.count(b"\x1b[J")


def drawn():
    """Wait for one more whole picture."""
    n = pictures(seen)
    read_until(lambda text: pictures(text) > n)


def picture():
    text = seen[seen.rindex(CLEAR) + len(CLEAR):]
    text = text[:text.index(b"\x1b[J")]
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", text).replace(b"\r", b"").decode()


read_until(lambda text: pictures(text) > 0)
drawn_in = termios.tcgetattr(slave)
kind, _, value = HOW.partition(":")
if kind == "key":
    os.write(master, value.encode())
elif kind == "signal":
    os.kill(pid, int(value))
elif kind == "keys":
    for key in value:
        os.write(master, key.encode())
        drawn()
    print(picture())
    os.write(master, b"q")
elif kind == "stop":
    os.kill(pid, signal.SIGTSTP)
    os.waitpid(pid, os.WUNTRACED)
    print("stopped:", "as before" if termios.tcgetattr(slave) == before else "changed")
    os.kill(pid, signal.SIGCONT)
    drawn()
    print("continued:", "as when drawn" if termios.tcgetattr(slave) == drawn_in else "changed")
    os.write(master, b"q")
elif kind == "resize":
    size_set(master, int(value))
    drawn()
    print(picture())
    os.write(master, b"q")
status = 0
while True:
    # What it writes at its end must be read, or it waits.
    if select.select([master], [], [], 0.05)[0]:
        seen += os.read(master, 65536)
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
while select.select([master], [], [], 0)[0]:
    seen += os.read(master, 65536)
code = os.waitstatus_to_exitcode(status)
print("ended:", code if code >= 0 else "signal %d" % -code)
print("drawn with echo:", bool(drawn_in[3] & termios.ECHO))
print("terminal:", "as before" if termios.tcgetattr(slave) == before else "changed")
print("screen:", "as before" if seen.rindex(b"\x1b[?1049l") > seen.rindex(b"\x1b[?1049h") else "changed")
