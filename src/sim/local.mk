# SPDX-License-Identifier: BSD-3-Clause
# For tests and the demo only: the simulated driver, and the SIMT emulation, which runs device code here.
sim_c_files = %D%/batch.c %D%/bind.c %D%/capture.c %D%/context.c %D%/copy.c %D%/debug.c %D%/device.c %D%/event.c \
	%D%/exports.c %D%/external.c %D%/graph.c %D%/green.c %D%/host.c %D%/hostfunc.c %D%/ipc.c %D%/launch.c %D%/launched.c %D%/library.c %D%/managed.c %D%/memcpy.c \
	%D%/memory.c %D%/memset.c %D%/module.c %D%/nodes.c %D%/pointer.c %D%/pool.c %D%/share.c %D%/sim.c %D%/stream.c %D%/tables.c \
	%D%/view.c %D%/vmm.c %D%/words.c
sim_h_files = %D%/copy.h %D%/exports.def %D%/internal.h %D%/sim.h
libgmsim_la_SOURCES += $(sim_c_files) $(sim_h_files) %D%/kernels.c %D%/kernels.h %D%/simt.c %D%/simt.h %D%/simt_cpu.h
