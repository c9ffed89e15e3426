# SPDX-License-Identifier: BSD-3-Clause
# Unused memory of PyTorch's cache serves other allocations: a stand-in for the cache, and a program that uses it.
LEND_LIBRARY = tests/preload/lend/libc10_cuda.so
check_PROGRAMS += tests/preload/lend_cases tests/preload/lend_soak
check_DATA += $(LEND_LIBRARY)
CLEANFILES += $(LEND_LIBRARY)
dist_check_SCRIPTS += tests/preload/lend.bats
TESTS += tests/preload/lend.bats
EXTRA_DIST += tests/preload/lend/blocks.c tests/preload/lend/blocks.h tests/preload/lend/cache.c tests/preload/lend/cache.h
tests/preload/lend/libc10_cuda.so: tests/preload/lend/blocks.c tests/preload/lend/blocks.h tests/preload/lend/cache.c \
		tests/preload/lend/cache.h tests/preload/libtensors.so
	$(PRELOAD_SHARED) -Wl,-soname,libc10_cuda.so $(srcdir)/tests/preload/lend/blocks.c $(srcdir)/tests/preload/lend/cache.c \
		-Wl,--no-as-needed,-rpath,'$$ORIGIN/..' tests/preload/libtensors.so -lpthread -ldl

tests_preload_lend_cases_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_lend_soak_LDADD = $(BEHAVIOUR_LDADD)
# They load it.
EXTRA_tests_preload_lend_cases_DEPENDENCIES = $(LEND_LIBRARY)
EXTRA_tests_preload_lend_soak_DEPENDENCIES = $(LEND_LIBRARY)
