# SPDX-License-Identifier: BSD-3-Clause
"""A terminal, and a command in it. When the session leader ends, the kernel discards undelivered output of
the terminal (tty_ldisc_hangup). So this process leads the session, and outlives the command."""
import fcntl, os, pty, signal, struct, termios, threading

END = b"\x00end of the command\x00"


def lead():
    """Go on in a child that leads a session of its own; the parent exits with the child's status."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)
    os.setsid()
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # during the command this process is in the background


class Terminal:
    """master: the user's side. slave: the command's side. pid: the command, in the foreground. seen: its output."""

    def __init__(self, lines, columns, command):
        lead()
        self.master, self.slave = pty.openpty()
        self.size_set(lines, columns)
        self.before = termios.tcgetattr(self.slave)
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        self.seen = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(self.slave, os.getpid())
            self.command_run(command)

    def command_run(self, command):
        for fd in (0, 1, 2):
            os.dup2(self.slave, fd)
        os.environ.pop("COLUMNS", None)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # Python and shells ignore some
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)

    def size_set(self, lines, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self):
        self.seen += os.read(self.master, 65536)

    def end(self):
        """Read the rest of the output; return the exit status, negative for a signal."""
        status = []

        def wait():
            status.append(os.waitpid(self.pid, 0)[1])
            os.write(self.slave, END)

        waiter = threading.Thread(target=wait)
        waiter.start()
        while END not in self.seen:
            self.read()
        waiter.join()
        self.seen = self.seen[:self.seen.index(END)]
        return os.waitstatus_to_exitcode(status[0])
