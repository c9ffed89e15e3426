/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages with views at several addresses: shared anonymous memory. A view is made by mremap of 0
 * bytes, which needs no file and so works under RLIMIT_FSIZE. Memcheck does not know this use of
 * mremap: with SIM_MEMFD=1 the pages are a file.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/internal.h"

bool sim_shared_make(struct sim_shared *shared, size_t size)
{
	int flags = MAP_SHARED | MAP_NORESERVE;
	shared->size = size;
	shared->fd = sim.settings.memfd ? memfd_create("sim-memory", MFD_CLOEXEC) : -1;
	if (shared->fd < 0)
		flags |= MAP_ANONYMOUS;
	shared->pages = shared->fd >= 0 && ftruncate(shared->fd, (off_t)size) != 0
				? MAP_FAILED
				: mmap(NULL, size, PROT_NONE, flags, shared->fd, 0);
	if (shared->pages == MAP_FAILED && shared->fd >= 0)
		close(shared->fd);
	return shared->pages != MAP_FAILED;
}

bool sim_shared_open(struct sim_shared *shared, size_t size, int fd)
{
	shared->size = size;
	shared->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	shared->pages = shared->fd < 0 ? MAP_FAILED
				       : mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE,
					      shared->fd, 0);
	if (shared->pages == MAP_FAILED && shared->fd >= 0)
		close(shared->fd);
	return shared->pages != MAP_FAILED;
}

bool sim_shared_view(const struct sim_shared *shared, size_t offset, size_t size, void *at)
{
	void *view = shared->fd < 0 ? mremap((char *)shared->pages + offset, 0, size,
					     MREMAP_MAYMOVE | MREMAP_FIXED, at)
				    : mmap(at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, shared->fd,
					   (off_t)offset);
	return view != MAP_FAILED;
}

void sim_shared_drop(struct sim_shared *shared)
{
	munmap(shared->pages, shared->size);
	if (shared->fd >= 0)
		close(shared->fd);
}
