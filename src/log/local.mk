# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/about.c %D%/about.h %D%/check.c %D%/counters.c %D%/counters.def %D%/count.h %D%/counters.h \
	%D%/definitions.c %D%/file.c %D%/file.h %D%/format.h %D%/frag.c %D%/frag.h %D%/load.c %D%/load.h %D%/log.c %D%/log.h %D%/page.h \
	%D%/owner.def %D%/parts.c %D%/parts.h %D%/ranks.def %D%/read.c %D%/read.h %D%/record.h %D%/recording.c %D%/recording.h \
	%D%/ring.c %D%/ring.h %D%/sample.c %D%/sample.h %D%/segment.c %D%/segment.h %D%/small.c %D%/small.h %D%/split.def \
	%D%/strings.c %D%/strings.h \
	%D%/writer.c %D%/writer.h
