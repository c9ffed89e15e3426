#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rows.py ROWS COMMAND...: run COMMAND in a terminal of ROWS lines and 80 columns, print its output, and exit
with its status."""
import sys
from session import Terminal

terminal = Terminal(int(sys.argv[1]), 80, sys.argv[2:])
code = terminal.end()
sys.stdout.write(terminal.seen.replace(b"\r\n", b"\n").decode())
sys.stdout.flush()
sys.exit(code)
