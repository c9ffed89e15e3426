# SPDX-License-Identifier: BSD-3-Clause
# The table of odd calls in tests/gpu, on the simulated driver.
check_PROGRAMS += %D%/odd
ODD_SOURCES = tests/gpu/odd.c tests/gpu/odd_help.c tests/gpu/odd_states.c tests/gpu/odd_tables.c
ODD_ROWS = tests/gpu/odd_alloc.def tests/gpu/odd_async.def tests/gpu/odd_capture.def tests/gpu/odd_context.def \
	tests/gpu/odd_free.def tests/gpu/odd_graph.def tests/gpu/odd_host.def tests/gpu/odd_map.def tests/gpu/odd_null.def \
	tests/gpu/odd_query.def tests/gpu/odd_states.def
tests_preload_odd_SOURCES = $(ODD_SOURCES) tests/gpu/odd.h $(ODD_ROWS)
tests_preload_odd_LDADD = $(BEHAVIOUR_LDADD)
dist_check_SCRIPTS += %D%/odd.bats
TESTS += %D%/odd.bats
