#include "server/metrics/family_writer.h"

#include <prometheus/text_serializer.h>

#include <utility>

namespace incipit {

using prometheus::MetricType;

FamilyWriter::FamilyWriter(MetricLabels common) : common_(std::move(common)) {}

void FamilyWriter::Counter(std::string name, std::string help,
                           const std::vector<MetricSample>& samples) {
  auto& family = Add(std::move(name), std::move(help), MetricType::Counter);
  for (const MetricSample& sample : samples) {
    AddMetric(family, sample.labels).counter.value = sample.value;
  }
}

void FamilyWriter::Counter(std::string name, std::string help, int64_t value) {
  Counter(std::move(name), std::move(help), {{{}, static_cast<double>(value)}});
}

void FamilyWriter::Gauge(std::string name, std::string help,
                         const std::vector<MetricSample>& samples) {
  auto& family = Add(std::move(name), std::move(help), MetricType::Gauge);
  for (const MetricSample& sample : samples) {
    AddMetric(family, sample.labels).gauge.value = sample.value;
  }
}

void FamilyWriter::Gauge(std::string name, std::string help, double value) {
  Gauge(std::move(name), std::move(help), {{{}, value}});
}

void FamilyWriter::Histogram(std::string name, std::string help,
                             const MetricsHistogram::Snapshot& histogram) {
  auto& family = Add(std::move(name), std::move(help), MetricType::Histogram);
  auto& metric = AddMetric(family, {}).histogram;
  metric.sample_sum = histogram.sum;
  metric.sample_count = histogram.cumulative.back();
  for (size_t i = 0; i < histogram.bounds.size(); ++i) {
    metric.bucket.push_back({histogram.cumulative[i], histogram.bounds[i]});
  }
}

std::string FamilyWriter::Serialize() const {
  return prometheus::TextSerializer().Serialize(families_);
}

prometheus::MetricFamily& FamilyWriter::Add(std::string name, std::string help, MetricType type) {
  families_.push_back({std::move(name), std::move(help), type, {}});
  return families_.back();
}

prometheus::ClientMetric& FamilyWriter::AddMetric(prometheus::MetricFamily& family,
                                                  MetricLabels labels) const {
  labels.insert(labels.end(), common_.begin(), common_.end());
  family.metric.emplace_back().label = std::move(labels);
  return family.metric.back();
}

}  // namespace incipit
