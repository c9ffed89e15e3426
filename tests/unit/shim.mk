# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_context tests/unit/test_fence tests/unit/test_poll tests/unit/test_order tests/unit/test_late
tests_unit_test_context_SOURCES = tests/unit/test_context.c tests/unit/on_sim.h
tests_unit_test_context_LDADD = $(UNIT_LDADD)
tests_unit_test_fence_SOURCES = tests/unit/test_fence.c tests/unit/on_sim.h
tests_unit_test_fence_LDADD = $(UNIT_LDADD)
tests_unit_test_poll_SOURCES = tests/unit/test_poll.c tests/unit/on_sim.h
tests_unit_test_order_SOURCES = tests/unit/test_order.c tests/unit/on_sim.h
tests_unit_test_order_LDADD = $(UNIT_LDADD)
tests_unit_test_poll_LDADD = $(UNIT_LDADD)
tests_unit_test_late_SOURCES = tests/unit/test_late.c shim/entry/glibc_late.c shim/entry/glibc_late.h shim/entry/object.c shim/entry/object.h
tests_unit_test_late_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
tests_unit_test_late_LDADD = $(UNIT_LDADD)
UNIT_TESTS += tests/unit/test_trim_thread
tests_unit_test_trim_thread_SOURCES = tests/unit/test_trim_thread.c
tests_unit_test_trim_thread_LDADD = $(UNIT_LDADD)
