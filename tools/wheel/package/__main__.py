# SPDX-License-Identifier: BSD-3-Clause
"""Run gpumemstat in the place of Python; with --prefix alone, print the folder of the package."""

import os
import signal
import sys

from gpumem_preload import prefix


def gpumemstat():
    # Python ignores these signals, and they would stay ignored in gpumemstat and in the program that it runs.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    program = os.path.join(prefix, "bin", "gpumemstat")
    try:
        os.execv(program, ["gpumemstat"] + sys.argv[1:])
    except OSError as error:
        sys.exit("gpumemstat: %s: %s" % (program, error.strerror))


def main():
    if sys.argv[1:] == ["--prefix"]:
        print(prefix)
    else:
        gpumemstat()


if __name__ == "__main__":
    main()
