# SPDX-License-Identifier: BSD-3-Clause
# The suite under other conditions. ./quickstart check makes the first two targets of CHECKS.
# ./quickstart check all makes all.
CHECKS = check check-sanitize check-sanitize-long check-sanitize-rest check-nvcc check-versions check-defer check-ordered \
	check-unwarmed check-clang coverage check-tsan distcheck check-valgrind check-aarch64 check-wheel
EXTRA_DIST += tests/coverage.h tests/coverage.sh tests/valgrind.sh tests/valgrind.supp tests/skips.sh
.PHONY: checks rotating costs costs-keep check-aarch64 check-clang check-debug check-sanitize check-sanitize-long check-sanitize-rest \
	check-nvcc check-tsan check-valgrind check-versions check-defer check-ordered check-unwarmed check-wheel coverage
checks:
	@echo $(CHECKS)
# One of them follows `check` and `check-sanitize` in CI. coverage needs far longer than CI has left.
rotating:
	@echo $(filter-out check check-sanitize coverage,$(CHECKS))

# CPU time of the tests that ran last, beside tests/costs.txt, which `make costs-keep` writes after `make check`.
EXTRA_DIST += tests/cost.sh tests/costs.sh tests/costs.txt
costs:
	@$(SHELL) $(srcdir)/tests/costs.sh show $(srcdir)/tests/costs.txt
costs-keep:
	$(SHELL) $(srcdir)/tests/costs.sh keep $(srcdir)/tests/costs.txt

# Excluded from most conditions: tests of source files and of make alone; and tests of processes, which do not depend on
# the build, count files and calls of the processes, and have a demo that needs driver 12.0.
OF_SOURCE = tests/lint/% tests/inner/%
OF_PROCESSES = tests/preload/commands.bats tests/preload/containers.bats tests/preload/ranks.bats

# Separate builds, in subfolders of this one. They copy this build's device code, which takes nvcc minutes.
OPTIONS_clang = CC=$(CLANG)
OPTIONS_coverage = --enable-debug --enable-coverage
OPTIONS_debug = --enable-debug
OPTIONS_sanitize = --enable-sanitize=address,undefined CFLAGS='-g1 -Og'
OPTIONS_thread = --enable-debug --enable-sanitize=thread
# uthash.h is the same on every system, and is taken from this machine.
OPTIONS_aarch64 = --enable-debug --host=aarch64-linux-gnu CC=aarch64-linux-gnu-gcc CPPFLAGS='-idirafter /usr/include'

aarch64/Makefile clang/Makefile coverage/Makefile debug/Makefile sanitize/Makefile thread/Makefile:
	$(MKDIR_P) $(@D) && top=`cd $(srcdir) && pwd` && cd $(@D) && \
		$$top/configure --quiet --with-cuda='$(CUDA_HOME)' --with-gpu-archs='$(GPU_ARCHS)' CC='$(CC)' \
		--enable-werror $(OPTIONS_$(@D))
.PHONY: own-aarch64 own-clang own-coverage own-debug own-sanitize own-thread
own-aarch64 own-clang own-coverage own-debug own-sanitize own-thread: own-%: %/Makefile $(DEVICE_CODE)
	for f in $(DEVICE_CODE); do $(MKDIR_P) $*/`dirname $$f` && cp -p $$f $*/$$f || exit 1; done

check-debug: own-debug
	$(MAKE) -C debug check
# In three parts. The tests of modules and of the preload find most faults; five of them take half of the time.
LONG_SANITIZED = tests/preload/sleep.bats tests/preload/staged.bats tests/preload/defer.bats \
	tests/unit/test_residency tests/unit/test_heap_grow
SANITIZED = $(UNIT_TESTS) $(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))
check-sanitize: own-sanitize
	$(MAKE) -C sanitize check TESTS='$(filter-out $(LONG_SANITIZED),$(SANITIZED))'
check-sanitize-long: own-sanitize
	$(MAKE) -C sanitize check TESTS='$(LONG_SANITIZED)'
check-sanitize-rest: own-sanitize
	$(MAKE) -C sanitize check TESTS='$(filter-out $(SANITIZED) $(OF_SOURCE),$(TESTS))'
# What compiles device code is not among TESTS: it takes 120 s of CPU time.
check-nvcc:
	$(MAKE) check TESTS='$(NVCC_TESTS)'
