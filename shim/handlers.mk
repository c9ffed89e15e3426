# SPDX-License-Identifier: BSD-3-Clause
libgpumem_la_SOURCES += %D%/forward.c
