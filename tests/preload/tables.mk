# SPDX-License-Identifier: BSD-3-Clause
# Tables of functions of cuGetExportTable.
check_PROGRAMS += tests/preload/tables
check_DATA += tests/preload/libprivate.so
dist_check_SCRIPTS += tests/preload/tables.bats
TESTS += tests/preload/tables.bats
CLEANFILES += tests/preload/libprivate.so
EXTRA_DIST += tests/preload/libprivate.c

tests_preload_tables_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/src
tests_preload_tables_LDADD = $(BEHAVIOUR_LDADD)

tests/preload/libprivate.so: tests/preload/libprivate.c
	$(PRELOAD_SHARED) $(srcdir)/tests/preload/libprivate.c -ldl
