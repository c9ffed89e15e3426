/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/command/archive.h"

#include <ar.h>
#include <stdint.h>
#include <string.h>

#define THIN "!<thin>\n" /* ar(1), T */

bool gm_archive_begins(const void *bytes, size_t size)
{
	return size >= SARMAG &&
	       (memcmp(bytes, ARMAG, SARMAG) == 0 || memcmp(bytes, THIN, SARMAG) == 0);
}

const char *gm_archive_open(struct gm_archive *archive, const void *bytes, size_t size)
{
	*archive = (struct gm_archive){.at = bytes, .size = size, .next = SARMAG};
	return memcmp(bytes, THIN, SARMAG) == 0 ? "a thin archive: name the files that it lists"
						: NULL;
}

/* A decimal number, padded with blanks. False: no number, or too large. */
static bool number_read(const char *text, size_t n, size_t *out)
{
	size_t i = 0, value = 0;
	for (; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
		if (value > (SIZE_MAX - 9) / 10)
			return false;
		value = value * 10 + (size_t)(text[i] - '0');
	}
	*out = value;
	for (size_t blank = i; blank < n; blank++)
		if (text[blank] != ' ')
			return false;
	return i > 0;
}

static size_t name_end(const char *name, size_t n, const char *ends)
{
	size_t i = 0;
	while (i < n && !memchr(ends, name[i], strlen(ends)))
		i++;
	return i;
}

/* "/17": a long name of GNU, at this offset of the table; each name there ends with "/\n". */
static bool name_find_long(const struct gm_archive *archive, const struct ar_hdr *head,
			   struct gm_archive_member *member)
{
	size_t at;
	if (!number_read(head->ar_name + 1, sizeof head->ar_name - 1, &at) || !archive->names ||
	    at >= archive->names_size)
		return false;
	member->name = archive->names + at;
	member->name_length = name_end(member->name, archive->names_size - at, "/\n");
	return true;
}

/* "#1/17": a long name of BSD, of 17 bytes, before the content. */
static bool name_find_inside(const struct ar_hdr *head, struct gm_archive_member *member)
{
	size_t n;
	if (!number_read(head->ar_name + 3, sizeof head->ar_name - 3, &n) || n > member->size)
		return false;
	member->name = member->at;
	member->name_length = strnlen(member->name, n);
	member->at = (const char *)member->at + n;
	member->size -= n;
	return true;
}

static bool name_is(const struct gm_archive_member *member, const char *name)
{
	return member->name_length >= strlen(name) && memcmp(member->name, name, strlen(name)) == 0;
}

/* pre: the content of the member is set. False: invalid name. */
static bool name_find(const struct gm_archive *archive, const struct ar_hdr *head,
		      struct gm_archive_member *member)
{
	if (head->ar_name[0] == '/' && head->ar_name[1] >= '0' && head->ar_name[1] <= '9')
		return name_find_long(archive, head, member);
	if (memcmp(head->ar_name, "#1/", 3) == 0)
		return name_find_inside(head, member);
	member->name = head->ar_name;
	member->name_length = head->ar_name[0] == '/'
				      ? name_end(head->ar_name, sizeof head->ar_name, " ")
				      : name_end(head->ar_name, sizeof head->ar_name, "/ ");
	return true;
}

bool gm_archive_next(struct gm_archive *archive, struct gm_archive_member *out, const char **why)
{
	while (archive->next < archive->size) {
		const struct ar_hdr *head = (const void *)(archive->at + archive->next);
		const size_t room = archive->size - archive->next;
		*why = "a damaged archive";
		if (room < sizeof *head ||
		    memcmp(head->ar_fmag, ARFMAG, sizeof head->ar_fmag) != 0 ||
		    !number_read(head->ar_size, sizeof head->ar_size, &out->size) ||
		    out->size > room - sizeof *head)
			return false;
		out->at = head + 1;
		archive->next += sizeof *head + out->size + (out->size & 1);
		if (!name_find(archive, head, out))
			return false;
		*why = NULL;
		if (name_is(out, "//")) {
			archive->names = out->at;
			archive->names_size = out->size;
		} else if (!name_is(out, "/") && !name_is(out, "__.SYMDEF")) {
			return true;
		}
	}
	return false;
}
