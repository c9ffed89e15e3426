/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows that are products: each form of a call with each odd argument. A row that a driver might
 * accept and execute is last in its table.
 */
#include "odd.h"

#define ROWS(table) (sizeof(table) / sizeof *(table))

/* The place of a call's odd address. */
enum place { BLOCK, BIG, FREED, NOTHING, HOST, PINNED, MANAGED };

static CUdeviceptr place_address(struct odd *o, enum place place)
{
	switch (place) {
	case BLOCK:
		return o->block;
	case BIG:
		return o->big;
	case FREED:
		return odd_freed(1000);
	case HOST:
		return (CUdeviceptr)(uintptr_t)o->host;
	case PINNED:
		return (CUdeviceptr)(uintptr_t)o->pinned;
	case MANAGED:
		return o->managed;
	default:
		return 0;
	}
}

static void table_begin(struct odd *o, const char *form, const char *which)
{
	char name[160];
	snprintf(name, sizeof name, "%s, %s", form, which);
	odd_begin(o, name);
}

/* --- linear copies: the other end is always valid --- */

#define COPY(name, call)                                               \
	static CUresult name(struct odd *o, CUdeviceptr odd, size_t n) \
	{                                                              \
		return call;                                           \
	}
COPY(to_device, cuMemcpyHtoD(odd, o->host, n))
COPY(to_host, cuMemcpyDtoH(o->host, odd, n))
COPY(within_to, cuMemcpyDtoD(odd, o->big, n))
COPY(within_from, cuMemcpyDtoD(o->big, odd, n))
COPY(any_to, cuMemcpy(odd, o->big, n))
COPY(any_from, cuMemcpy(o->big, odd, n))
COPY(peer_to, cuMemcpyPeer(odd, o->context, o->big, o->context, n))
COPY(peer_from, cuMemcpyPeer(o->big, o->context, odd, o->context, n))
COPY(to_device_async, cuMemcpyHtoDAsync(odd, o->pinned, n, o->stream))
COPY(to_host_async, cuMemcpyDtoHAsync(o->pinned, odd, n, o->stream))
COPY(within_to_async, cuMemcpyDtoDAsync(odd, o->big, n, o->stream))
COPY(within_from_async, cuMemcpyDtoDAsync(o->big, odd, n, o->stream))
COPY(any_to_async, cuMemcpyAsync(odd, o->big, n, o->stream))
COPY(any_from_async, cuMemcpyAsync(o->big, odd, n, o->stream))

static const struct copy {
	const char *name;
	CUresult (*call)(struct odd *o, CUdeviceptr odd, size_t n);
} copies[] = {
	{"HtoD", to_device},
	{"DtoH", to_host},
	{"DtoD to", within_to},
	{"DtoD from", within_from},
	{"Peer to", peer_to},
	{"Peer from", peer_from},
	{"HtoDAsync", to_device_async},
	{"DtoHAsync", to_host_async},
	{"DtoDAsync to", within_to_async},
	{"DtoDAsync from", within_from_async},
};

/* Unified addresses: an address that no device has is taken for the host's. */
static const struct copy unified[] = {
	{"any to", any_to},
	{"any from", any_from},
	{"any Async to", any_to_async},
	{"any Async from", any_from_async},
};

static const struct {
	const char *name;
	enum place place;
	size_t offset, size;
} spans[] = {
	{"nothing", BLOCK, 0, 0},
	{"nothing at the end", BLOCK, 1000, 0},
	{"nothing past the end", BLOCK, 1001, 0},
	{"nothing of a freed block", FREED, 0, 0},
	{"nothing at NULL", NOTHING, 0, 0},
	{"all", BLOCK, 0, 1000},
	{"the last byte", BLOCK, 999, 1},
	{"all and a byte", BLOCK, 0, 1001},
#define UNIFIED_SPANS 8 /* the driver takes the others for host addresses, and crashes */
	{"a byte past the end", BLOCK, 1000, 1},
	{"across the end", BLOCK, 993, 8},
	{"a freed block", FREED, 0, 8},
	{"inside a freed block", FREED, 500, 8},
	{"NULL", NOTHING, 0, 8},
	{"managed memory across the end", MANAGED, 993, 8},
	{"half of SIZE_MAX bytes", BLOCK, 0, SIZE_MAX / 2},
};

static void copies_made(struct odd *o, const struct copy *copy, size_t n, size_t n_spans)
{
	for (size_t s = 0; s < n_spans; s++)
		for (size_t c = 0; c < n; c++) {
			CUdeviceptr at = place_address(o, spans[s].place) + spans[s].offset;
			table_begin(o, copy[c].name, spans[s].name);
			SAY(copy[c].call(o, at, spans[s].size));
			SAY(cuStreamSynchronize(o->stream));
			odd_end(o);
		}
}

