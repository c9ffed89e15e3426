#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rows.py ROWS COMMAND...: run COMMAND in a terminal of so many lines and 80 columns, print all that it writes there, and
exit as it does."""
import fcntl, os, pty, signal, struct, sys, termios

pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", int(sys.argv[1]), 80, 0, 0))
    os.environ.pop("COLUMNS", None)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try:
        part = os.read(master, 65536)
    except OSError:  # the terminal's last user has closed it
        break
    if not part:
        break
    seen += part
sys.stdout.write(seen.replace(b"\r\n", b"\n").decode())
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
