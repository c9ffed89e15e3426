# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/alias.c %D%/alias.h %D%/alloc.c %D%/away.c %D%/block.c %D%/block.h %D%/chunk.c %D%/chunk.h %D%/epoch.c %D%/epoch.h \
	%D%/extent.c %D%/extent.h %D%/fit.c %D%/fit.h %D%/free.c %D%/free.h %D%/grow.c %D%/grow.h %D%/internal.h \
	%D%/hot.c %D%/hot.h %D%/knobs.c %D%/knobs.h %D%/ladder.c %D%/ladder.h %D%/lend.c %D%/lend.h %D%/limbo.c %D%/limbo.h %D%/patience.c %D%/patience.h %D%/peer.c \
	%D%/peer.h \
	%D%/export.c %D%/pin.c %D%/pin.h %D%/pool.c %D%/pool.h %D%/range.c %D%/range.h %D%/remap.c %D%/remap.h %D%/headroom.c %D%/headroom.h %D%/shift.c %D%/vacant.c %D%/vacant.h %D%/shelf.c \
	%D%/shelf.h %D%/shelf_check.c %D%/shelves.c %D%/stand_in.c %D%/slab.c %D%/slab.h %D%/stats.c %D%/stats.h %D%/trim.c %D%/trim.h \
	%D%/valid.c %D%/valid.h
