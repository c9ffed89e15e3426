/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plans of programs/, executed on a device of host memory. Every cell knows its element and its
 * step. Streams run in a random order; between two barriers two streams may not use the same cell
 * if one of them writes it. The result equals that of one loop over all cells, bit by bit.
 * TEST_SEED=n repeats a run.
 */
#include "programs/ooc/cells.h"
#include "programs/ooc/plan.h"

#include <time.h>

#include "../tap.h"

#define PROBLEMS 2000
#define UNKNOWN (-1)
#define EVERY (-2) /* the first and the last cell are valid in every step */
#define NOBODY (-1)
#define SEVERAL (-2)

struct cell {
	float value;
	int64_t step;
	uint64_t element;
	int reader, writer; /* the stream, since the last barrier */
};

struct machine {
	const struct ooc_plan *plan;
	uint64_t cells[2]; /* of each array on the host; on the device */
	struct cell *memory[2][2];
	struct ooc_op *ops;
	size_t count, room;
	uint64_t computed;
	const char *wrong; /* the first rule that was broken */
};

enum { HOST, DEVICE };

static uint64_t state;

static uint64_t number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t between(uint64_t least, uint64_t most)
{
	return least + number() % (most - least + 1);
}

static void broken(struct machine *m, const char *rule)
{
	if (!m->wrong)
		m->wrong = rule;
}

/* --- memory --- */

static struct cell *cell_at(struct machine *m, int side, int array, uint64_t i)
{
	static struct cell nowhere;
	if (i < m->cells[side])
		return &m->memory[side][array][i];
	broken(m, "a cell outside of its array");
	return &nowhere;
}

static struct cell cell_read(struct machine *m, int side, int array, uint64_t i, unsigned stream)
{
	struct cell *c = cell_at(m, side, array, i);
	if (c->writer != NOBODY && c->writer != (int)stream)
		broken(m, "a stream reads what another one writes");
	c->reader = c->reader == NOBODY || c->reader == (int)stream ? (int)stream : SEVERAL;
	return *c;
}

static void cell_write(struct machine *m, int side, int array, uint64_t i, unsigned stream,
		       struct cell value)
{
	struct cell *c = cell_at(m, side, array, i);
	if ((c->writer != NOBODY && c->writer != (int)stream) ||
	    (c->reader != NOBODY && c->reader != (int)stream))
		broken(m, "a stream writes what another one uses");
	value.reader = c->reader;
	value.writer = (int)stream;
	*c = value;
}

/* With slots, a stream uses only its own slot. */
static uint64_t device_cell(struct machine *m, const struct ooc_op *op, uint64_t i)
{
	uint64_t slot = m->plan->slot;
	if (slot && i / slot != op->stream)
		broken(m, "a cell in the slot of another stream");
	return i;
}

/* --- operations --- */

static void run_copy(struct machine *m, const struct ooc_op *op)
{
	for (uint64_t i = 0; i < op->count; i++) {
		uint64_t at = device_cell(m, op, op->device + i);
		if (op->kind == OOC_TO_DEVICE) {
			cell_write(m, DEVICE, op->array, at, op->stream,
				   cell_read(m, HOST, op->array, op->host + i, op->stream));
			continue;
		}
		struct cell c = cell_read(m, DEVICE, op->array, at, op->stream);
		if (c.element != op->host + i)
			broken(m, "an element goes back to another place");
		cell_write(m, HOST, op->array, op->host + i, op->stream, c);
	}
}

static struct cell read_of_step(struct machine *m, const struct ooc_op *op, int array, uint64_t at,
				uint64_t element, uint64_t step)
{
	struct cell c = cell_read(m, DEVICE, array, device_cell(m, op, at), op->stream);
	if (c.element != element)
		broken(m, "a step reads another element");
	if (c.step != EVERY && c.step != (int64_t)step)
		broken(m, "a step reads a cell of another step");
	return c;
}

static void run_add(struct machine *m, const struct ooc_op *op)
{
	for (uint64_t i = 0; i < op->count; i++) {
		uint64_t at = op->device + i;
		struct cell a = read_of_step(m, op, 0, at, op->host + i, op->step - 1);
		struct cell b = read_of_step(m, op, 1, at, op->host + i, 0);
		ooc_add_cells(&a.value, &b.value, 0, 1, 0, 1);
		a.step = (int64_t)op->step;
		cell_write(m, DEVICE, 0, at, op->stream, a);
	}
}

