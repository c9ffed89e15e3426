# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/counters.c %D%/counters.def %D%/counters.h %D%/fd.c %D%/fd.h %D%/log.c %D%/log.h %D%/page.h \
	%D%/read.h %D%/record.h
