# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/array.c %D%/array.h %D%/clock.h %D%/debug.h %D%/distance.c %D%/distance.h %D%/escape.c \
	%D%/escape.h %D%/glibc.c %D%/glibc.def %D%/glibc.h %D%/hash.h %D%/lock.c %D%/lock.h %D%/msg.c %D%/msg.h \
	%D%/quick.c %D%/quick.h %D%/size.c %D%/size.h %D%/thread.c %D%/thread.h %D%/tick.c %D%/tick.h %D%/timing.h