static void run_heat(struct machine *m, const struct ooc_op *op)
{
	for (uint64_t i = 0; i < op->count; i++) {
		float in[3], out[3];
		struct cell c = {0};
		for (unsigned k = 0; k < 3; k++) {
			c = read_of_step(m, op, op->array, op->device + i + k - 1,
					 op->host + i + k - 1, op->step - 1);
			in[k] = c.value;
		}
		ooc_heat_cells(in, out, 1, 2, 0, 1);
		c.value = out[1];
		c.element = op->host + i;
		c.step = (int64_t)op->step;
		cell_write(m, DEVICE, !op->array, device_cell(m, op, op->device + i), op->stream,
			   c);
	}
}

static void run_op(struct machine *m, const struct ooc_op *op)
{
	if (op->stream >= m->plan->streams || op->count == 0)
		broken(m, "an operation without a stream or cells");
	if (op->kind != OOC_STEP)
		run_copy(m, op);
	else if (m->plan->stencil)
		run_heat(m, op);
	else
		run_add(m, op);
	m->computed += op->kind == OOC_STEP ? op->count : 0;
}

static void on_op(void *arg, const struct ooc_op *op)
{
	struct machine *m = arg;
	if (m->count == m->room) {
		m->room = m->room ? 2 * m->room : 64;
		m->ops = realloc(m->ops, m->room * sizeof *m->ops);
	}
	m->ops[m->count++] = *op;
}

/* Execute the issued operations: each time the next one of a random stream. */
static void on_barrier(void *arg)
{
	struct machine *m = arg;
	size_t next[64] = {0}, streams = m->plan->streams, done = 0;
	while (done < m->count) {
		size_t stream = number() % streams, *at = &next[stream];
		for (uint64_t run = between(1, 8); run > 0 && *at < m->count; ++*at)
			if (m->ops[*at].stream == stream) {
				run_op(m, &m->ops[*at]);
				done++;
				run--;
			}
	}
	m->count = 0;
	for (int side = HOST; side <= DEVICE; side++)
		for (int array = 0; array < 2; array++)
			for (uint64_t i = 0; i < m->cells[side]; i++) {
				struct cell *c = &m->memory[side][array][i];
				c->reader = c->writer = NOBODY;
			}
}

/* --- a problem --- */

static void fill(struct machine *m)
{
	for (int side = HOST; side <= DEVICE; side++)
		for (int array = 0; array < 2; array++) {
			struct cell *cells = calloc(m->cells[side] + 1, sizeof *cells);
			for (uint64_t i = 0; i < m->cells[side]; i++)
				cells[i] = (struct cell){.step = UNKNOWN,
							 .element = UINT64_MAX,
							 .reader = NOBODY,
							 .writer = NOBODY};
			m->memory[side][array] = cells;
		}
	uint64_t n = m->cells[HOST];
	for (uint64_t i = 0; i < n; i++)
		for (int array = 0; array < 2; array++) {
			struct cell *c = &m->memory[HOST][array][i];
			bool end = m->plan->stencil && (i == 0 || i == n - 1);
			c->value = (float)(number() % 1000) / 7;
			c->element = i;
			c->step = end ? EVERY : array == 0 || !m->plan->stencil ? 0 : UNKNOWN;
			if (end)
				c->value = (float)i;
		}
}

/* One loop over all cells, step by step; the result is in expected[plan->result]. */
static void expect(const struct machine *m, float *expected[2])
{
	uint64_t n = m->cells[HOST];
	for (int array = 0; array < 2; array++) {
		expected[array] = calloc(n, sizeof(float));
		for (uint64_t i = 0; i < n; i++)
			expected[array][i] = m->memory[HOST][array][i].value;
	}
	for (uint64_t step = 1; step <= m->plan->problem.steps; step++)
		if (m->plan->stencil)
			ooc_heat_cells(expected[(step - 1) % 2], expected[step % 2], 1, n - 1, 0,
				       1);
		else
			ooc_add_cells(expected[0], expected[1], 0, n, 0, 1);
}