void odd_copies(struct odd *o)
{
	copies_made(o, copies, ROWS(copies), ROWS(spans));
}

void odd_unified(struct odd *o)
{
	copies_made(o, unified, ROWS(unified), UNIFIED_SPANS);
}

/* --- rows and boxes, from the host to an odd address --- */

struct shape {
	const char *name;
	enum place place;
	size_t width, height, pitch, x, y;
	CUmemorytype type; /* of the memory at the odd address */
	size_t depth, rows, z;
};

static CUDA_MEMCPY2D shape_rows(struct odd *o, const struct shape *s)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = o->host,
		.srcPitch = 100,
		.dstMemoryType = s->type,
		.dstDevice = place_address(o, s->place),
		.dstPitch = s->pitch,
		.dstXInBytes = s->x,
		.dstY = s->y,
		.WidthInBytes = s->width,
		.Height = s->height,
	};
	return copy;
}

static CUDA_MEMCPY3D shape_box(struct odd *o, const struct shape *s)
{
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = o->host,
		.srcPitch = 100,
		.srcHeight = s->rows,
		.dstMemoryType = s->type,
		.dstDevice = place_address(o, s->place),
		.dstPitch = s->pitch,
		.dstHeight = s->rows,
		.dstXInBytes = s->x,
		.dstY = s->y,
		.dstZ = s->z,
		.WidthInBytes = s->width,
		.Height = s->height,
		.Depth = s->depth,
	};
	return copy;
}

#define SHAPE(name, call)                                          \
	static CUresult name(struct odd *o, const struct shape *s) \
	{                                                          \
		const CUDA_MEMCPY2D rows = shape_rows(o, s);       \
		const CUDA_MEMCPY3D box = shape_box(o, s);         \
		(void)rows, (void)box;                             \
		return call;                                       \
	}
SHAPE(rows_sync, cuMemcpy2D(&rows))
SHAPE(rows_unaligned, cuMemcpy2DUnaligned(&rows))
SHAPE(rows_async, cuMemcpy2DAsync(&rows, o->stream))
SHAPE(box_sync, cuMemcpy3D(&box))
SHAPE(box_async, cuMemcpy3DAsync(&box, o->stream))

static const struct {
	const char *name;
	CUresult (*call)(struct odd *o, const struct shape *s);
	bool solid;
} forms[] = {
	{"2D", rows_sync, false},	{"2DUnaligned", rows_unaligned, false},
	{"2DAsync", rows_async, false}, {"3D", box_sync, true},
	{"3DAsync", box_async, true},
};

#define DEVICE CU_MEMORYTYPE_DEVICE
static const struct shape shapes[] = {
	{"all", BLOCK, 100, 10, 100, 0, 0, DEVICE, 1, 10, 0},
	{"a row too many", BLOCK, 100, 11, 100, 0, 0, DEVICE, 1, 11, 0},
	{"a byte to the right", BLOCK, 100, 10, 100, 1, 0, DEVICE, 1, 10, 0},
	{"a row further", BLOCK, 100, 10, 100, 0, 1, DEVICE, 1, 11, 0},
	{"far to the right", BLOCK, 100, 10, 100, (size_t)1 << 62, 0, DEVICE, 1, 10, 0},
	{"far down", BLOCK, 100, 10, 100, 0, (size_t)1 << 57, DEVICE, 1, 10, 0},
	{"0 bytes wide", BLOCK, 0, 10, 100, 0, 0, DEVICE, 1, 10, 0},
	{"0 rows", BLOCK, 100, 0, 100, 0, 0, DEVICE, 1, 10, 0},
	{"wider than the pitch", BLOCK, 100, 2, 50, 0, 0, DEVICE, 1, 2, 0},
	{"one row wider than the pitch", BLOCK, 100, 1, 50, 0, 0, DEVICE, 1, 1, 0},
	{"2 rows, no pitch", BLOCK, 100, 2, 0, 0, 0, DEVICE, 1, 2, 0},
	{"one row, no pitch", BLOCK, 100, 1, 0, 0, 0, DEVICE, 1, 1, 0},
	{"a freed block", FREED, 100, 2, 100, 0, 0, DEVICE, 1, 2, 0},
	{"nothing of a freed block", FREED, 0, 2, 100, 0, 0, DEVICE, 1, 2, 0},
	{"NULL", NOTHING, 100, 2, 100, 0, 0, DEVICE, 1, 2, 0},
	{"no type of memory", BLOCK, 100, 2, 100, 0, 0, (CUmemorytype)0, 1, 2, 0},
	{"an unknown type of memory", BLOCK, 100, 2, 100, 0, 0, (CUmemorytype)9, 1, 2, 0},
	{"of any type", BLOCK, 100, 10, 100, 0, 0, CU_MEMORYTYPE_UNIFIED, 1, 10, 0},
	{"of any type, a row too many", BLOCK, 100, 11, 100, 0, 0, CU_MEMORYTYPE_UNIFIED, 1, 11, 0},
	{"no layer", BLOCK, 100, 2, 100, 0, 0, DEVICE, 0, 2, 0},
	{"two layers", BLOCK, 100, 5, 100, 0, 0, DEVICE, 2, 5, 0},
	{"a layer too many", BLOCK, 100, 5, 100, 0, 0, DEVICE, 3, 5, 0},
	{"a layer further", BLOCK, 100, 5, 100, 0, 0, DEVICE, 2, 5, 1},
	{"a pitch of half of SIZE_MAX", BLOCK, 100, 2, SIZE_MAX / 2, 0, 0, DEVICE, 1, 2, 0},
	{"2^57 rows", BLOCK, 100, (size_t)1 << 57, 100, 0, 0, DEVICE, 1, (size_t)1 << 57, 0},
};

