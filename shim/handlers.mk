# SPDX-License-Identifier: BSD-3-Clause
# What the hooked calls do.
libgpumem_la_SOURCES += %D%/account.c %D%/alloc.c %D%/array.c %D%/async.c %D%/attribute.c %D%/batch.c %D%/capture.c \
	%D%/context.c %D%/copy.c %D%/copy2d.c %D%/core.c %D%/create.c %D%/device.c %D%/external.c %D%/fill.c %D%/foreign.c %D%/foreign.h \
	%D%/free.c %D%/graph.c %D%/handle.c %D%/handle.h %D%/handlers.h %D%/heaplimit.c %D%/host.c %D%/info.c %D%/inkernel.c %D%/inkernel.h %D%/inkernel_log.c %D%/launch.c %D%/load.c %D%/memops.c %D%/memset.c \
	%D%/network.c %D%/peer.c %D%/retry.c %D%/start.c %D%/sync.c %D%/transfer.c %D%/transfer.h %D%/trim.c \
	%D%/used.c %D%/watched.c %D%/watched.h
