# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/knobs.c %D%/knobs.h
libgm_la_SOURCES += %D%/alloc.c %D%/batch.c %D%/batch.h %D%/block.c %D%/block.h %D%/chunk.c %D%/chunk.h \
	%D%/context.c %D%/context.h %D%/extent.c %D%/extent.h %D%/fence.c %D%/fence.h %D%/freed.c %D%/freed.h %D%/grow.c \
	%D%/internal.h %D%/ladder.c %D%/lend.c %D%/peer.c %D%/pin.c %D%/place.c %D%/place.h %D%/pool.c %D%/pool.h \
	%D%/range.c %D%/range.h %D%/remap.c %D%/retire.c %D%/retire.h %D%/shelf.c %D%/shelf_check.c %D%/shelf.h %D%/slab.c \
	%D%/slab.h %D%/stats.c %D%/stream.c %D%/stream.h %D%/trim.c %D%/valid.c
