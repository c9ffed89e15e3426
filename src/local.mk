# SPDX-License-Identifier: BSD-3-Clause
# libgm: all of src/ but the simulated drivers, for the shim, the tools and the tests.
noinst_LTLIBRARIES += libgm.la libgmsim.la
libgm_la_SOURCES =
libgm_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
libgm_la_CFLAGS = $(AM_CFLAGS) -fPIC
libgmsim_la_SOURCES =
libgmsim_la_CFLAGS = $(AM_CFLAGS) -fPIC

# What ends up in the preload runs on glibc 2.28.
if !SANITIZE
GM_GLIBC = -include base/glibc.h
endif

include src/base/local.mk
include src/knob/local.mk
include src/log/local.mk
include src/driver/local.mk
include src/pool/local.mk
include src/heap/local.mk
include src/takeover/local.mk
include src/image/local.mk
