# SPDX-License-Identifier: BSD-3-Clause
# gpumemstat: one file a command; it links nothing of CUDA.
bin_PROGRAMS += gpumemstat
gpumemstat_SOURCES = %D%/advice.c %D%/advice.h %D%/emit.c %D%/emit.h %D%/env.c %D%/figures.c %D%/figures.h \
	%D%/find.c %D%/find.h %D%/foreign.c %D%/hooks.c %D%/launch.c %D%/layout.c %D%/layout.h %D%/left.c %D%/left.h %D%/main.c %D%/options.c \
	%D%/options.def %D%/options.h %D%/preload.c %D%/preload.h %D%/summary.c %D%/summary.h %D%/summary_log.c \
	%D%/tool.c %D%/tool.h
gpumemstat_CPPFLAGS = $(AM_CPPFLAGS) -DGM_LIBDIR='"$(libdir)"'
gpumemstat_LDADD = libgm.la -lpthread -ldl

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = completions/gpumemstat
