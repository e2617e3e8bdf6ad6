#include "server/metrics/scheduling_text.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace incipit {
namespace {

// Values of the label `reason` of incipit_preemptions_total, in the order of PreemptionReason.
constexpr std::string_view kPreemptionReasonNames[kNumPreemptionReasons] = {"head", "share",
                                                                            "decode"};
// Values of the label `reason` of incipit_request_wait_seconds_total, in the order of WaitReason.
constexpr std::string_view kWaitReasonNames[kNumWaitReasons] = {"share", "room", "prefix", "load"};
// Values of the label `reason` of incipit_deferrals_total, in the order of DeferralReason.
constexpr std::string_view kDeferralReasonNames[kNumDeferralReasons] = {"room",   "slots", "tokens",
                                                                        "prefix", "load",  "order"};
// Values of the label `reason` of incipit_tenant_refusals_total, in the order of TenantRefusal.
constexpr std::string_view kTenantRefusalNames[kNumTenantRefusals] = {"queue_full",
                                                                      "queue_too_long", "too_late"};
// Values of the label `class` of incipit_step_time_error_ratio, in the order of StepClass.
constexpr std::string_view kStepClassNames[kNumStepClasses] = {"decode", "mixed", "prefill"};

void WritePreemptions(FamilyWriter& out, const MetricsValues& values) {
  out.Counter(
      "incipit_preemptions_total",
      "Number of preemptions, by reason. In a preemption, a running sequence loses its cache "
      "blocks and is computed again later.",
      SamplesByLabel("reason", kPreemptionReasonNames, values.preemptions));
}

// Returns one sample for each tenant and each element of `reasons`. `values` is a PerTenant.
template <class Reasons, class Values>
std::vector<MetricSample> SamplesByTenant(const std::vector<std::string>& tenants,
                                          const Reasons& reasons, const Values& values) {
  std::vector<MetricSample> samples;
  const auto append = [&](std::string_view tenant, const auto& values_of_tenant) {
    for (MetricSample& sample : SamplesByLabel("reason", reasons, values_of_tenant)) {
      sample.labels.push_back({"tenant", std::string(tenant)});
      samples.push_back(std::move(sample));
    }
  };
  for (size_t i = 0; i < tenants.size(); ++i) append(tenants[i], values[i]);
  append(kOtherTenants, values.back());
  return samples;
}

void WriteWaits(FamilyWriter& out, const MetricsValues& values, const MetricsFacts& facts) {
  out.Counter("incipit_request_wait_seconds_total",
              "Total waiting time of requests before their first step (batch), by reason. share: "
              "for a slot, for tokens in a step, or for requests that went first. room: for free "
              "cache blocks. prefix: for another request that computes a shared prefix. load: for "
              "keys and values from the disk cache. tenant: as in incipit_tenant_service_total.",
              SamplesByTenant(facts.reported_tenants, kWaitReasonNames, values.wait_seconds));
  out.Counter(
      "incipit_deferrals_total",
      "Number of waiting requests that a step (batch) did not start, summed over all steps, "
      "by reason. room: too few cache blocks are free. slots: --running-max sequences run. "
      "tokens: the step has no room for further prompt tokens. prefix: another request "
      "computes a shared prefix. load: keys and values are loaded from the disk cache. "
      "order: other requests must start first, or enough attempts to start a request were "
      "made in the step.",
      SamplesByLabel("reason", kDeferralReasonNames, values.deferrals));
}

void WriteTenants(FamilyWriter& out, const MetricsValues& values, const MetricsFacts& facts) {
  out.Gauge("incipit_active_tenants", "Number of tenants with waiting or running requests.",
            facts.load.scheduler.num_active_tenants);
  out.Gauge("incipit_tenant_service_gap",
            "Largest minus smallest service of the tenants with waiting requests. The service of a "
            "tenant is the sum of the prices of its tokens (computed prompt token: 1, cached "
            "prompt token: --cached-price, output token: --output-price), divided by the weight "
            "of the tenant. 0 if fewer than two tenants have waiting requests.",
            facts.load.scheduler.service_gap);
  std::vector<MetricSample> samples =
      SamplesByLabel("tenant", facts.reported_tenants, values.tenant_services);
  samples.push_back(
      {{{"tenant", std::string(kOtherTenants)}}, ReadMetric(values.tenant_services.back())});
  out.Counter(
      "incipit_tenant_service_total",
      "Sum of the prices of all tokens of a tenant (computed prompt token: 1, cached prompt "
      "token: --cached-price, output token: --output-price), divided by the weight of the "
      "tenant. other: the sum over all tenants without their own label.",
      samples);
  out.Counter(
      "incipit_tenant_refusals_total",
      "Number of requests of a tenant that were refused because of the load of the server. "
      "queue_full: too many requests or prompt tokens wait. queue_too_long: the request "
      "would wait beyond its deadline. too_late: the engine accepted the request, and later "
      "predicted that the first token would miss the deadline. tenant: as in "
      "incipit_tenant_service_total.",
      SamplesByTenant(facts.reported_tenants, kTenantRefusalNames, values.tenant_refusals));
}

void WriteStepTimeErrors(FamilyWriter& out, const SchedulerFigures& figures) {
  out.Gauge("incipit_step_time_error_ratio",
            "Median relative error of the predicted durations of the last 128 steps (batches) of "
            "each class. decode: no prompt tokens. prefill: only prompt tokens. mixed: both. 0 "
            "before the first prediction.",
            SamplesByLabel("class", kStepClassNames, figures.step_time_errors));
}

}  // namespace

void WriteScheduling(FamilyWriter& out, const MetricsValues& values, const MetricsFacts& facts) {
  WriteWaits(out, values, facts);
  WritePreemptions(out, values);
  out.Counter(
      "incipit_overtakes_total",
      "Number of times that a later sequence of the same tenant started before a waiting sequence.",
      ReadMetric(values.overtakes));
  WriteTenants(out, values, facts);
  WriteStepTimeErrors(out, facts.load.scheduler);
}

}  // namespace incipit
