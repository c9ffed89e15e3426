# SPDX-License-Identifier: BSD-3-Clause
# The preload with system calls that fail: the same objects, linked with faulty.c.
check_LTLIBRARIES += tests/preload/libfaulty.la
dist_check_SCRIPTS += tests/preload/faulty.bats
TESTS += tests/preload/faulty.bats
EXTRA_DIST += tests/preload/faulty.py

tests_preload_libfaulty_la_SOURCES = tests/preload/faulty.c tests/preload/faulty.def
tests_preload_libfaulty_la_LIBADD = $(libgpumem_la_OBJECTS) $(libgpumem_la_LIBADD)
# -rpath: libtool makes a shared object of it.
tests_preload_libfaulty_la_LDFLAGS = $(libgpumem_la_LDFLAGS) -rpath $(abs_top_builddir)/nowhere \
	-Wl,--wrap=syscall $(shell $(SED) -n 's/^FAULTY.\([a-z_0-9]*\),.*/-Wl,--wrap=\1/p' $(srcdir)/tests/preload/faulty.def)
EXTRA_tests_preload_libfaulty_la_DEPENDENCIES = shim/libgpumem.map
