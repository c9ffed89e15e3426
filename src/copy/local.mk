# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/crew.c %D%/crew.h %D%/job.c %D%/job.h %D%/move.c %D%/move.h %D%/ring.c %D%/ring.h %D%/share.c %D%/share.h %D%/threshold.def