static bool shape_is_flat(const struct shape *s)
{
	return s->depth == 1 && !s->z;
}

void odd_boxes(struct odd *o)
{
	for (size_t s = 0; s < ROWS(shapes); s++)
		for (size_t f = 0; f < ROWS(forms); f++) {
			if (!forms[f].solid && !shape_is_flat(&shapes[s]))
				continue;
			table_begin(o, forms[f].name, shapes[s].name);
			SAY(forms[f].call(o, &shapes[s]));
			SAY(cuStreamSynchronize(o->stream));
			odd_end(o);
		}
}

/* --- memsets: widths in elements, pitch in bytes --- */

struct fill {
	const char *name;
	enum place place;
	size_t offset, bytes; /* offset of the line; bytes of a row */
	size_t rows, pitch;   /* rows 0: a line */
};

#define LINES(bits)                                                                              \
	static CUresult line_##bits(struct odd *o, CUdeviceptr at, const struct fill *f)         \
	{                                                                                        \
		(void)o;                                                                         \
		return cuMemsetD##bits(at, 1, f->bytes / (bits / 8));                            \
	}                                                                                        \
	static CUresult line_##bits##_async(struct odd *o, CUdeviceptr at, const struct fill *f) \
	{                                                                                        \
		return cuMemsetD##bits##Async(at, 1, f->bytes / (bits / 8), o->stream);          \
	}                                                                                        \
	static CUresult rows_##bits(struct odd *o, CUdeviceptr at, const struct fill *f)         \
	{                                                                                        \
		(void)o;                                                                         \
		return cuMemsetD2D##bits(at, f->pitch, 1, f->bytes / (bits / 8), f->rows);       \
	}                                                                                        \
	static CUresult rows_##bits##_async(struct odd *o, CUdeviceptr at, const struct fill *f) \
	{                                                                                        \
		return cuMemsetD2D##bits##Async(at, f->pitch, 1, f->bytes / (bits / 8), f->rows, \
						o->stream);                                      \
	}
LINES(8)
LINES(16)
LINES(32)

typedef CUresult fill_call(struct odd *o, CUdeviceptr at, const struct fill *f);

static const struct {
	const char *name;
	fill_call *line, *rows;
} fills[] = {
	{"D8", line_8, rows_8},
	{"D16", line_16, rows_16},
	{"D32", line_32, rows_32},
	{"D8Async", line_8_async, rows_8_async},
	{"D16Async", line_16_async, rows_16_async},
	{"D32Async", line_32_async, rows_32_async},
};

static const struct fill lines[] = {
	{"nothing", BLOCK, 0, 0, 0, 0},
	{"nothing at an odd address", BLOCK, 1, 0, 0, 0},
	{"nothing past the end", BLOCK, 1001, 0, 0, 0},
	{"nothing of a freed block", FREED, 0, 0, 0, 0},
	{"nothing at NULL", NOTHING, 0, 0, 0, 0},
	{"all", BLOCK, 0, 1000, 0, 0},
	{"all and an element", BLOCK, 0, 1004, 0, 0},
	{"at address 1", BLOCK, 1, 8, 0, 0},
	{"at address 2", BLOCK, 2, 8, 0, 0},
	{"past the end", BLOCK, 1000, 4, 0, 0},
	{"a freed block", FREED, 0, 8, 0, 0},
	{"NULL", NOTHING, 0, 8, 0, 0},
	{"pinned memory", PINNED, 0, 8, 0, 0},
	{"managed memory past the end", MANAGED, 1000, 4, 0, 0},
	{"half of SIZE_MAX bytes", BLOCK, 0, SIZE_MAX / 2, 0, 0},
};

