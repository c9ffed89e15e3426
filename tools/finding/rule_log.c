/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements for the rules about one log; gpumemstat(1), FINDINGS, has each formula. */
#include <string.h>

#include "base/size.h"
#include "tools/finding/findings.h"
#include "tools/log/churn.h"

/* Smaller means are not reported: a pool has at least one chunk of 32 MiB. */
#define FEW (64 * GM_MIB)
#define MUCH (256 * GM_MIB)

#define SUM(name) gm_figures_sum(f, GM_C_##name)
#define C(name) gm_figures_device(f, d, GM_C_##name)

static bool finding_count(struct gm_finding *out, uint64_t value)
{
	out->value = GM_COUNT(value);
	return true;
}

/* --- damage: no other rule is asked --- */

static bool damage_is(const struct gm_figures *f, bool counters, struct gm_finding *out)
{
	out->of = GM_COUNT(f->about->records);
	out->other = GM_TEXT(f->about->damage);
	return *f->about->damage && f->about->ended_known == counters && finding_count(out, 1);
}

bool gm_rule_counters_unreadable(struct gm_figures *f, struct gm_finding *out)
{
	return damage_is(f, false, out);
}

bool gm_rule_records_unreadable(struct gm_figures *f, struct gm_finding *out)
{
	return damage_is(f, true, out);
}

/* --- out of memory: the cause of the first refusal --- */

enum cause { NONE, UNSIZED, SIZE, LIMIT_PIECES, FRAGMENTED, LIMIT, OTHERS, IN_USE };

/* Bytes of this process at a refusal. */
static uint64_t refusal_own(const struct gm_figures *f, const struct gm_figures_refusal *r)
{
	return r->sample.mapped + r->sample.lent + gm_figures_foreign(f, r->device, &r->sample);
}

/* Device memory that is neither free nor this process's. */
static uint64_t refusal_others(const struct gm_figures *f, const struct gm_figures_refusal *r)
{
	const uint64_t known = refusal_own(f, r) + r->sample.device_free;
	return r->sample.device_total > known ? r->sample.device_total - known : 0;
}

/* Of this process, without idle memory of the pool. */
static uint64_t refusal_in_use(const struct gm_figures *f, const struct gm_figures_refusal *r)
{
	const struct gm_sample *s = &r->sample;
	const uint64_t foreign =
		s->known & GM_SAMPLE_OWNERS ? gm_figures_foreign(f, r->device, s) : 0;
	return s->handed_out + s->retired + s->lent + foreign;
}

static uint64_t refusal_needed(const struct gm_figures *f, const struct gm_figures_refusal *r)
{
	return gm_figures_needed(f, r->device, &r->sample, r->asked);
}

static enum cause refusal_cause(const struct gm_figures *f)
{
	if (!f->refusals.n || f->giveups.n) /* rule_torch.c */
		return NONE;
	const struct gm_figures_refusal *first = &f->refusals.at[0];
	const struct gm_sample *s = &first->sample;
	if (!first->asked)
		return UNSIZED;
	if (s->device_total && first->asked > s->device_total)
		return SIZE;
	const bool limited =
		s->limit && s->device_total > s->limit && refusal_needed(f, first) > s->limit;
	if (s->idle >= first->asked)
		return limited ? LIMIT_PIECES : FRAGMENTED;
	if (limited)
		return LIMIT;
	/* Where the driver was not asked, the rest may be free. */
	if (s->known == GM_SAMPLE_OWNERS)
		return IN_USE;
	const uint64_t own = s->known & GM_SAMPLE_OWNERS ? refusal_own(f, first) : s->mapped;
	return refusal_others(f, first) > own ? OTHERS : IN_USE;
}

/* The first refusal if it has this cause, else NULL. */
static const struct gm_figures_refusal *refusal_first(const struct gm_figures *f, enum cause is,
						      struct gm_finding *out)
{
	if (refusal_cause(f) != is)
		return NULL;
	out->device = f->refusals.at[0].device;
	out->other = GM_BYTES(f->refusals.at[0].asked);
	return &f->refusals.at[0];
}

