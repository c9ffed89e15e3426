# SPDX-License-Identifier: BSD-3-Clause
# What the hooked calls do.
libgpumem_la_SOURCES += %D%/alloc.c %D%/attribute.c %D%/capture.c %D%/context.c %D%/copy.c %D%/copy2d.c \
	%D%/device.c %D%/foreign.c %D%/free.c %D%/handlers.h %D%/info.c %D%/launch.c %D%/memops.c %D%/memset.c \
	%D%/peer.c %D%/retry.c %D%/start.c %D%/transfer.c %D%/transfer.h %D%/trim.c
