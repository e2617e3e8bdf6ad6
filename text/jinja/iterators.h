// Iteration over the values that hold others.
#pragma once

#include <vector>

#include "text/jinja/value.h"

namespace incipit::jinja {

// Items that are already there. Also what reversed() and finished generators are.
class VectorIterator final : public Iterator {
 public:
  explicit VectorIterator(std::vector<Value> items, std::string_view type_name = "generator")
      : items_(std::move(items)), type_name_(type_name) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;
  std::string_view type_name() const override { return type_name_; }

 private:
  std::vector<Value> items_;
  std::string_view type_name_;
  size_t pos_ = 0;
};

class ListIterator final : public Iterator {
 public:
  explicit ListIterator(const List& list) : list_(list) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;
  std::string_view type_name() const override { return "list_iterator"; }

 private:
  const List& list_;
  size_t pos_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  explicit RangeIterator(const Range& range) : range_(range) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;
  std::string_view type_name() const override { return "range_iterator"; }

 private:
  const Range& range_;
  Int pos_ = 0;
};

// Characters.
class TextIterator final : public Iterator {
 public:
  explicit TextIterator(Value string) : string_(std::move(string)) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;
  std::string_view type_name() const override { return "str_iterator"; }

 private:
  Value string_;
  size_t offset_ = 0;
};

// Keys, values or (key, value) tuples.
class DictIterator final : public Iterator {
 public:
  enum class Part : uint8_t { kKeys, kValues, kItems };
  DictIterator(const Dict& dict, Part part) : dict_(dict), part_(part) {}
  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override;

 private:
  const Dict& dict_;
  Part part_;
  size_t pos_ = 0;
};

}  // namespace incipit::jinja