static const struct fill squares[] = {
	{"rows", BLOCK, 0, 100, 10, 100},
	{"a row too many", BLOCK, 0, 100, 11, 100},
	{"0 bytes wide", BLOCK, 0, 0, 10, 100},
	{"rows wider than the pitch", BLOCK, 0, 100, 2, 48},
	{"one row wider than the pitch", BLOCK, 0, 100, 1, 48},
	{"rows, no pitch", BLOCK, 0, 100, 2, 0},
	{"rows, an odd pitch", BLOCK, 0, 8, 2, 9},
	{"one row, an odd pitch", BLOCK, 0, 8, 1, 9},
	{"rows at an odd address", BLOCK, 1, 8, 2, 100},
	{"rows of a freed block", FREED, 0, 8, 2, 100},
	{"rows at NULL", NOTHING, 0, 8, 2, 100},
	{"rows far apart", BLOCK, 0, 8, 2, (size_t)1 << 62},
	{"2^57 rows", BLOCK, 0, 100, (size_t)1 << 57, 100},
};

static void fill_row(struct odd *o, const char *form, fill_call *call, const struct fill *f)
{
	CUdeviceptr at = place_address(o, f->place) + f->offset;
	table_begin(o, form, f->name);
	SAY(call(o, at, f));
	SAY(cuStreamSynchronize(o->stream));
	odd_end(o);
}

void odd_fills(struct odd *o)
{
	for (size_t l = 0; l < ROWS(lines); l++)
		for (size_t f = 0; f < ROWS(fills); f++)
			fill_row(o, fills[f].name, fills[f].line, &lines[l]);
	for (size_t s = 0; s < ROWS(squares); s++)
		for (size_t f = 0; f < ROWS(fills); f++)
			fill_row(o, fills[f].name, fills[f].rows, &squares[s]);
}

/* --- attributes of pointers: the result, and whether the output was written --- */

#define ATTRIBUTE(name)                            \
	{                                          \
#name, CU_POINTER_ATTRIBUTE_##name \
	}
static const struct {
	const char *name;
	CUpointer_attribute attribute;
} attributes[] = {
	ATTRIBUTE(CONTEXT),
	ATTRIBUTE(MEMORY_TYPE),
	ATTRIBUTE(DEVICE_POINTER),
	ATTRIBUTE(HOST_POINTER),
	ATTRIBUTE(SYNC_MEMOPS),
	ATTRIBUTE(BUFFER_ID),
	ATTRIBUTE(IS_MANAGED),
	ATTRIBUTE(DEVICE_ORDINAL),
	ATTRIBUTE(IS_LEGACY_CUDA_IPC_CAPABLE),
	ATTRIBUTE(RANGE_START_ADDR),
	ATTRIBUTE(RANGE_SIZE),
	ATTRIBUTE(MAPPED),
	ATTRIBUTE(ALLOWED_HANDLE_TYPES),
	ATTRIBUTE(ACCESS_FLAGS),
	ATTRIBUTE(MEMPOOL_HANDLE),
	{"MAPPING_SIZE", (CUpointer_attribute)18},
	{"MAPPING_BASE_ADDR", (CUpointer_attribute)19},
	{"attribute 0", (CUpointer_attribute)0},
	{"attribute -1", (CUpointer_attribute)-1},
	{"attribute 999", (CUpointer_attribute)999},
};

static const struct {
	const char *name;
	enum place place;
	size_t offset;
} places[] = {
	{"first byte", BLOCK, 0},
	{"last byte", BLOCK, 999},
	{"past the end", BLOCK, 1000},
	{"second 2 MiB", BIG, 2 * MIB},
	{"past the end of 3 MiB", BIG, 3 * MIB + 100},
	{"freed", FREED, 0},
	{"inside of what was freed", FREED, 512},
	{"NULL", NOTHING, 0},
	{"the host's", HOST, 0},
};

void odd_attributes(struct odd *o)
{
	for (size_t p = 0; p < ROWS(places); p++)
		for (size_t a = 0; a < ROWS(attributes); a++) {
			CUdeviceptr at = place_address(o, places[p].place) + places[p].offset;
			uint64_t before = 0x5a5a5a5a5a5a5a5a, after = before;
			table_begin(o, attributes[a].name, places[p].name);
			SAY(cuPointerGetAttribute(&after, attributes[a].attribute, at));
			TELL("%d", after != before);
			odd_end(o);
		}
}
