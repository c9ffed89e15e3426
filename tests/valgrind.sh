#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# valgrind.sh PROGRAM [ARGUMENT]...: run PROGRAM under memcheck, which prints only errors and definite leaks.
# Either gives exit status 99.
SIM_MEMFD=1
export SIM_MEMFD
exec valgrind --quiet --max-threads=2000 --error-exitcode=99 \
	--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
	--suppressions="$(dirname "$0")/valgrind.supp" "$@"
