/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs: R-MAT (Chakrabarti et al., 2004, with the shares of Graph500), a mesh of triangles, and
 * streets with their bends; files. And batches of edges. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/graph/dyngraph.h"

uint64_t graph_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a * UINT64_C(0x9e3779b97f4a7c15)) ^ (b + UINT64_C(0xd1b54a32d192ed03));
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* From 0 to below `n`. */
static uint32_t below(uint64_t random, uint32_t n)
{
	return (uint32_t)((random >> 32) * n >> 32);
}

/* Both directions. */
static void edge_put(struct pr_coordinates *c, uint64_t a, uint64_t b)
{
	c->row[c->entries] = c->column[c->entries + 1] = (uint32_t)a;
	c->column[c->entries] = c->row[c->entries + 1] = (uint32_t)b;
	c->entries += 2;
}

/* 16 edges a vertex; those that come twice, or lead back, are fewer edges. */
static bool rmat_make(struct pr_coordinates *c, uint64_t edges, char why[256])
{
	unsigned bits = 2;
	while (bits < 28 && UINT64_C(16) << bits < edges)
		bits++;
	c->rows = UINT64_C(1) << bits;
	if (!pr_coordinates_make(c, edges + 2, why))
		return false;
	for (uint64_t i = 0; i < edges / 2; i++) {
		uint64_t a = 0, b = 0;
		for (unsigned bit = 0; bit < bits; bit++) {
			uint32_t share = below(graph_mix(i, bit), 100);
			a = a * 2 + (share >= 76);				  /* 57 + 19 */
			b = b * 2 + ((share >= 57 && share < 76) || share >= 95); /* 19, 5 */
		}
		if (a != b)
			edge_put(c, a, b);
	}
	return true;
}

/* A square grid with one diagonal: six neighbours. */
static bool mesh_make(struct pr_coordinates *c, uint64_t edges, char why[256])
{
	uint64_t side = (uint64_t)sqrt((double)edges / 6);
	side = side < 2 ? 2 : side;
	c->rows = side * side;
	if (!pr_coordinates_make(c, 6 * c->rows, why))
		return false;
	for (uint64_t v = 0; v < c->rows; v++) {
		bool right = v % side + 1 < side, down = v + side < c->rows;
		if (right)
			edge_put(c, v, v + 1);
		if (down)
			edge_put(c, v, v + side);
		if (right && down)
			edge_put(c, v, v + side + 1);
	}
	return true;
}

/* Segments of the street from crossing `v` to the right (0) or down (1); 0: there is no street. */
static uint32_t street_segments(uint64_t v, uint64_t side, uint32_t way)
{
	uint64_t random = graph_mix(v, way);
	bool inside = way ? v + side < side * side : v % side + 1 < side;
	return inside && random % 10 < 7 ? 1 + below(random, 8) : 0;
}

/* A grid of crossings with 7 of 10 streets, each of up to 8 segments: 2.1 neighbours. */
static bool road_make(struct pr_coordinates *c, uint64_t edges, char why[256])
{
	uint64_t side = (uint64_t)sqrt((double)edges / 12.6), total = 0;
	side = side < 2 ? 2 : side;
	c->rows = side * side;
	for (uint64_t v = 0; v < side * side; v++)
		for (uint32_t way = 0; way < 2; way++) {
			uint32_t segments = street_segments(v, side, way);
			total += segments;
			c->rows += segments ? segments - 1 : 0;
		}
	if (!pr_coordinates_make(c, 2 * total, why))
		return false;
	uint64_t bend = side * side; /* the next one */
	for (uint64_t v = 0; v < side * side; v++)
		for (uint32_t way = 0; way < 2; way++) {
			uint32_t segments = street_segments(v, side, way);
			uint64_t from = v, end = way ? v + side : v + 1;
			for (uint32_t i = 1; i < segments; i++, from = bend++)
				edge_put(c, from, bend);
			if (segments)
				edge_put(c, from, end);
		}
	return true;
}

static const struct {
	const char *name;
	bool (*make)(struct pr_coordinates *c, uint64_t edges, char why[256]);
} kinds[] = {{"rmat", rmat_make}, {"mesh", mesh_make}, {"road", road_make}};

static bool coordinates_make(const char *name, uint64_t edges, struct pr_coordinates *c,
			     char why[256])
{
	*c = (struct pr_coordinates){0};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(name, kinds[i].name) == 0)
			return kinds[i].make(c, edges, why);
	if (pr_reader_knows(name))
		return pr_reader_read(name, c, why);
	snprintf(why, 256,
		 "%.160s: no such graph: rmat, mesh, road, *.mtx, *.gr and *.graph are possible",
		 name);
	errno = EINVAL;
	return false;
}

bool graph_make(const char *name, uint64_t edges, struct pr_rows *out, char why[256])
{
	struct pr_coordinates c;
	if (!coordinates_make(name, edges, &c, why))
		return false;
	bool made = pr_rows_make(&c, out, why);
	pr_coordinates_free(&c);
	return made;
}

void graph_batch(struct graph_edge *edge, uint32_t count, uint32_t vertices, uint32_t range,
		 uint32_t round)
{
	uint32_t first = (uint32_t)((uint64_t)round * range % vertices);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t random = graph_mix(i, UINT64_C(1) << 40 | round);
		uint64_t from = first + (uint64_t)below(random, range);
		edge[i].from = (uint32_t)(from % vertices);
		edge[i].to = below(graph_mix(random, round), vertices - 1);
		edge[i].to += edge[i].to >= edge[i].from;
	}
}
