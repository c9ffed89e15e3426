# SPDX-License-Identifier: BSD-3-Clause
UNIT_TESTS += tests/unit/test_node tests/unit/test_node_odd tests/unit/test_node_user
tests_unit_test_node_SOURCES = tests/unit/test_node.c tests/unit/node_help.h
tests_unit_test_node_LDADD = $(UNIT_LDADD)
# The test names the user at the other end of a socket.
tests_unit_test_node_odd_SOURCES = tests/unit/test_node_odd.c tests/unit/node_help.h
tests_unit_test_node_odd_LDFLAGS = -Wl,--wrap=gm_sys_peer_user
tests_unit_test_node_odd_LDADD = $(UNIT_LDADD)
# The test names the user of the process, and its user namespace.
tests_unit_test_node_user_SOURCES = tests/unit/test_node_user.c tests/unit/node_help.h
tests_unit_test_node_user_LDFLAGS = -Wl,--wrap=geteuid,--wrap=gm_sys_peer_user,--wrap=gm_sys_open
tests_unit_test_node_user_LDADD = $(UNIT_LDADD)
