# SPDX-License-Identifier: BSD-3-Clause
# Shared by the preload and libgpumem-core.
libgm_la_SOURCES += %D%/buffer.c %D%/buffer.h %D%/cut.c %D%/cut.h %D%/heaps.c %D%/heaps.h %D%/mark.c %D%/mark.h %D%/stream.c %D%/stream.h %D%/visit.c %D%/visit.h
