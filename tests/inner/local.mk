# SPDX-License-Identifier: BSD-3-Clause
# The inner loop: one test after an edit. HACKING.md, Inner loop.
EXTRA_DIST += %D%/find.awk %D%/needs.awk %D%/test.sh %D%/tests_of.py
dist_check_SCRIPTS += %D%/inner.bats
TESTS += %D%/inner.bats

# With TESTS on the command line, `make check` builds what these tests need: of the programs, libraries and data for
# tests those that needs.awk prints; all that `make` builds for a script, and nothing more for programs. These targets
# of automake's build it, and their prerequisites are read after these lines.
given_tests := $(strip $(if $(filter check-am check-TESTS one-test,$(MAKECMDGOALS)),\
	$(if $(filter command,$(origin TESTS)),$(TESTS))))
given_needs := $(if $(given_tests),$(shell $(AWK) -v srcdir='$(srcdir)' \
	-v built='$(check_PROGRAMS) $(check_LTLIBRARIES) $(check_DATA)' -f $(srcdir)/%D%/needs.awk $(given_tests))$(if \
	$(filter-out 0,$(.SHELLSTATUS)),$(error tests/inner/needs.awk fails)))
given_build := $(if $(given_tests),$(if $(filter-out $(check_PROGRAMS),$(given_tests)),,$(foreach list,\
	PROGRAMS LIBRARIES LTLIBRARIES MANS DATA HEADERS,$(eval $(list) :=)))$(foreach list,\
	check_PROGRAMS check_LTLIBRARIES check_DATA,$(eval $(list) := $(filter $(given_needs),$($(list))))))

# make test T=limbo, or T=sleep ONLY='a process sleeps'. Standard output is TAP alone. make -n runs no test, although the
# recipe calls make.
.PHONY: test one-test
test: $(BUILT_SOURCES)
	@test=`$(AWK) -v srcdir='$(srcdir)' -v name="$$T" -v title="$$ONLY" -f $(srcdir)/%D%/find.awk $(TESTS) $(NVCC_TESTS)` && \
		$(MAKE) $(AM_MAKEFLAGS) -s --no-print-directory TESTS="$$test" one-test >&2 && \
		$(if $(findstring n,$(firstword -$(MAKEFLAGS))),:,{ unset T MAKEFLAGS MFLAGS MAKELEVEL MAKE_TERMERR MAKE_TERMOUT; \
		$(AM_TESTS_ENVIRONMENT) srcdir=$(srcdir) LOG_COMPILER='$(LOG_COMPILER)' \
		$(SHELL) $(srcdir)/%D%/test.sh $(srcdir) "$$test" "$$ONLY"; })
one-test: all-am $(check_PROGRAMS) $(check_LTLIBRARIES) $(check_DATA)

# make tests-of F=src/pool/limbo.c, from what `make mutants` recorded last.
.PHONY: tests-of
tests-of:
	@python3 $(srcdir)/%D%/tests_of.py $(srcdir) mutants/covered "$$F" $(TESTS)
