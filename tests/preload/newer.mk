# SPDX-License-Identifier: BSD-3-Clause
# Graph nodes, and calls of drivers after 13.0 that this toolkit's headers may lack.
check_PROGRAMS += tests/preload/newer tests/preload/nodes
dist_check_SCRIPTS += tests/preload/newer.bats
TESTS += tests/preload/newer.bats
tests_preload_newer_LDADD = $(BEHAVIOUR_LDADD)
tests_preload_nodes_LDADD = $(BEHAVIOUR_LDADD)
