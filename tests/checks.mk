# SPDX-License-Identifier: BSD-3-Clause
# The suite under other conditions; ./quickstart check runs all of this.
EXTRA_DIST += tests/coverage.h tests/coverage.sh tests/valgrind.sh tests/valgrind.supp tests/versions.sh
.PHONY: check-debug check-asan check-ubsan check-tsan check-valgrind check-versions check-defer coverage

# Not again in each: they are about processes, whatever runs in them, and count the files and calls of each; the demo that
# they run needs driver 12.0.
OF_PROCESSES = tests/preload/commands.bats tests/preload/containers.bats tests/preload/ranks.bats

# Builds of their own, in folders of this one.
OPTIONS_address = --enable-debug --enable-sanitize=address
OPTIONS_coverage = --enable-debug --enable-coverage
OPTIONS_debug = --enable-debug
OPTIONS_thread = --enable-debug --enable-sanitize=thread
OPTIONS_undefined = --enable-debug --enable-sanitize=undefined

address/Makefile coverage/Makefile debug/Makefile thread/Makefile undefined/Makefile:
	$(MKDIR_P) $(@D) && top=`cd $(srcdir) && pwd` && cd $(@D) && \
		$$top/configure --quiet --with-cuda='$(CUDA_HOME)' CC='$(CC)' $(OPTIONS_$(@D))
check-debug: debug/Makefile
	$(MAKE) -C debug check
check-asan: address/Makefile
	$(MAKE) -C address check
check-ubsan: undefined/Makefile
	$(MAKE) -C undefined check TESTS='$(filter-out tests/cli/% tests/lint/%,$(TESTS))'
# gpumemstat has one thread, and the sanitizer keeps signals from it while it waits for its child.
check-tsan: thread/Makefile
	$(MAKE) -C thread check TESTS='$(filter-out tests/cli/% tests/lint/% $(OF_PROCESSES),$(TESTS))'

if COVERAGE
AM_CPPFLAGS += -include $(top_srcdir)/tests/coverage.h
AM_TESTS_ENVIRONMENT += COVERAGE=yes; export COVERAGE;
endif

# The least that is accepted of api/, shim/ and src/, in percent of lines.
COVERAGE_MINIMUM = 90
coverage: coverage/Makefile
	$(MAKE) -C coverage check TESTS=
	find coverage -name '*.gcda' -delete
	$(MAKE) -C coverage check TESTS='$(filter-out $(OF_PROCESSES),$(TESTS))'
	cd coverage && $(SHELL) $(abs_top_srcdir)/tests/coverage.sh $(abs_top_srcdir) $(COVERAGE_MINIMUM)

# In this build. What a test preloads or runs as gpumemstat, and each unit test, runs under valgrind.
VALGRIND = $(SHELL) $(abs_top_srcdir)/tests/valgrind.sh
# Starts of programs that fail or look at how they were started, a gpumemstat that starts itself again, nothing of ours;
# hundreds of starts each, and lanes by the million, minutes each: check-asan has these (tests/unit/test_log_mutate damages
# logs here).
NOT_UNDER_VALGRIND = tests/unit/test_heap_% tests/cli/launch.bats tests/cli/launch_wrong.bats tests/cli/doctor.bats \
	tests/cli/completion.bats tests/cli/damage.bats tests/cli/wrong.bats
check-valgrind:
	TEST_UNDER='$(VALGRIND)' $(MAKE) check LOG_COMPILER='$(VALGRIND)' \
		TESTS='$(filter-out $(NOT_UNDER_VALGRIND) $(OF_PROCESSES),$(filter tests/unit/% tests/preload/% tests/cli/%,$(TESTS)))'

# The programs of tests/preload on older drivers; how many of the tests do not apply to each.
DRIVER_VERSIONS = 11.4:48 12.2:37 12.5:5 13.0:0
check-versions:
	MAKE='$(MAKE)' $(SHELL) $(srcdir)/tests/versions.sh '$(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))' $(DRIVER_VERSIONS)

# The programs of tests/preload once more where frees do not wait; exactly DEFER_SKIPPED tests say that they do.
DEFER_SKIPPED = 2
check-defer:
	GPUMEM_FREE=defer $(MAKE) check TESTS='$(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))'
	skipped=`cat tests/preload/*.log | grep -c '^ok .*# skip frees do not wait'`; test $$skipped -eq $(DEFER_SKIPPED)

distclean-local:
	rm -rf address coverage debug fuzz thread undefined
