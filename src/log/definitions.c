/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "log/load.h"

bool gm_load_defines(uint8_t kind)
{
	return kind == GM_RECORD_STRING || kind == GM_RECORD_STACK || kind == GM_RECORD_OBJECT;
}

/* Memory for a thing: `head` bytes, then `body` bytes read from the record. NULL: memory is short;
 * *whole is false if the body is incomplete. */
static void *thing_make(const struct gm_load_segment *segment, uint32_t slot, size_t head,
			size_t body, bool *whole)
{
	char *at = calloc(1, head + body + 1);
	*whole = at && gm_load_body(segment, slot, at + head, body);
	return at;
}

/* *body: bytes of the body that the record names. False: no valid number, or a longer body than the
 * kind may have. */
static bool body_length(const struct gm_record *r, size_t *body)
{
	uint64_t most = r->kind == GM_RECORD_STRING  ? GM_STRING_MAX
			: r->kind == GM_RECORD_STACK ? GM_FRAMES_MOST
						     : GM_BUILD_ID_MOST;
	uint64_t n = r->kind == GM_RECORD_OBJECT ? r->held : r->size;
	*body = (size_t)n * (r->kind == GM_RECORD_STACK ? sizeof(struct gm_frame) : 1);
	return r->id && r->id <= UINT32_MAX && n <= most;
}

static void *thing_load(const struct gm_load_segment *segment, uint32_t slot, size_t body,
			bool *whole)
{
	const struct gm_record *r = &segment->slots[slot];
	if (r->kind == GM_RECORD_STACK) {
		struct gm_log_stack *stack = thing_make(segment, slot, sizeof *stack, body, whole);
		if (stack) {
			stack->n = (uint32_t)r->size;
			stack->flags = (uint32_t)r->held;
		}
		return stack;
	}
	if (r->kind == GM_RECORD_OBJECT) {
		struct gm_log_object *object =
			thing_make(segment, slot, sizeof *object, body, whole);
		if (object) {
			object->path = r->string;
			object->address = r->address;
			object->size = r->size;
			object->id_length = (uint32_t)r->held;
		}
		return object;
	}
	return thing_make(segment, slot, 0, body, whole);
}

bool gm_load_things_add(struct gm_log_file *file, const struct gm_load_segment *segment,
			uint32_t slot)
{
	const struct gm_record *r = &segment->slots[slot];
	gm_load_things *to = r->kind == GM_RECORD_STRING  ? &file->strings
			     : r->kind == GM_RECORD_STACK ? &file->stacks
							  : &file->objects;
	size_t body;
	bool whole;
	if (!body_length(r, &body)) {
		file->about.torn++;
		return true;
	}
	struct gm_load_thing thing = {(uint32_t)r->id, thing_load(segment, slot, body, &whole)};
	if (!thing.at)
		return false;
	file->about.torn += !whole;
	if (whole && gm_array_push(to, thing))
		return true;
	free(thing.at);
	return !whole;
}

bool gm_load_things_add_before(struct gm_log_file *file)
{
	struct gm_log_stack *stack = calloc(1, sizeof *stack + sizeof stack->frames[0]);
	const struct gm_load_thing thing = {GM_STACK_BEFORE, stack};
	if (!stack)
		return false;
	stack->n = 1;
	stack->frames[0].object = GM_FRAME_BEFORE;
	if (gm_array_push(&file->stacks, thing))
		return true;
	free(stack);
	return false;
}

static int thing_compare(const void *a, const void *b)
{
	const struct gm_load_thing *x = a, *y = b;
	return (x->number > y->number) - (x->number < y->number);
}

/* Each segment repeats the definitions that its records refer to. */
static void things_unique(gm_load_things *things)
{
	size_t to = 0;
	if (things->n)
		qsort(things->at, things->n, sizeof *things->at, thing_compare);
	for (size_t i = 0; i < things->n; i++) {
		if (to && things->at[to - 1].number == things->at[i].number)
			free(things->at[i].at);
		else
			things->at[to++] = things->at[i];
	}
	things->n = to;
}

void gm_load_things_unique(struct gm_log_file *file)
{
	things_unique(&file->strings);
	things_unique(&file->stacks);
	things_unique(&file->objects);
}

const void *gm_load_thing(const gm_load_things *things, uint32_t number)
{
	const struct gm_load_thing key = {.number = number};
	const struct gm_load_thing *found =
		things->n ? bsearch(&key, things->at, things->n, sizeof key, thing_compare) : NULL;
	return found ? found->at : NULL;
}

void gm_load_things_free(gm_load_things *things)
{
	for (size_t i = 0; i < things->n; i++)
		free(things->at[i].at);
	gm_array_free(things);
}
