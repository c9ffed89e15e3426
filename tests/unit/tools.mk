# SPDX-License-Identifier: BSD-3-Clause
# The parts of gpumemstat that can be tested without its command line.
UNIT_TESTS += tests/unit/test_fold tests/unit/test_pieces tests/unit/test_policy
tests_unit_test_policy_SOURCES = tests/unit/test_policy.c tools/replay/policy.c tools/replay/policy.h \
	tools/replay/policy_async.c tools/replay/policy_cached.c tools/replay/policy_driver.c \
	tools/replay/policy_area.c tools/replay/policy_area.h tools/replay/policy_expandable.c tools/replay/policy_first.c tools/replay/policy_meter.c \
	tools/replay/policy_meter.h tools/replay/policy_pool.c tools/replay/policy_span.c tools/replay/policy_span.h \
	tools/replay/policy_torch.c tools/tool.c tools/tool.h
tests_unit_test_policy_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_fold_SOURCES = tests/unit/test_fold.c tools/stack/fold.c tools/stack/fold.def tools/stack/fold.h \
	tools/stack/short_name.c tools/stack/frames.h
tests_unit_test_fold_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)
tests_unit_test_pieces_SOURCES = tests/unit/test_pieces.c tools/log/blocks.c tools/log/blocks.h tools/log/holes.c tools/log/holes.h \
	tools/log/pieces.c tools/log/pieces.h tools/tool.c tools/tool.h
