# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_rpc tests/unit/test_rpc_odd tests/unit/test_rpc_user
tests_unit_test_rpc_SOURCES = tests/unit/test_rpc.c tests/unit/rpc_help.h
tests_unit_test_rpc_LDADD = $(UNIT_LDADD)
# The test names the user at the other end of a socket.
tests_unit_test_rpc_odd_SOURCES = tests/unit/test_rpc_odd.c tests/unit/rpc_help.h
tests_unit_test_rpc_odd_LDFLAGS = -Wl,--wrap=gm_sys_peer_user
tests_unit_test_rpc_odd_LDADD = $(UNIT_LDADD)
# The test names the user of the process, and its user namespace.
tests_unit_test_rpc_user_SOURCES = tests/unit/test_rpc_user.c tests/unit/rpc_help.h
tests_unit_test_rpc_user_LDFLAGS = -Wl,--wrap=geteuid,--wrap=gm_sys_peer_user,--wrap=gm_sys_open
tests_unit_test_rpc_user_LDADD = $(UNIT_LDADD)
