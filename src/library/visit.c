/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/visit.h"

#include "base/tick.h"

CUresult gm_visit_enter(struct gm_visit *visit, const struct gm_visits *visits, int ordinal,
			CUstream stream)
{
	CUresult result = gm_place_enter(&visit->place, visits->driver, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = visits->streams(visit->place.context, &visit->streams);
	if (result != CUDA_SUCCESS)
		gm_place_leave(&visit->place);
	return result;
}

void gm_visit_leave(const struct gm_visit *visit)
{
	gm_place_leave(&visit->place);
}

CUresult gm_visit_alloc(const struct gm_visits *visits, size_t size, int ordinal, CUstream stream,
			bool known, CUdeviceptr *out)
{
	struct gm_visit visit;
	struct gm_block block = {0};
	uint64_t start = visits->refused ? gm_tick() : 0;
	CUresult result = gm_visit_enter(&visit, visits, ordinal, stream);
	if (result == CUDA_SUCCESS) {
		struct gm_context *context = visit.place.context;
		uint64_t number = known ? gm_streams_number(visits->driver, stream) : 0;
		result = gm_streams_alloc(visit.streams, size, context, number, &block);
		if (result != CUDA_SUCCESS && visits->refused)
			visits->refused(context, size, start, result);
		gm_visit_leave(&visit);
	}
	*out = block.base;
	return result;
}

CUresult gm_visit_free(const struct gm_visits *visits, CUdeviceptr address, int ordinal,
		       CUstream stream, bool known)
{
	struct gm_visit visit;
	CUresult result = gm_visit_enter(&visit, visits, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t number = known ? gm_streams_number(visits->driver, stream) : 0;
	result = gm_streams_free(visit.streams, address, visit.place.context, stream, number);
	gm_visit_leave(&visit);
	return result;
}

uint64_t gm_visit_trim(struct gm_streams *streams, struct gm_pool *pool)
{
	if (streams)
		gm_streams_drain(streams);
	return pool ? gm_pool_give_back(pool, 0, true) : 0;
}
