# SPDX-License-Identifier: BSD-3-Clause
# The preload: nothing to link against, no constructor but that of base/msg.c, and no library that a
# container may lack.
lib_LTLIBRARIES += libgpumem.la
# Entry and exit of handlers, and the events of the process in every module.
libgpumem_la_SOURCES = %D%/call.c %D%/call.h %D%/life.c %D%/life.h %D%/modules.c %D%/modules.def %D%/modules.h
# Devices, their pools, and calls that lack memory.
libgpumem_la_SOURCES += %D%/memory/device.c %D%/memory/device.h %D%/memory/lack.c %D%/memory/lack.h %D%/memory/limit.c \
	%D%/memory/limit.h %D%/memory/overhead.c %D%/memory/overhead.h %D%/memory/plain.c %D%/memory/retry.c %D%/memory/retry.h
# Idle memory: to the driver, and between processes.
libgpumem_la_SOURCES += %D%/idle/demand.c %D%/idle/demand.h %D%/idle/give.c %D%/idle/give.h %D%/idle/neighbour.c \
	%D%/idle/neighbour.h %D%/idle/trim.c %D%/idle/trim.h
# Sleep.
libgpumem_la_SOURCES += %D%/sleep/moves.c %D%/sleep/moves.h %D%/sleep/orders.c %D%/sleep/orders.h %D%/sleep/refusal.c \
	%D%/sleep/refusal.h %D%/sleep/rest.c %D%/sleep/rest.h %D%/sleep/sleep.c %D%/sleep/sleep.h %D%/sleep/sleep_bounds.h \
	%D%/sleep/sleep_door.c %D%/sleep/sleep_door.h %D%/sleep/sleep_figures.c %D%/sleep/sleep_figures.h \
	%D%/sleep/sleep_store.c %D%/sleep/sleep_store.h %D%/sleep/turns.c %D%/sleep/turns.h
# The log of the process.
libgpumem_la_SOURCES += %D%/log/live.c %D%/log/live.h %D%/log/recorder.c %D%/log/recorder.h %D%/log/samples.c \
	%D%/log/samples.h
# libgpumem-core in a preloaded process.
libgpumem_la_SOURCES += %D%/library/library.c %D%/library/library.h
# From the program's look-up of a symbol to our entry.
libgpumem_la_SOURCES += %D%/entry/audit.c %D%/entry/cuda_types.h %D%/entry/dlsym.c %D%/entry/glibc_late.c \
	%D%/entry/glibc_late.h %D%/entry/hooks.c %D%/entry/hooks.h %D%/entry/object.c %D%/entry/object.h \
	%D%/entry/resolve.c %D%/entry/resolve.h %D%/entry/unknown.c %D%/entry/unknown.h
# Blocks of the pool.
libgpumem_la_SOURCES += %D%/block/alloc.c %D%/block/alloc.h %D%/block/attribute.c %D%/block/attribute.h %D%/block/fill.c \
	%D%/block/fill.h %D%/block/free.c %D%/block/free.h %D%/block/holders.c %D%/block/holders.h %D%/block/info.c %D%/block/memops.c \
	%D%/block/memops.h %D%/block/network.c %D%/block/network.h %D%/block/question.c %D%/block/question.h
# PyTorch: its cache, and tensors in it.
libgpumem_la_SOURCES += %D%/torch/behind.c %D%/torch/behind.h %D%/torch/cache.c %D%/torch/cache.h \
	%D%/torch/border.c %D%/torch/border.h %D%/torch/lend.c %D%/torch/lend.h %D%/torch/origin.c %D%/torch/origin.h \
	%D%/torch/segments.c %D%/torch/segments.h %D%/torch/sequence.c %D%/torch/sequence.h %D%/torch/tensors.c %D%/torch/tensors.h
# Tables of functions of cuGetExportTable.
libgpumem_la_SOURCES += %D%/export_table/tables.c %D%/export_table/tables.h %D%/export_table/wrap.c %D%/export_table/wrap.h
# Contexts, captures, peer access, submissions in the order of streams.
libgpumem_la_SOURCES += %D%/context/capture.c %D%/context/capture.h %D%/context/context.c \
	%D%/context/peer.c %D%/context/peer.h %D%/context/submit.c %D%/context/submit.h %D%/context/sync.c
# Copies and memsets.
libgpumem_la_SOURCES += %D%/copy/batch.c %D%/copy/copy.c %D%/copy/copy2d.c %D%/copy/copy2d.h \
	%D%/copy/memop.c %D%/copy/memset.c %D%/copy/node.c %D%/copy/node.h %D%/copy/stage.c %D%/copy/stage.h \
	%D%/copy/transfer.c %D%/copy/transfer.h %D%/copy/update.c
