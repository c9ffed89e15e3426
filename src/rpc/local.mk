# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/ask.c %D%/find.c %D%/kinds.def %D%/rpc.h %D%/serve.c %D%/user.c %D%/wire.c \
	%D%/wire.h