static void compare(struct machine *m, float *expected[2])
{
	const struct ooc_plan *plan = m->plan;
	uint64_t n = m->cells[HOST], steps = plan->problem.steps;
	for (uint64_t i = 0; i < n; i++) {
		const struct cell *c = &m->memory[HOST][plan->result][i];
		if (memcmp(&c->value, &expected[plan->result][i], sizeof c->value) != 0)
			broken(m, "a result differs");
		if (c->element != i || (c->step != (int64_t)steps && c->step != EVERY))
			broken(m, "a result is of another step");
	}
	if (m->computed != steps * (plan->stencil ? (n > 2 ? n - 2 : 0) : n))
		broken(m, "a cell is computed twice, or never");
	if (plan->problem.mode == OOC_OUT_OF_CORE && plan->device_cells > plan->problem.room)
		broken(m, "more cells on the device than there is room");
}

/* The rule that the plan broke; NULL if none. */
static const char *carry_out(const struct ooc_plan *plan)
{
	struct machine m = {.plan = plan, .cells = {plan->problem.elements, plan->device_cells}};
	float *expected[2];
	fill(&m);
	expect(&m, expected);
	ooc_plan_issue(plan, &(struct ooc_issuer){on_op, on_barrier, &m});
	if (m.count)
		broken(&m, "no barrier at the end");
	compare(&m, expected);
	for (int array = 0; array < 2; array++) {
		free(expected[array]);
		free(m.memory[HOST][array]);
		free(m.memory[DEVICE][array]);
	}
	free(m.ops);
	return m.wrong;
}

/* --- tests --- */

typedef bool plan_function(struct ooc_plan *, const struct ooc_problem *, char *);

/* Must a plan exist? Some out-of-core problems beyond these have one, too. */
static bool has_plan(const struct ooc_problem *p, bool stencil)
{
	if (p->mode == OOC_IN_CORE)
		return true;
	if (p->mode == OOC_STREAMED)
		return stencil ? p->elements / (2 * p->streams) > p->steps
			       : p->elements >= p->streams;
	uint64_t each = p->room / p->streams;
	return stencil ? each >= p->elements || each >= 3 * p->steps + 6
		       : each > 0 && p->elements >= p->streams;
}

static struct ooc_problem any_problem(enum ooc_mode mode)
{
	struct ooc_problem p = {.mode = mode,
				.elements = between(1, number() % 2 ? 40 : 600),
				.steps = number() % 3 ? number() % 5 : number() % 30,
				.streams = between(1, 9)};
	p.room = between(0, number() % 2 ? 2 * p.elements : p.streams * (4 * p.steps + 10));
	return p;
}

static void random_problems(plan_function *plan_of, enum ooc_mode mode, const char *name)
{
	unsigned planned = 0, refused = 0, failed = 0, rounds = 0;
	for (unsigned i = 0; i < PROBLEMS; i++) {
		struct ooc_problem p = any_problem(mode);
		struct ooc_plan plan;
		char why[OOC_WHY] = "";
		bool stencil = plan_of == ooc_plan_stencil, made = plan_of(&plan, &p, why);
		const char *wrong = made ? carry_out(&plan) : *why ? NULL : "no reason";
		if (!wrong && made != has_plan(&p, stencil) && !(made && mode == OOC_OUT_OF_CORE))
			wrong = made ? "it is planned" : "it is refused";
		made ? planned++ : refused++;
		rounds += made && plan.rounds > 1;
		if (wrong && failed++ < 5)
			printf("# %" PRIu64 " elements, %" PRIu64 " steps, %" PRIu64
			       " streams, room %" PRIu64 ": %s %s\n",
			       p.elements, p.steps, p.streams, p.room, wrong, why);
	}
	TAP_IS(failed, 0, "%s: %u plans give the result of one loop", name, planned);
	TAP_OK(planned > PROBLEMS / 4, "%s: most problems have a plan, %u have none", name,
	       refused);
	if (mode == OOC_OUT_OF_CORE)
		TAP_OK(rounds > PROBLEMS / 10, "%s: %u need several rounds", name, rounds);
}

static const char *map_refused(struct ooc_problem p)
{
	static char why[OOC_WHY];
	struct ooc_plan plan;
	return ooc_plan_map(&plan, &p, why) ? "planned" : why;
}

static const char *stencil_refused(struct ooc_problem p)
{
	static char why[OOC_WHY];
	struct ooc_plan plan;
	return ooc_plan_stencil(&plan, &p, why) ? "planned" : why;
}

