/* SPDX-License-Identifier: BSD-3-Clause */
#include "library/mark.h"

#include <stdlib.h>

struct gm_mark *gm_mark_new(struct gm_context *context)
{
	struct gm_mark *mark = calloc(1, sizeof *mark);
	if (!mark)
		return NULL;
	mark->context = context;
	mark->users = 1;
	return mark;
}

bool gm_mark_record(struct gm_mark *mark, const struct gm_driver *driver, CUstream stream)
{
	CUstreamCaptureStatus status;
	CUevent event;
	if (driver->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_NONE)
		return false;
	if (driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return false;
	mark->event = event;
	return driver->cuEventRecord(event, stream) == CUDA_SUCCESS;
}

CUresult gm_mark_call(const struct gm_mark *mark, CUresult (*call)(CUevent event))
{
	if (!mark->event)
		return CUDA_SUCCESS;
	if (!gm_context_enter(mark->context))
		return CUDA_ERROR_NOT_READY;
	CUresult result = call(mark->event);
	gm_context_leave(mark->context);
	return result;
}

bool gm_mark_is_worth_asking(const struct gm_mark *mark, const struct gm_asked *asked)
{
	if (!mark || !mark->recorded || mark->passed || asked->n == GM_MARK_TRIES)
		return false;
	for (unsigned i = 0; i < asked->n; i++)
		if (asked->mark[i] == mark)
			return false;
	return true;
}

void gm_marks_drop(struct gm_mark *list, const struct gm_driver *driver)
{
	struct gm_mark *next;
	for (struct gm_mark *mark = list; mark; mark = next) {
		next = mark->next;
		gm_mark_call(mark, driver->cuEventDestroy_v2);
		free(mark);
	}
}