bool gm_rule_oom_size(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, SIZE, out);
	if (!r)
		return false;
	out->value = GM_BYTES(r->asked);
	out->of = GM_BYTES(r->sample.device_total);
	return true;
}

bool gm_rule_oom_limit_pieces(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, LIMIT_PIECES, out);
	if (!r)
		return false;
	out->value = GM_BYTES(refusal_needed(f, r));
	out->of = GM_BYTES(r->sample.limit);
	return true;
}

bool gm_rule_oom_fragmented(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, FRAGMENTED, out);
	if (!r)
		return false;
	out->value = GM_BYTES(r->sample.idle);
	out->of = GM_BYTES(r->asked);
	return true;
}

bool gm_rule_oom_limit(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, LIMIT, out);
	if (!r)
		return false;
	out->value = GM_BYTES(refusal_needed(f, r));
	out->of = GM_BYTES(r->sample.limit);
	return true;
}

bool gm_rule_oom_others(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, OTHERS, out);
	if (!r)
		return false;
	out->value = GM_BYTES(refusal_others(f, r));
	out->of = GM_BYTES(r->sample.mapped);
	return true;
}

bool gm_rule_oom_in_use(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, IN_USE, out);
	if (!r)
		return false;
	out->of = out->other;
	out->other = GM_BYTES(refusal_in_use(f, r));
	return finding_count(out, f->refusals.n);
}

bool gm_rule_oom_unsized(struct gm_figures *f, struct gm_finding *out)
{
	const struct gm_figures_refusal *r = refusal_first(f, UNSIZED, out);
	if (!r)
		return false;
	snprintf(out->place, sizeof out->place, "%s", *r->call ? r->call : "a call");
	out->of = GM_BYTES(refusal_in_use(f, r));
	out->other = GM_BYTES(refusal_others(f, r));
	return finding_count(out, f->refusals.n);
}

bool gm_rule_oom_host(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, f->refused_host);
}

bool gm_rule_refused(struct gm_figures *f, struct gm_finding *out)
{
	return !f->refusals.n && !f->giveups.n && finding_count(out, SUM(allocate_failed));
}

/* --- errors --- */

bool gm_rule_bounds(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, gm_figures_process(f, GM_C_bounds_refused));
}

bool gm_rule_bad_free(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, SUM(free_failed));
}

bool gm_rule_killed(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, f->about->ended_known && !f->about->closed && !f->about->ended &&
					  !f->about->running);
}

bool gm_rule_records_missing(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, f->about->dropped);
}

bool gm_rule_to_driver(struct gm_figures *f, struct gm_finding *out)
{
	out->of = GM_COUNT(SUM(allocate_calls));
	return strcmp(f->about->mode, "pool") == 0 && finding_count(out, SUM(allocate_driver));
}

bool gm_rule_retries(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, SUM(retry_calls));
}

bool gm_rule_never_freed(struct gm_figures *f, struct gm_finding *out)
{
	uint64_t blocks = 0;
	for (unsigned d = 0; d < f->n_devices; d++)
		blocks += gm_figures_alive(f, d);
	out->other = GM_BYTES(SUM(requested) + SUM(foreign_driver));
	return f->about->closed && !gm_figures_process(f, GM_C_torch_cache) &&
	       finding_count(out, blocks);
}

/* --- rules for the device with the highest share --- */

/* Measure one device. False: the rule does not apply to it. */
typedef bool of_device(const struct gm_figures *f, unsigned d, struct gm_finding *out);

static bool device_worst(const struct gm_figures *f, of_device *measure, struct gm_finding *out)
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

/* Means over the time covered by samples. */
struct means {
	uint64_t requested, internal, mapped, unreclaimable, idle, remap_ppm;
};

static bool device_means(const struct gm_figures *f, unsigned d, struct means *out)
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

static bool device_unreclaimable(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!device_means(f, d, &m) || m.unreclaimable < FEW)
		return false;
	out->value = GM_BYTES(m.unreclaimable);
	out->of = GM_BYTES(m.mapped);
	return true;
}