# Without tests/cli: gpumemstat has one thread. While gpumemstat waits for its child, the sanitizer holds back
# the signals to gpumemstat.
check-tsan: own-thread
	$(MAKE) -C thread check TESTS='$(filter-out tests/cli/% $(OF_SOURCE) $(OF_PROCESSES),$(TESTS))'

# The entry code for AArch64 (shim/entry) is cross-built, and its tests run under qemu.
ENTRY_TESTS = tests/unit/test_late tests/preload/exports.bats tests/preload/quiet.bats tests/preload/resolve.bats \
	tests/preload/sweep.bats
check-aarch64: own-aarch64
	root=`aarch64-linux-gnu-gcc -print-file-name=libc.so.6` && root=`dirname $$root`/.. && \
		EMULATOR="qemu-aarch64 -L $$root" && export EMULATOR && \
		$(MAKE) -C aarch64 check LOG_COMPILER="$$EMULATOR" TESTS='$(ENTRY_TESTS)' \
			check_PROGRAMS='$(filter tests/unit/%,$(ENTRY_TESTS))'

# Another compiler finds other faults: all is built by clang, every program of the tests too, and the modules'
# tests run. The name may have the version alone. clang compiles a .cc file as C++ by itself.
CLANG = $(notdir $(firstword $(wildcard $(addsuffix /clang,$(subst :, ,$(PATH)))) \
	$(wildcard $(addsuffix /clang-[1-9]*[0-9],$(subst :, ,$(PATH))))))
check-clang: $(if $(CLANG),own-clang)
	$(if $(CLANG),$(MAKE) -C clang check CXX='$(CLANG)' TESTS= && $(MAKE) -C clang check CXX='$(CLANG)' TESTS='$(UNIT_TESTS)',\
		@echo 'SKIP: tests/unit under clang: clang is not installed')

if COVERAGE
AM_CPPFLAGS += -include $(top_srcdir)/tests/coverage.h
AM_TESTS_ENVIRONMENT += COVERAGE=yes; export COVERAGE;
endif

# Minimum coverage of api/, shim/ and src/ without the simulated drivers, in percent of lines.
COVERAGE_MINIMUM = 90
coverage: own-coverage
	$(MAKE) -C coverage check TESTS=
	find coverage -name '*.gcda' -delete
	$(MAKE) -C coverage check TESTS='$(filter-out $(OF_SOURCE) $(OF_PROCESSES),$(TESTS))'
	cd coverage && $(SHELL) $(abs_top_srcdir)/tests/coverage.sh $(abs_top_srcdir) $(COVERAGE_MINIMUM)

# In this build, unit tests, preloaded programs and runs of gpumemstat are under valgrind.
VALGRIND = $(SHELL) $(abs_top_srcdir)/tests/valgrind.sh
# Excluded: programs that fail to start or examine their start; a gpumemstat that starts itself again, without
# further code of ours; and tests of minutes each, with hundreds of starts or millions of lanes. The
# sanitizers run these. tests/unit/test_log_mutate damages logs here.
NOT_UNDER_VALGRIND = tests/unit/test_heap_% tests/cli/launch.bats tests/cli/launch_wrong.bats tests/cli/doctor.bats \
	tests/cli/completion.bats tests/cli/damage.bats tests/cli/wrong.bats
check-valgrind:
	TEST_UNDER='$(VALGRIND)' $(MAKE) check LOG_COMPILER='$(VALGRIND)' \
		TESTS='$(filter-out $(NOT_UNDER_VALGRIND) $(OF_PROCESSES),$(filter tests/unit/% tests/preload/% tests/cli/%,$(TESTS)))'

# The programs of tests/preload on older drivers, and with other values of knobs.
SKIPS = MAKE='$(MAKE)' $(SHELL) $(srcdir)/tests/skips.sh $(srcdir) '$(filter-out $(OF_PROCESSES),$(filter tests/preload/%,$(TESTS)))'
check-versions:
	+$(SKIPS) SIM_DRIVER=13.0 SIM_DRIVER=12.5 SIM_DRIVER=12.2 SIM_DRIVER=11.4
check-defer:
	+$(SKIPS) GPUMEM_FREE=defer
check-ordered:
	+$(SKIPS) GPUMEM_FREE=ordered
check-unwarmed:
	+$(SKIPS) GPUMEM_PREWARM=0

# It compiles device code for all GPUs, as `make install` does.
check-wheel:
	$(MAKE) check TESTS=tests/packages/wheel.sh

distclean-local:
	rm -rf aarch64 clang coverage debug fuzz sanitize thread
	rm -f $(TEST_LOGS:.log=.cost)
