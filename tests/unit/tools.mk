# SPDX-License-Identifier: BSD-3-Clause
# Of gpumemstat, what can be tested without its command line.
UNIT_TESTS += tests/unit/test_policy
tests_unit_test_policy_SOURCES = tests/unit/test_policy.c tools/policy.c tools/policy.h tools/policy_driver.c \
	tools/policy_first.c tools/policy_meter.c tools/policy_meter.h tools/policy_pool.c tools/policy_span.c tools/policy_span.h \
	tools/policy_cached.c tools/policy_torch.c tools/tool.c tools/tool.h
tests_unit_test_policy_LDADD = $(UNIT_LDADD)