bool gm_rule_unreclaimable(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_unreclaimable, out);
}

static bool device_in_pieces(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!device_means(f, d, &m) || m.idle < FEW || m.idle < m.mapped / 10)
		return false;
	out->value = GM_PPM(m.remap_ppm);
	out->of = GM_PPM(1000000);
	out->other = GM_BYTES(m.idle);
	return true;
}

bool gm_rule_in_pieces(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_in_pieces, out);
}

static bool device_internal(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!device_means(f, d, &m) || m.internal < FEW)
		return false;
	out->value = GM_BYTES(m.internal);
	out->of = GM_BYTES(m.requested + m.internal);
	return true;
}

bool gm_rule_internal(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_internal, out);
}

static bool device_kept_idle(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	struct means m;
	if (!device_means(f, d, &m) || m.idle < MUCH)
		return false;
	out->value = GM_BYTES(m.idle);
	out->of = GM_BYTES(m.mapped);
	return true;
}

bool gm_rule_kept_idle(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_kept_idle, out);
}

static bool device_foreign(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	out->value = GM_BYTES(C(foreign_peak));
	out->of = GM_BYTES(C(foreign_peak) + C(mapped_peak));
	return C(foreign_peak) >= FEW;
}

bool gm_rule_foreign(struct gm_figures *f, struct gm_finding *out)
{
	return strcmp(f->about->mode, "pool") == 0 && device_worst(f, device_foreign, out);
}

/* The peak of retired memory is an upper bound of the memory kept from reuse by captures. With
 * GPUMEM_FREE=defer it includes memory that waits for its fences. */
static bool device_captures(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	out->value = GM_BYTES(C(retired_peak));
	out->of = GM_BYTES(C(mapped_peak));
	return C(retired_peak) >= FEW;
}

bool gm_rule_captures(struct gm_figures *f, struct gm_finding *out)
{
	return gm_figures_process(f, GM_C_captures) && device_worst(f, device_captures, out);
}

/* Programs that free seldom lose nothing. */
static bool device_not_ordered(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	const uint64_t others = C(ordered_streams) + C(ordered_capture) + C(ordered_context) +
				C(ordered_pinned) + C(ordered_off);
	out->value = GM_COUNT(others);
	out->of = GM_COUNT(others + C(ordered_early));
	return out->of.n >= 100;
}

bool gm_rule_not_ordered(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_not_ordered, out);
}

/* map_bytes includes memory of device heaps, which has peaks of its own. */
static bool device_mapped_again(const struct gm_figures *f, unsigned d, struct gm_finding *out)
{
	const uint64_t heaps = C(heap_mapped_peak) + C(heap_slack_peak);
	out->value = GM_BYTES(C(map_bytes));
	out->of = GM_BYTES(C(mapped_peak) + (heaps > C(lent) ? heaps : C(lent)));
	return C(mapped_peak) > 0;
}

bool gm_rule_mapped_again(struct gm_figures *f, struct gm_finding *out)
{
	return device_worst(f, device_mapped_again, out);
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
	return finding_count(out, churn.allocated);
}

/* --- kind of log --- */

bool gm_rule_watched(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, gm_figures_is_trace(f));
}

bool gm_rule_torch_cache(struct gm_figures *f, struct gm_finding *out)
{
	return gm_level_of(f->file) == GM_LEVEL_BLOCKS &&
	       finding_count(out, gm_figures_process(f, GM_C_torch_cache));
}

bool gm_rule_torch_tensors(struct gm_figures *f, struct gm_finding *out)
{
	return gm_level_of(f->file) == GM_LEVEL_TENSORS && finding_count(out, SUM(tensor_calls));
}

bool gm_rule_no_memory(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, f->about->ended_known && SUM(allocate_calls) == 0 &&
					  SUM(heaps) == 0 && SUM(foreign_peak) == 0);
}

bool gm_rule_no_events(struct gm_figures *f, struct gm_finding *out)
{
	return finding_count(out, strcmp(f->about->level, "events") != 0);
}
