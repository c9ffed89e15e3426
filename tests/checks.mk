# SPDX-License-Identifier: BSD-3-Clause
# The suite under other conditions. ./quickstart check makes the first two of CHECKS, ./quickstart check all makes all.
CHECKS = check check-sanitize check-sanitize-rest check-versions check-defer check-ordered coverage check-tsan distcheck \
	check-valgrind check-aarch64
EXTRA_DIST += tests/coverage.h tests/coverage.sh tests/valgrind.sh tests/valgrind.supp tests/skips.sh
.PHONY: checks check-aarch64 check-debug check-sanitize check-sanitize-rest check-tsan check-valgrind check-versions check-defer check-ordered coverage
checks:
	@echo $(CHECKS)

# Not again in each: of sources alone; and of processes, whatever runs in them, whose files and calls these count, and
# whose demo needs driver 12.0.
OF_SOURCE = tests/lint/% tests/unit/heap_nvcc.sh tests/unit/takeover_nvcc.sh tests/programs/programs_nvcc.sh
OF_PROCESSES = tests/preload/commands.bats tests/preload/containers.bats tests/preload/ranks.bats

# Builds of their own, in folders of this one, with the device code of this one: nvcc takes minutes for it.
OPTIONS_coverage = --enable-debug --enable-coverage
OPTIONS_debug = --enable-debug
OPTIONS_sanitize = --enable-sanitize=address,undefined CFLAGS='-g1 -Og'
OPTIONS_thread = --enable-debug --enable-sanitize=thread
# Headers that are the same everywhere, uthash.h, are found where this machine has them.
OPTIONS_aarch64 = --enable-debug --host=aarch64-linux-gnu CC=aarch64-linux-gnu-gcc CPPFLAGS='-idirafter /usr/include'

aarch64/Makefile coverage/Makefile debug/Makefile sanitize/Makefile thread/Makefile:
	$(MKDIR_P) $(@D) && top=`cd $(srcdir) && pwd` && cd $(@D) && \
		$$top/configure --quiet --with-cuda='$(CUDA_HOME)' --with-gpu-archs='$(GPU_ARCHS)' CC='$(CC)' \
		$(OPTIONS_$(@D))
.PHONY: own-aarch64 own-coverage own-debug own-sanitize own-thread
own-aarch64 own-coverage own-debug own-sanitize own-thread: own-%: %/Makefile $(DEVICE_CODE)
	for f in $(DEVICE_CODE); do $(MKDIR_P) $*/`dirname $$f` && cp -p $$f $*/$$f || exit 1; done

check-debug: own-debug
	$(MAKE) -C debug check
# In two parts: first the half that finds most; the rest takes longer.
FIRST_SANITIZED = $(UNIT_TESTS) $(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))
check-sanitize: own-sanitize
	$(MAKE) -C sanitize check TESTS='$(FIRST_SANITIZED)' \
		check_PROGRAMS='$(filter tests/unit/% tests/preload/%,$(check_PROGRAMS))'
check-sanitize-rest: own-sanitize
	$(MAKE) -C sanitize check TESTS='$(filter-out $(FIRST_SANITIZED) $(OF_SOURCE),$(TESTS))'
# gpumemstat has one thread, and the sanitizer keeps signals from it while it waits for its child.
check-tsan: own-thread
	$(MAKE) -C thread check TESTS='$(filter-out tests/cli/% %_nvcc.sh $(OF_SOURCE) $(OF_PROCESSES),$(TESTS))'

# The entry code of AArch64 (shim/entry), cross-built, and its tests under qemu.
ENTRY_TESTS = tests/unit/test_late tests/preload/exports.bats tests/preload/quiet.bats tests/preload/resolve.bats \
	tests/preload/sweep.bats
check-aarch64: own-aarch64
	root=`aarch64-linux-gnu-gcc -print-file-name=libc.so.6` && root=`dirname $$root`/.. && \
		EMULATOR="qemu-aarch64 -L $$root" && export EMULATOR && \
		$(MAKE) -C aarch64 check LOG_COMPILER="$$EMULATOR" TESTS='$(ENTRY_TESTS)' \
			check_PROGRAMS='$(filter tests/unit/%,$(ENTRY_TESTS))'

if COVERAGE
AM_CPPFLAGS += -include $(top_srcdir)/tests/coverage.h
# For `make mutants`: the counts of each test in a folder of its own.
AM_TESTS_ENVIRONMENT += COVERAGE=yes; export COVERAGE; \
	if test -n "$$COVERED"; then \
		$(MKDIR_P) $$COVERED/$@; : >$$COVERED/$@/began; GCOV_PREFIX=$$COVERED/$@; export GCOV_PREFIX; \
	fi;
endif

# The least that is accepted of api/, shim/ and src/, in percent of lines.
COVERAGE_MINIMUM = 90
coverage: own-coverage
	$(MAKE) -C coverage check TESTS=
	find coverage -name '*.gcda' -delete
	$(MAKE) -C coverage check TESTS='$(filter-out $(OF_SOURCE) $(OF_PROCESSES),$(TESTS))'
	cd coverage && $(SHELL) $(abs_top_srcdir)/tests/coverage.sh $(abs_top_srcdir) $(COVERAGE_MINIMUM)

# In this build. What a test preloads or runs as gpumemstat, and each unit test, runs under valgrind.
VALGRIND = $(SHELL) $(abs_top_srcdir)/tests/valgrind.sh
# Starts of programs that fail or look at how they were started, a gpumemstat that starts itself again, nothing of ours;
# hundreds of starts each, and lanes by the million, minutes each: the sanitizers have these (tests/unit/test_log_mutate
# damages logs here).
NOT_UNDER_VALGRIND = tests/unit/test_heap_% tests/cli/launch.bats tests/cli/launch_wrong.bats tests/cli/doctor.bats \
	tests/cli/completion.bats tests/cli/damage.bats tests/cli/wrong.bats
check-valgrind:
	TEST_UNDER='$(VALGRIND)' $(MAKE) check LOG_COMPILER='$(VALGRIND)' \
		TESTS='$(filter-out $(NOT_UNDER_VALGRIND) $(OF_PROCESSES),$(filter tests/unit/% tests/preload/% tests/cli/%,$(TESTS)))'

# The programs of tests/preload on older drivers, and where frees do not wait.
SKIPS = MAKE='$(MAKE)' $(SHELL) $(srcdir)/tests/skips.sh $(srcdir) '$(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))'
check-versions:
	$(SKIPS) SIM_DRIVER=13.0 SIM_DRIVER=12.5 SIM_DRIVER=12.2 SIM_DRIVER=11.4
check-defer:
	$(SKIPS) GPUMEM_FREE=defer
check-ordered:
	$(SKIPS) GPUMEM_FREE=ordered

distclean-local:
	rm -rf aarch64 coverage debug fuzz sanitize thread
