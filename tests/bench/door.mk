# SPDX-License-Identifier: BSD-3-Clause
# The cost of the door for a submission, without a GPU: times and instructions. A time is never a failure.
EXTRA_DIST += tests/bench/door.c tests/bench/door.sh
CLEANFILES += tests/bench/door
tests/bench/door: tests/bench/door.c libgm.la
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -o $@ \
		$(srcdir)/tests/bench/door.c .libs/libgm.a -lpthread -ldl

.PHONY: bench-door
bench-door: tests/bench/door
	@$(top_srcdir)/tests/bench/door.sh
