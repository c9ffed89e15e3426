# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/context.c %D%/context.h %D%/event.c %D%/event.h %D%/everywhere.c %D%/everywhere.h %D%/fence.c %D%/fence.h %D%/fence_ops.h \
	%D%/order.c %D%/order.h %D%/order_state.h %D%/order_window.c \
	%D%/place.c %D%/place.h %D%/poll.c %D%/poll.h
