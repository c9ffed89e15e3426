# SPDX-License-Identifier: BSD-3-Clause
# libgm: all of src/ but the simulated drivers, for the shim, the tools and the tests. libgmsim is for the tests alone.
noinst_LTLIBRARIES += libgm.la
check_LTLIBRARIES += libgmsim.la
libgm_la_SOURCES =
libgm_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC)
libgm_la_CFLAGS = $(AM_CFLAGS) -fPIC
libgmsim_la_SOURCES =
libgmsim_la_CFLAGS = $(AM_CFLAGS) -fPIC

# What ends up in the preload runs on glibc 2.28.
if !SANITIZE
GM_GLIBC = -include base/glibc.h
# Beside src/base/glibc_dlsym.c, for all but the preload.
GM_GLIBC_LINK = -Wl,--wrap=dlsym -Wl,--push-state,--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0,--pop-state
endif

# What nvcc makes, for gpu_archs: the GPUs of GPU_ARCHS, a list or `all`; all of them where it is installed or carried to another
# machine; and those that this folder has code for: `make` after `make install` compiles nothing. gpu_oldest has PTX, too.
DEVICE_CODE =
.PHONY: gpu_archs_changed
if GM_HELPERS
gpu_known := $(shell cat src/gpu_archs 2>/dev/null)
gpu_wanted := $(patsubst all,$(GPU_ARCHS_ALL),\
	$(GPU_ARCHS) $(if $(filter install% gpu-bundle bench-bundle,$(MAKECMDGOALS)),$(GPU_ARCHS_INSTALL)))
gpu_unknown := $(filter-out $(GPU_ARCHS_ALL),$(gpu_wanted))
gpu_archs := $(if $(gpu_unknown),$(error GPU_ARCHS: $(gpu_unknown): none of all, $(GPU_ARCHS_ALL)))\
	$(filter $(gpu_known) $(gpu_wanted),$(GPU_ARCHS_ALL))
gpu_oldest := $(firstword $(GPU_ARCHS_ALL))
DEVICE_CODE += src/gpu_archs
CLEANFILES += src/gpu_archs
gpu_cubins :=
AM_MAKEFLAGS = 'GPU_ARCHS=$(gpu_archs)'
src/gpu_archs: $(if $(filter-out $(gpu_known),$(gpu_archs))$(filter-out $(gpu_archs),$(gpu_known)),gpu_archs_changed)
	$(AM_V_at)$(MKDIR_P) $(@D) && echo $(gpu_archs) >$@-t && mv -f $@-t $@
endif

include src/base/local.mk
include src/knob/local.mk
include src/log/local.mk
include src/stack/local.mk
include src/driver/local.mk
include src/rpc/local.mk
include src/sim/local.mk
include src/context/local.mk
include src/copy/local.mk
include src/pool/local.mk
include src/residency/local.mk
include src/heap/local.mk
include src/library/local.mk
include src/takeover/local.mk
include src/image/local.mk

# The folders that checks build in get the fatbins without these.
if GM_HELPERS
.SECONDARY: $(gpu_cubins)
endif