static void test_refusals(void)
{
	TAP_STR(map_refused((struct ooc_problem){OOC_STREAMED, 0, 1, 1, 0}),
		"0 elements: 1 to 4398046511104 are possible",
		"a problem of 0 elements is refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_STREAMED, OOC_ELEMENTS_MAX + 1, 1, 1, 0}),
		"4398046511105 elements: 1 to 4398046511104 are possible",
		"a problem of too many elements is refused");
	TAP_STR(stencil_refused((struct ooc_problem){OOC_STREAMED, 9, OOC_STEPS_MAX + 1, 1, 0}),
		"2147483649 steps: 0 to 2147483648 are possible",
		"a problem of too many steps is refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_STREAMED, 9, 1, 0, 0}),
		"0 streams: 1 to 1024 are possible", "a problem without streams is refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_OUT_OF_CORE, 9999, 1, 1025, 9999}),
		"1025 streams: 1 to 1024 are possible", "a problem of too many streams is refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_STREAMED, 5, 1, 8, 0}),
		"5 elements are too few for 8 streams", "fewer elements than streams are refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_OUT_OF_CORE, 100, 1, 8, 7}),
		"a room of 7 elements is too small for 8 streams",
		"a room below the streams is refused");
	TAP_STR(map_refused((struct ooc_problem){OOC_OUT_OF_CORE, 1 << 24, 1, 1, 1}),
		"16777216 tiles are too many: give more room",
		"a tile for each element is refused");
	TAP_STR(stencil_refused((struct ooc_problem){OOC_STREAMED, 1000, 64, 128, 0}),
		"256 tiles of 1000 elements have 3 each; 64 steps need more than that: "
		"use fewer streams or steps",
		"tiles that are too short are refused");
	TAP_STR(stencil_refused((struct ooc_problem){OOC_OUT_OF_CORE, 100000, 64, 8, 1000}),
		"a room of 1000 elements gives each of 8 streams 125; 64 steps need at least 198",
		"slots that are too short are refused");
	TAP_STR(stencil_refused((struct ooc_problem){OOC_OUT_OF_CORE, 1 << 24, 0, 1, 6}),
		"4194304 tiles are too many: give more room",
		"a stencil of too many tiles is refused");
}

static void test_shapes(void)
{
	struct ooc_plan plan;
	char why[OOC_WHY];
	struct ooc_problem p = {OOC_STREAMED, 1280000000, 3883, 128, 0};
	TAP_OK(ooc_plan_stencil(&plan, &p, why), "the thesis' stencil is streamed");
	TAP_OK(plan.tiles == 256 && plan.rounds == 1 && plan.sweeps == 2 && plan.result == 1 &&
		       plan.device_cells == p.elements,
	       "the streamed stencil has two tiles a stream, two sweeps, all cells");
	p = (struct ooc_problem){OOC_OUT_OF_CORE, 6336000000, 3883, 8, 1300000000};
	TAP_OK(ooc_plan_stencil(&plan, &p, why), "the thesis' stencil goes through 11 GB");
	TAP_OK(plan.tiles == 48 && plan.rounds == 3 && plan.slot == 132000000 + 3883 + 2,
	       "the thesis' stencil has three rounds of eight tiles, with halos");
	TAP_OK(ooc_plan_map(&plan, &p, why), "the thesis' vector addition goes through 11 GB");
	TAP_OK(plan.tiles == 40 && plan.rounds == 5 && plan.slot == 158400000 && plan.sweeps == 1,
	       "the thesis' vector addition has five rounds of eight tiles of the same length");
}

int main(void)
{
	const char *seed = getenv("TEST_SEED");
	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("# TEST_SEED=%" PRIu64 "\n", state);
	state = state * 2 + 1;
	static const char *const modes[] = {"in-core", "streamed", "out-of-core"};
	for (int mode = OOC_IN_CORE; mode <= OOC_OUT_OF_CORE; mode++) {
		char name[64];
		snprintf(name, sizeof name, "vector addition, %s", modes[mode]);
		random_problems(ooc_plan_map, (enum ooc_mode)mode, name);
		snprintf(name, sizeof name, "stencil, %s", modes[mode]);
		random_problems(ooc_plan_stencil, (enum ooc_mode)mode, name);
	}
	test_refusals();
	test_shapes();
	return tap_done();
}
