# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_ooc_plan
tests_unit_test_ooc_plan_SOURCES = tests/unit/test_ooc_plan.c programs/ooc/plan.c programs/ooc/plan_stencil.c
tests_unit_test_ooc_plan_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_ooc_plan_CFLAGS = $(AM_CFLAGS) $(OOC_CFLAGS)
tests_unit_test_ooc_plan_LDADD =
