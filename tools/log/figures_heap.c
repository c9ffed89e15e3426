/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of malloc in kernels. */
#include <stdlib.h>
#include <string.h>

#include "tools/log/figures.h"

enum { KERNELS_MOST = 256 }; /* of a device; further kernels count as unknown */

static const char *record_text(const struct gm_figures *f, const struct gm_record *r)
{
	const char *text = gm_log_read_string(f->file, r->string);
	return text ? text : "";
}

static bool context_add(struct gm_figures *f, const struct gm_record *r)
{
	const struct gm_figures_context context = {
		.key = r->id,
		.time = r->time,
		.heap = r->address,
		.limit = r->held,
		.ns = r->duration,
		.device = r->device,
		.status = r->status,
		.taken = r->size == 0,
		.text = record_text(f, r),
	};
	return gm_array_push(&f->contexts, context);
}

static bool image_add(struct gm_figures *f, const struct gm_record *r)
{
	const struct gm_figures_image image = {
		.address = r->address,
		.may = r->id,
		.unknown = r->held,
		.device = r->device,
		.text = record_text(f, r),
	};
	return gm_array_push(&f->images, image);
}

/* The latest record of a heap replaces earlier ones. */
static bool heap_add(struct gm_figures *f, const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	const struct gm_figures_heap heap = {
		.live = r->address,
		.mapped = r->size,
		.nulls = r->held,
		.foreign_frees = r->id,
		.context = r->context,
		.device = r->device,
		.own = r->flags & GM_RECORD_OWN,
		.policy = record_text(f, r),
		.more = *entry->heap,
		.ended = r->flags & GM_RECORD_LAST,
	};
	for (size_t i = 0; i < f->heaps.n; i++) {
		struct gm_figures_heap *known = &f->heaps.at[i];
		if (known->more.heap != heap.more.heap || known->context != heap.context ||
		    known->device != heap.device || known->ended)
			continue;
		*known = heap;
		return true;
	}
	return gm_array_push(&f->heaps, heap);
}

static struct gm_figures_kernel *kernel_find(struct gm_figures_device *device, const char *name)
{
	if (device->kernels.n >= KERNELS_MOST)
		name = "";
	for (size_t i = 0; i < device->kernels.n; i++)
		if (!strcmp(device->kernels.at[i].name, name))
			return &device->kernels.at[i];
	return gm_array_push(&device->kernels, (struct gm_figures_kernel){.name = name})
		       ? &device->kernels.at[device->kernels.n - 1]
		       : NULL;
}

static bool growth_add(struct gm_figures *f, const struct gm_record *r)
{
	if (r->status || r->device >= f->n_devices)
		return true;
	struct gm_figures_kernel *kernel = kernel_find(&f->devices[r->device], record_text(f, r));
	if (!kernel)
		return false;
	kernel->growths++;
	kernel->bytes += r->size;
	return gm_array_push(&f->devices[r->device].growths, r->duration);
}

bool gm_figures_add_heap(struct gm_figures *f, const struct gm_log_entry *entry)
{
	const struct gm_record *r = &entry->record;
	switch (r->kind) {
	case GM_RECORD_TAKEOVER:
		return context_add(f, r);
	case GM_RECORD_MODULE:
		return image_add(f, r);
	case GM_RECORD_HEAP_SAMPLE:
		return heap_add(f, entry);
	case GM_RECORD_GROW:
		return growth_add(f, r);
	case GM_RECORD_SITE:
	case GM_RECORD_SITE_BLOCKS:
	case GM_RECORD_SITE_CALLS:
		return gm_figures_add_site(f, r);
	default:
		return true;
	}
}

void gm_figures_free_heap(struct gm_figures *f)
{
	for (unsigned d = 0; d < f->n_devices; d++) {
		gm_array_free(&f->devices[d].growths);
		gm_array_free(&f->devices[d].kernels);
	}
	gm_array_free(&f->contexts);
	gm_array_free(&f->images);
	gm_array_free(&f->heaps);
	gm_array_free(&f->sites);
	free(f->site_names);
}

static int kernel_compare(const void *a, const void *b)
{
	const struct gm_figures_kernel *x = a, *y = b;
	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
				    : strcmp(x->name, y->name);
}

void gm_figures_sort_kernels(struct gm_figures *f, unsigned d)
{
	struct gm_figures_device *device = &f->devices[d];
	if (device->kernels.n)
		qsort(device->kernels.at, device->kernels.n, sizeof *device->kernels.at,
		      kernel_compare);
}

static int duration_compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* From the counters: the bounds of the median's bin. */
static struct gm_figures_median growths_median_binned(const struct gm_figures *f, unsigned d,
						      uint64_t n)
{
	uint64_t most = GM_HEAP_GROWTH_LEAST, least = 0, sum = 0;
	for (unsigned bin = 0; bin < GM_HEAP_GROWTH_BINS - 1; bin++, least = most, most *= 4) {
		sum += gm_figures_device(f, d, GM_C_heap_growths_64us + bin);
		if (sum >= n - n / 2)
			return (struct gm_figures_median){least, most};
	}
	return (struct gm_figures_median){least, gm_figures_device(f, d, GM_C_heap_growth_longest)};
}

struct gm_figures_median gm_figures_growth(struct gm_figures *f, unsigned d)
{
	uint64_t n = gm_figures_device(f, d, GM_C_heap_growths);
	struct gm_figures_device *device = &f->devices[d];
	if (!n)
		return (struct gm_figures_median){0, 0};
	if (device->growths.n != n) /* the log lacks events of growths */
		return growths_median_binned(f, d, n);
	qsort(device->growths.at, n, sizeof *device->growths.at, duration_compare);
	uint64_t median = device->growths.at[n - n / 2 - 1];
	return (struct gm_figures_median){median, median};
}

uint64_t gm_figures_size(unsigned bin)
{
	if (bin == 0)
		return 16;
	return (uint64_t)(3 + (bin & 1)) << ((bin >> 1) + 3);
}
