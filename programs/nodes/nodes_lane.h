/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread does, on the GPU, and on the CPU for the simulated driver. */
#ifndef NODES_LANE_H
#define NODES_LANE_H

#include "programs/common/lane.h"
#include "programs/nodes/nodes.h"

/* --- memory --- */

PR_LANE void *node_take(struct nodes_work *w, enum nodes_way way, uint32_t bytes)
{
	void *at = 0;
	if (way == NODES_MALLOC) {
		at = malloc(bytes);
	} else {
		nodes_word from = pr_add(&w->used, bytes);
		at = from + bytes <= w->space_bytes ? w->space + from : 0;
	}
	pr_add(at ? &w->allocated : &w->lacking, 1);
	return at;
}

PR_LANE void node_give(enum nodes_way way, void *at)
{
	if (way == NODES_MALLOC)
		free(at);
}

/* --- a tree of nodes, with lists of edges --- */

/* Keys that come in order make no list of the tree. */
PR_LANE uint32_t tree_order(uint32_t key)
{
	return key * 0x9e3779b1u;
}

/* Volatile: other threads write nodes, at addresses that may have been freed and taken again. */
PR_LANE struct tree_node *tree_find(nodes_word at, uint32_t key)
{
	while (at) {
		const volatile struct tree_node *node = (const struct tree_node *)at;
		if (node->key == key)
			break;
		at = node->child[tree_order(node->key) < tree_order(key)];
	}
	return (struct tree_node *)at;
}

/* The node of that key; NULL: there is no memory. A thread that made one too late frees it. */
PR_LANE struct tree_node *tree_ensure(struct nodes_work *w, enum nodes_way way, uint32_t key)
{
	nodes_word *link = &w->root;
	struct tree_node *own = 0;
	for (;;) {
		nodes_word at = *(volatile nodes_word *)link;
		if (!at && !own) {
			own = (struct tree_node *)node_take(w, way, sizeof *own);
			if (!own)
				return 0;
			own->child[0] = own->child[1] = own->edges = 0;
			own->key = key;
			pr_fence();
		}
		if (!at)
			at = pr_cas(link, (nodes_word)0, (nodes_word)(uintptr_t)own);
		if (!at)
			return own;
		const volatile struct tree_node *node = (const struct tree_node *)at;
		uint32_t other = node->key;
		if (other == key)
			break;
		link = &((struct tree_node *)at)->child[tree_order(other) < tree_order(key)];
	}
	nodes_word found = *(volatile nodes_word *)link;
	if (own)
		node_give(way, own);
	return (struct tree_node *)found;
}

PR_LANE void lane_tree(struct nodes_work *w, enum nodes_way way, uint32_t i)
{
	struct tree_node *node = tree_ensure(w, way, w->from[i]);
	struct tree_edge *edge = node ? (struct tree_edge *)node_take(w, way, sizeof *edge) : 0;
	if (!edge)
		return;
	edge->to = w->to[i];
	edge->next = pr_exch(&node->edges, (nodes_word)(uintptr_t)edge);
}

PR_LANE void lane_edges(struct nodes_work *w, enum nodes_way way, uint32_t key)
{
	struct tree_node *node = tree_find(w->root, key);
	nodes_word sum = 0, found = 0;
	w->node[key] = (nodes_word)(uintptr_t)node;
	for (nodes_word at = node ? node->edges : 0, next; at; at = next) {
		struct tree_edge *edge = (struct tree_edge *)at;
		next = edge->next;
		sum += nodes_mix(key, edge->to);
		found++;
		node_give(way, edge);
	}
	pr_add(&w->checksum, sum);
	pr_add(&w->found, found);
}

PR_LANE void lane_free(struct nodes_work *w, enum nodes_way way, uint32_t key)
{
	if (w->node[key])
		node_give(way, (void *)w->node[key]);
}

/* --- a work queue --- */

/* Unless it has been put at this symbol, the state is put into queue `to`. */
PR_LANE void queue_put(struct nodes_work *w, enum nodes_way way, uint32_t to, uint32_t symbol,
		       uint32_t state)
{
	if (pr_exch32(&w->seen[state], symbol) == symbol)
		return;
	struct queue_item *item = (struct queue_item *)node_take(w, way, sizeof *item);
	if (!item)
		return;
	item->state = state;
	w->item[to][pr_add32(&w->count[to], 1u)] = (nodes_word)(uintptr_t)item;
	pr_add(&w->checksum, nodes_mix(state, symbol));
	pr_add(&w->found, 1);
}

/* Symbols count from 1. */
PR_LANE void lane_symbol(struct nodes_work *w, enum nodes_way way, uint32_t symbol, uint32_t i)
{
	uint32_t from = symbol % 2, to = 1 - from;
	if (i >= w->count[from])
		return;
	struct queue_item *item = (struct queue_item *)w->item[from][i];
	for (uint32_t j = 0; j < QUEUE_BRANCHES; j++)
		queue_put(w, way, to, symbol, queue_next(item->state, symbol, j, w->states));
	node_give(way, item);
}

PR_LANE void lane_drop(struct nodes_work *w, enum nodes_way way, uint32_t queue, uint32_t i)
{
	if (i < w->count[queue])
		node_give(way, (void *)w->item[queue][i]);
}

#endif
