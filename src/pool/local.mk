# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/alloc.c %D%/block.c %D%/block.h %D%/chunk.c %D%/chunk.h %D%/context.c %D%/context.h \
	%D%/extent.c %D%/extent.h %D%/fence.c %D%/fence.h %D%/grow.c %D%/internal.h %D%/lend.c %D%/peer.c %D%/pin.c \
	%D%/pool.c %D%/pool.h %D%/range.c %D%/range.h %D%/retire.c %D%/slab.c %D%/slab.h %D%/stats.c %D%/trim.c %D%/valid.c
