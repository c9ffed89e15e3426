/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rules about one log measure; gpumemstat(1), FINDINGS, has each formula. */
#include <string.h>

#include "base/size.h"
#include "churn.h"
#include "findings.h"

/* Less than this, on average, is not worth a word: a pool has at least a chunk of 32 MiB. */
#define FEW (64 * GM_MIB)
#define MUCH (256 * GM_MIB)

#define SUM(name) gm_figures_sum(f, GM_C_##name)
#define C(name) gm_figures_device(f, d, GM_C_##name)

static bool count(struct gm_finding *out, uint64_t value)
{
	out->value = GM_COUNT(value);
	return true;
}

/* --- out of memory: the first refusal has one cause --- */

enum cause { NONE, SIZE, FRAGMENTED, LIMIT, OTHERS, IN_USE };

/* What of the device is neither free nor of this process, which had `foreign` beside the pool at
 * its most. */
static uint64_t others(const struct gm_sample *s, uint64_t foreign)
{
	uint64_t known = s->mapped + s->lent + s->device_free + foreign;
	return s->device_total > known ? s->device_total - known : 0;
}

/* Of the device of the first refusal. */
static uint64_t foreign_of(const struct gm_figures *f)
{
	return gm_figures_device(f, f->refusals.at[0].device, GM_C_foreign_peak);
}

static enum cause cause(const struct gm_figures *f)
{
	if (!f->refusals.n)
		return NONE;
	const struct gm_figures_refusal *first = &f->refusals.at[0];
	const struct gm_sample *s = &first->sample;
	if (s->device_total && first->asked > s->device_total)
		return SIZE;
	if (s->idle >= first->asked)
		return FRAGMENTED;
	if (s->limit && s->device_total > s->limit && s->mapped + first->asked > s->limit)
		return LIMIT;
	return others(s, foreign_of(f)) > s->mapped ? OTHERS : IN_USE;
}

/* The first refusal, if it has this cause. */
static const struct gm_figures_refusal *refusal(const struct gm_figures *f, enum cause is,
						struct gm_finding *out)
{
	if (cause(f) != is)
		return NULL;
	out->device = f->refusals.at[0].device;
	out->other = GM_BYTES(f->refusals.at[0].asked);
	return &f->refusals.at[0];
}

bool gm_rule_oom_size(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal(f, SIZE, out);
	if (!r)
		return false;
	out->value = GM_BYTES(r->asked);
	out->of = GM_BYTES(r->sample.device_total);
	return true;
}

bool gm_rule_oom_fragmented(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal(f, FRAGMENTED, out);
	if (!r)
		return false;
	out->value = GM_BYTES(r->sample.idle);
	out->of = GM_BYTES(r->asked);
	return true;
}

bool gm_rule_oom_limit(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal(f, LIMIT, out);
	if (!r)
		return false;
	out->value = GM_BYTES(r->sample.mapped + r->asked);
	out->of = GM_BYTES(r->sample.limit);
	return true;
}

bool gm_rule_oom_others(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal(f, OTHERS, out);
	if (!r)
		return false;
	out->value = GM_BYTES(others(&r->sample, foreign_of(f)));
	out->of = GM_BYTES(r->sample.mapped);
	return true;
}

bool gm_rule_oom_in_use(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal(f, IN_USE, out);
	if (!r)
		return false;
	out->of = out->other;
	out->other = GM_BYTES(r->sample.handed_out);
	return count(out, f->refusals.n);
}

bool gm_rule_refused(struct gm_figures *f, struct gm_finding *out)
{
	return !f->refusals.n && count(out, SUM(allocate_failed));
}

/* --- what went wrong --- */

bool gm_rule_bounds(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, gm_figures_process(f, GM_C_bounds_refused));
}

bool gm_rule_bad_free(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, SUM(free_failed));
}

bool gm_rule_killed(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, !f->about->closed && !f->about->running);
}

bool gm_rule_records_missing(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, f->about->dropped);
}

bool gm_rule_to_driver(struct gm_figures *f, struct gm_finding *out)
{
	out->of = GM_COUNT(SUM(allocate_calls));
	return strcmp(f->about->mode, "pool") == 0 && count(out, SUM(allocate_driver));
}

bool gm_rule_retries(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, SUM(retry_calls));
}

bool gm_rule_never_freed(struct gm_figures *f, struct gm_finding *out)
{
	out->other = GM_BYTES(SUM(requested));
	return f->about->closed && count(out, SUM(live_blocks));
}

/* --- of a device: the one with the highest share --- */

/* Measure one device; false: nothing to say about it. */
typedef bool of_device(const struct gm_figures *f, unsigned d, struct gm_finding *out);

