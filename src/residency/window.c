/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/window.h"

#define HALF (GM_WINDOW / 2)

/* A piece of the contents, and its half of the window. */
struct piece {
	uint64_t begin, size;
	char *host;
};

static struct piece piece_of(const struct gm_move *move, uint64_t size, uint64_t i)
{
	uint64_t begin = i * HALF, rest = size - begin;
	return (struct piece){begin, rest < HALF ? rest : HALF,
			      move->window->bank->at + move->window->begin + i % 2 * HALF};
}

static uint64_t pieces_of(uint64_t size)
{
	return (size + HALF - 1) / HALF;
}

static void piece_begin(struct gm_move *move, struct gm_filed *filed, const struct piece *piece,
			bool write)
{
	gm_folder_begin(&move->folder, filed, piece->begin, piece->host, piece->size, write);
}

static bool piece_finish(struct gm_move *move)
{
	bool done = gm_folder_finish(&move->folder);
	if (!done)
		gm_move_refuse_folder(move);
	return done;
}

static bool pieces_out(struct gm_move *move, CUdeviceptr at, struct gm_filed *filed)
{
	bool good = true;
	for (uint64_t i = 0; i < pieces_of(filed->size) && good; i++) {
		struct piece piece = piece_of(move, filed->size, i);
		bool copied = gm_move_copy(move, false, piece.host, at + piece.begin, piece.size);
		good = (i == 0 || piece_finish(move)) && copied;
		if (good)
			piece_begin(move, filed, &piece, true);
	}
	return good && piece_finish(move);
}

struct gm_filed *gm_window_out(struct gm_move *move, CUdeviceptr at, uint64_t size)
{
	struct gm_filed *filed = gm_folder_take(&move->folder, size);
	if (!filed) {
		gm_move_refuse_folder(move);
		return NULL;
	}
	if (pieces_out(move, at, filed))
		return filed;
	gm_folder_give(&move->folder, filed);
	return NULL;
}

bool gm_window_in(struct gm_move *move, CUdeviceptr at, struct gm_filed *filed)
{
	uint64_t n = pieces_of(filed->size);
	struct piece piece = piece_of(move, filed->size, 0), next;
	bool good = true;
	piece_begin(move, filed, &piece, false);
	for (uint64_t i = 0; i < n && good; i++, piece = next) {
		good = piece_finish(move);
		if (good && i + 1 < n) {
			next = piece_of(move, filed->size, i + 1);
			piece_begin(move, filed, &next, false);
		}
		bool copied =
			good && gm_move_copy(move, true, piece.host, at + piece.begin, piece.size);
		if (good && !copied && i + 1 < n)
			gm_folder_finish(&move->folder);
		good = copied;
	}
	return good;
}
