// Collects metrics, and writes the metrics in the text format of Prometheus.
#pragma once

#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "server/metrics/metrics_histogram.h"
#include "server/metrics/metrics_values.h"

namespace incipit {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

struct MetricSample {
  MetricLabels labels;
  double value = 0;
};

inline int64_t ReadMetric(const MetricsCounter& counter) {
  return counter.load(std::memory_order_relaxed);
}
inline double ReadMetric(const std::atomic<double>& value) {
  return value.load(std::memory_order_relaxed);
}

inline double ReadMetric(double value) { return value; }

// Returns one sample for each element of `names`. Sample i has the label `label` = names[i], and
// the value values[i].
template <class Names, class Values>
std::vector<MetricSample> SamplesByLabel(const std::string& label, const Names& names,
                                         const Values& values) {
  std::vector<MetricSample> samples;
  for (size_t i = 0; i < std::size(names); ++i) {
    samples.push_back(
        {{{label, std::string(names[i])}}, static_cast<double>(ReadMetric(values[i]))});
  }
  return samples;
}

// Collects metric families (all values of a metric) and writes the families as text. Each value has
// the labels `common` and the labels of its MetricSample.
class FamilyWriter {
 public:
  explicit FamilyWriter(MetricLabels common);

  // Adds a metric family of the type counter, with one value for each element of `samples`.
  void Counter(std::string name, std::string help, const std::vector<MetricSample>& samples);
  void Counter(std::string name, std::string help, int64_t value);
  void Gauge(std::string name, std::string help, const std::vector<MetricSample>& samples);
  void Gauge(std::string name, std::string help, double value);
  void Histogram(std::string name, std::string help, const MetricsHistogram::Snapshot& histogram);

  // Returns the text of all metric families.
  std::string Serialize() const;

 private:
  prometheus::MetricFamily& Add(std::string name, std::string help, prometheus::MetricType type);
  prometheus::ClientMetric& AddMetric(prometheus::MetricFamily& family, MetricLabels labels) const;

  const MetricLabels common_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace incipit