# Memory outside the pool.
libgpumem_la_SOURCES += %D%/foreign/account.c %D%/foreign/account.h %D%/foreign/array.c \
	%D%/foreign/async.c %D%/foreign/async.h %D%/foreign/create.c %D%/foreign/external.c \
	%D%/foreign/foreign.c %D%/foreign/foreign.h %D%/foreign/graph.c %D%/foreign/graph.h \
	%D%/foreign/host.c %D%/foreign/managed.c %D%/foreign/managed.h %D%/foreign/physical.c \
	%D%/foreign/physical.h %D%/foreign/physical_move.c %D%/foreign/prefetch.c %D%/foreign/prefetch.h
# Blocks that processes share.
libgpumem_la_SOURCES += %D%/ipc/export.c %D%/ipc/handle.h %D%/ipc/import.c %D%/ipc/ipc.h %D%/ipc/map.c \
	%D%/ipc/map.h %D%/ipc/opens.c %D%/ipc/opens.h
# Kernels, and malloc in them.
libgpumem_la_SOURCES += %D%/kernel/handle.c %D%/kernel/handle.h %D%/kernel/heaplimit.c \
	%D%/kernel/heaplimit.h %D%/kernel/inkernel.c %D%/kernel/inkernel.h %D%/kernel/inkernel_log.c \
	%D%/kernel/inkernel_log.h %D%/kernel/launch.c %D%/kernel/launch.h %D%/kernel/load.c \
	%D%/kernel/watched.c %D%/kernel/watched.h

libgpumem_la_CPPFLAGS = $(AM_CPPFLAGS) $(GM_GLIBC) -I$(top_srcdir)
libgpumem_la_CCASFLAGS = $(AM_CCASFLAGS)
libgpumem_la_CFLAGS = $(AM_CFLAGS) -fPIC
libgpumem_la_LIBADD = libgmtakeover.la libgmimage.la libgm.la
# Two segments rather than four (noseparate-code): each costs a system call and page faults in every process.
libgpumem_la_LDFLAGS = -module -avoid-version -shared -Wl,--version-script=%D%/libgpumem.map \
	-Wl,-Bsymbolic-functions -Wl,-z,defs,-z,noseparate-code,-z,now,-z,nodelete,-z,relro,-z,noexecstack
EXTRA_libgpumem_la_DEPENDENCIES = %D%/libgpumem.map
EXTRA_DIST += %D%/entry/entry-aarch64.S %D%/entry/entry-x86_64.S %D%/export_table/stubs-x86_64.S

if HOST_AARCH64
libgpumem_la_SOURCES += %D%/entry/entry-aarch64.S
else
libgpumem_la_SOURCES += %D%/entry/entry-x86_64.S %D%/export_table/stubs-x86_64.S
endif

# From glibc 2.34 on these are empty archives and leave no trace. Before that only they have the functions.
libgpumem_la_LIBADD += -ldl -lpthread

# A debug build also lets the simulated driver ask which locks its caller holds.
if GM_DEBUG
SHIM_DEBUG_EXPORT = gm_lock_none_held;
endif

SHIM_TORCH = _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE; _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE; _ZN2at15sequence_number17get_and_incrementEv;

# The exports are the hooks, dlsym, libgpumem-core's entry (api/core.h), the one of LD_AUDIT, and three functions
# of PyTorch (torch/tensors.h, torch/sequence.h). One anonymous version: a named version would not satisfy a reference to another one.
%D%/libgpumem.map: $(top_srcdir)/src/driver/hooks.def Makefile
	$(AM_V_GEN)$(MKDIR_P) %D% && { echo '{ global: dlsym; gm_preload_core; la_version; $(SHIM_TORCH) $(SHIM_DEBUG_EXPORT)' && \
		$(SED) -n 's/^GM_HOOK(\([A-Za-z0-9_]*\),.*/\1;/p' $(top_srcdir)/src/driver/hooks.def && \
		echo 'local: *; };'; } >$@-t && mv $@-t $@
CLEANFILES += %D%/libgpumem.map

# Nothing links with it, so libtool's description is not installed, and uninstall needs the library's name.
install-exec-hook:
	rm -f $(DESTDIR)$(libdir)/libgpumem.la
uninstall-hook:
	rm -f $(DESTDIR)$(libdir)/libgpumem.so
