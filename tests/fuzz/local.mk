# SPDX-License-Identifier: BSD-3-Clause
# The readers of images, of logs and of graphs under libFuzzer: make fuzz SECONDS=3600 (clang; for all harnesses
# together). RESULTS has the findings; make check replays the corpus without libFuzzer.
FUZZ_HARNESSES = fatbin cubin ptx log reader
FUZZ_REPLAYS = %D%/replay_fatbin %D%/replay_cubin %D%/replay_log %D%/replay_ptx %D%/replay_reader
check_PROGRAMS += $(FUZZ_REPLAYS)
TESTS += $(FUZZ_REPLAYS)
EXTRA_DIST += %D%/corpus %D%/fuzz.sh %D%/ptx.dict %D%/reader.dict %D%/RESULTS

tests_fuzz_replay_fatbin_SOURCES = %D%/replay.c %D%/fuzz.h %D%/fuzz_fatbin.c
tests_fuzz_replay_fatbin_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"fatbin"'
tests_fuzz_replay_fatbin_LDADD = libgmimage.la libgm.la -lpthread -ldl
tests_fuzz_replay_cubin_SOURCES = %D%/replay.c %D%/fuzz.h %D%/fuzz_cubin.c
tests_fuzz_replay_cubin_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"cubin"'
tests_fuzz_replay_cubin_LDADD = libgmimage.la libgm.la -lpthread -ldl
tests_fuzz_replay_ptx_SOURCES = %D%/replay.c %D%/fuzz.h %D%/fuzz_ptx.c
tests_fuzz_replay_ptx_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"ptx"'
tests_fuzz_replay_ptx_LDADD = libgmimage.la libgm.la -lpthread -ldl
tests_fuzz_replay_reader_SOURCES = %D%/replay.c %D%/fuzz.h %D%/fuzz_reader.c $(coordinates_sources)
tests_fuzz_replay_reader_LDADD =
tests_fuzz_replay_reader_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -DCORPUS='"reader"'
# Commands of gpumemstat over logs: the library of the tool, and its main under another name.
tests_fuzz_replay_log_SOURCES = %D%/replay.c %D%/fuzz.h %D%/fuzz_log.c tools/main.c
tests_fuzz_replay_log_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir) -DCORPUS='"log"' -Dmain=gm_tool_main
tests_fuzz_replay_log_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
tests_fuzz_replay_log_LDADD = libgmtool.a libgmimage.la libgm.la -lpthread -ldl -lm

SECONDS = 300
FUZZ_CC = clang
.PHONY: fuzz
fuzz: tools/report/page.S
	FUZZ_CC='$(FUZZ_CC)' FUZZ_CPPFLAGS='$(CUDA_CPPFLAGS)' $(SHELL) $(srcdir)/tests/fuzz/fuzz.sh '$(abs_top_srcdir)' '$(SECONDS)' $(FUZZ_HARNESSES)
