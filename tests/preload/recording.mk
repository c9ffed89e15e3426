# SPDX-License-Identifier: BSD-3-Clause
# Recordings of a process that runs, and the tool that asks for them.
dist_check_SCRIPTS += tests/preload/recording.bats
TESTS += tests/preload/recording.bats
EXTRA_DIST += tests/preload/recording.c
check_DATA += tests/preload/recording
CLEANFILES += tests/preload/recording
tests/preload/recording: tests/preload/recording.c tests/preload/program.h tests/sim/lib/libcuda.so.1
	$(PRELOAD_CC) -O1 -g -Wl,--build-id -o $@ $(srcdir)/tests/preload/recording.c tests/sim/lib/libcuda.so.1 -lpthread -ldl
