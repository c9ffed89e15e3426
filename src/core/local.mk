# SPDX-License-Identifier: BSD-3-Clause
# What the preload and libgpumem-core share.
libgm_la_SOURCES += %D%/buffer.c %D%/buffer.h %D%/heaps.c %D%/heaps.h %D%/stream.c %D%/stream.h %D%/visit.c %D%/visit.h
