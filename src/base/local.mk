# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/array.c %D%/array.h %D%/checksum.c %D%/checksum.h %D%/clock.h %D%/cores.c %D%/cores.h %D%/debug.h %D%/distance.c %D%/distance.h %D%/entries.c %D%/entries.h %D%/escape.c \
	%D%/escape.h %D%/fd.c %D%/fd.h %D%/glibc.c %D%/glibc.def %D%/glibc.h %D%/hash.h %D%/list.h %D%/loaded.c %D%/loaded.h %D%/lock.c %D%/lock.h %D%/msg.c %D%/msg.h \
	%D%/futex_lock.c %D%/futex_lock.h %D%/size.c %D%/size.h %D%/sys.c %D%/sys.h %D%/thread.c %D%/thread.h %D%/tick.c %D%/tick.h \
	%D%/futex.h %D%/timing.h %D%/worker.c %D%/worker.h