static bool worst(const struct gm_figures *f, of_device *measure, struct gm_finding *out)
{
	bool found = false;
	for (unsigned d = 0; d < f->n_devices; d++) {
		struct gm_finding one = {.rule = out->rule, .device = d};
		if (!measure(f, d, &one))
			continue;
		if (!found || (unsigned __int128)one.value.n * out->of.n >
				      (unsigned __int128)out->value.n * one.of.n)
			*out = one;
		found = true;
	}
	return found;
}

/* Means over the time that samples cover. */
struct means {
	uint64_t requested, internal, mapped, unreclaimable, idle, remap_ppm;
};

static bool means(const struct gm_figures *f, unsigned d, struct means *out)
{
	const uint64_t ns = C(sampled_ns);
	if (!ns)
		return false;
#define MEAN(name) ((uint64_t)((unsigned __int128)C(name##_seconds) * 1000000000u / ns))
	*out = (struct means){.requested = MEAN(requested),
			      .internal = MEAN(internal),
			      .mapped = MEAN(mapped),
			      .unreclaimable = MEAN(unreclaimable),
			      .remap_ppm = MEAN(external_remap)};
#undef MEAN
	const uint64_t used = out->requested + out->internal;
	out->idle = out->mapped > used ? out->mapped - used : 0;
	return true;
}

static bool unreclaimable(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!means(f, d, &m) || m.unreclaimable < FEW)
		return false;
	out->value = GM_BYTES(m.unreclaimable);
	out->of = GM_BYTES(m.mapped);
	return true;
}

bool gm_rule_unreclaimable(struct gm_figures *f, struct gm_finding *out)
{
	return worst(f, unreclaimable, out);
}

static bool in_pieces(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!means(f, d, &m) || m.idle < FEW || m.idle < m.mapped / 10)
		return false;
	out->value = GM_PPM(m.remap_ppm);
	out->of = GM_PPM(1000000);
	out->other = GM_BYTES(m.idle);
	return true;
}

bool gm_rule_in_pieces(struct gm_figures *f, struct gm_finding *out)
{
	return worst(f, in_pieces, out);
}

static bool internal(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!means(f, d, &m) || m.internal < FEW)
		return false;
	out->value = GM_BYTES(m.internal);
	out->of = GM_BYTES(m.requested + m.internal);
	return true;
}

bool gm_rule_internal(struct gm_figures *f, struct gm_finding *out)
{
	return worst(f, internal, out);
}

static bool kept_idle(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!means(f, d, &m) || m.idle < MUCH)
		return false;
	out->value = GM_BYTES(m.idle);
	out->of = GM_BYTES(m.mapped);
	return true;
}

bool gm_rule_kept_idle(struct gm_figures *f, struct gm_finding *out)
{
	return worst(f, kept_idle, out);
}

static bool foreign(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	out->value = GM_BYTES(C(foreign_peak));
	out->of = GM_BYTES(C(foreign_peak) + C(mapped_peak));
	return C(foreign_peak) >= FEW;
}

bool gm_rule_foreign(struct gm_figures *f, struct gm_finding *out)
{
	return strcmp(f->about->mode, "pool") == 0 && worst(f, foreign, out);
}

static bool captures(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	out->value = GM_BYTES(C(retired_peak));
	out->of = GM_BYTES(C(mapped_peak));
	return C(retired_peak) >= FEW;
}

bool gm_rule_captures(struct gm_figures *f, struct gm_finding *out)
{
	return gm_figures_process(f, GM_C_captures) && worst(f, captures, out);
}

static bool mapped_again(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	out->value = GM_BYTES(C(map_bytes));
	out->of = GM_BYTES(C(mapped_peak));
	return C(mapped_peak) > 0;
}

bool gm_rule_mapped_again(struct gm_figures *f, struct gm_finding *out)
{
	return worst(f, mapped_again, out);
}

/* --- time --- */

bool gm_rule_fence_waits(struct gm_figures *f, struct gm_finding *out)
{
	out->value = GM_NS(SUM(fence_ns));
	out->of = GM_NS(SUM(allocate_ns) + SUM(free_ns));
	return out->value.n && out->value.n >= gm_figures_length(f) / 100;
}

bool gm_rule_churn(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_churn churn = gm_churn_find(f->file);
	out->of = GM_COUNT(churn.most);
	out->other = GM_BYTES(churn.size);
	return count(out, churn.allocated);
}

/* --- what kind of log it is --- */

bool gm_rule_watched(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, strcmp(f->about->mode, "trace") == 0);
}

bool gm_rule_no_memory(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, SUM(allocate_calls) == 0 && SUM(heaps) == 0);
}

bool gm_rule_no_events(struct gm_figures *f, struct gm_finding *out)
{
	return count(out, strcmp(f->about->level, "events") != 0);
}
