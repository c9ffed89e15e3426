# SPDX-License-Identifier: BSD-3-Clause
libgm_la_SOURCES += %D%/calls.def %D%/driver.c %D%/driver.h %D%/hooks.def
sim_c_files = %D%/sim.c %D%/sim_batch.c %D%/sim_capture.c %D%/sim_context.c %D%/sim_copy.c %D%/sim_debug.c %D%/sim_device.c \
	%D%/sim_event.c %D%/sim_exports.c %D%/sim_external.c %D%/sim_graph.c %D%/sim_green.c %D%/sim_host.c %D%/sim_memcpy.c \
	%D%/sim_launch.c %D%/sim_library.c %D%/sim_memory.c %D%/sim_memset.c %D%/sim_module.c %D%/sim_nodes.c %D%/sim_pointer.c %D%/sim_pool.c \
	%D%/sim_share.c %D%/sim_stream.c %D%/sim_view.c %D%/sim_vmm.c
sim_h_files = %D%/sim.h %D%/sim_copy.h %D%/sim_exports.def %D%/sim_internal.h
libgmsim_la_SOURCES += $(sim_c_files) $(sim_h_files) %D%/null.c %D%/null.h
