// Filters on sequences and mappings as wholes.
#include <algorithm>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iterators.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"

namespace incipit::jinja {
namespace {

using Result = absl::StatusOr<Value>;

Result Count(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"length", {"value"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const int64_t length, Length(in, bound[0]));
  return Value::Integer(length);
}

Result List(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"list", {"value"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(in, bound[0]));
  return in.heap().MakeList(std::move(items));
}

Result First(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"first", {"seq"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, bound[0]));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
  return item ? *item : in.heap().MakeUndefined("No first item, sequence was empty.");
}

// reversed(value); nullopt if Python cannot reverse it.
absl::StatusOr<std::optional<std::vector<Value>>> Reversed(Interpreter& in, const Value& value) {
  const bool reversible = value.is_undefined() || value.is_string() || value.is_sequence() ||
                          value.is(Kind::kDict) || value.is(Kind::kRange) ||
                          As<DictView>(value) != nullptr;
  if (!reversible) return std::optional<std::vector<Value>>();
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(in, value));
  std::reverse(items.begin(), items.end());
  return std::optional(std::move(items));
}

Result Last(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"last", {"seq"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::vector<Value>> items, Reversed(in, bound[0]));
  if (!items) return InvalidArgument("'{}' object is not reversible", TypeName(bound[0]));
  return items->empty() ? in.heap().MakeUndefined("No last item, sequence was empty.")
                        : items->front();
}

Result Reverse(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(const BoundArguments bound,
                           BoundArguments::Bind({"reverse", {"value"}, 1}, arguments));
  if (bound[0].is_string()) {
    return Slice(in, bound[0],
                 {.start = Value::None(), .stop = Value::None(), .step = Value::Integer(-1)});
  }
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::vector<Value>> items, Reversed(in, bound[0]));
  if (items) {
    return Value::OfIterator(
        in.heap().New<VectorIterator>(std::move(*items), "list_reverseiterator"));
  }
  INCIPIT_ASSIGN_OR_RETURN(std::vector<Value> list, ToVector(in, bound[0]));
  std::reverse(list.begin(), list.end());
  return in.heap().MakeList(std::move(list));
}

Result Join(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"join", {"value", "d", "attribute"}, 1}, arguments));
  AttributePath path;
  if (!bound.IsNone(2)) {
    INCIPIT_ASSIGN_OR_RETURN(path, AttributePath::Make(in, bound[2]));
  }
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, bound[0]));
  std::optional<Value> separator;
  if (bound.Find(1) != nullptr) {
    INCIPIT_ASSIGN_OR_RETURN(separator, ToString(in, bound[1]));
  }
  TextBuilder builder;
  for (bool first = true;; first = false) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
    if (!item) return in.heap().Finish(builder);
    INCIPIT_ASSIGN_OR_RETURN(const Value part, path.Get(in, *item));
    if (!first && separator) builder.Append(separator->text());
    INCIPIT_RETURN_IF_ERROR(AppendString(in, part, builder));
    INCIPIT_RETURN_IF_ERROR(in.heap().CheckSize(builder.size()));
  }
}

struct Keyed {
  Value key, item;
};

// Stable, as Python's sorted(); reversed it keeps equal items in their order too.
absl::Status SortByKey(Interpreter& in, std::vector<Keyed>& items, bool reverse) {
  absl::Status status;
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& left, const Keyed& right) {
    if (!status.ok()) return false;
    const absl::StatusOr<bool> less =
        reverse ? Less(in, right.key, left.key) : Less(in, left.key, right.key);
    if (!less.ok()) status = less.status();
    return less.ok() && *less;
  });
  return status;
}

std::vector<Value> ItemsOf(std::vector<Keyed> keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

Result Sort(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"sort", {"value", "reverse", "case_sensitive", "attribute"}, 1},
                           arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool reverse, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, bound.Truth(in, 2, false));
  INCIPIT_ASSIGN_OR_RETURN(
      const std::vector<AttributePath> paths,
      AttributePath::MakeSeveral(in, bound.IsNone(3) ? Value::None() : bound[3]));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[0]));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      INCIPIT_ASSIGN_OR_RETURN(Value key, path.Get(in, item));
      if (!case_sensitive) {
        INCIPIT_ASSIGN_OR_RETURN(key, IgnoreCase(in, key));
      }
      keys.push_back(std::move(key));
    }
    INCIPIT_ASSIGN_OR_RETURN(Value key, in.heap().MakeList(std::move(keys)));
    keyed.push_back({std::move(key), item});
  }
  INCIPIT_RETURN_IF_ERROR(SortByKey(in, keyed, reverse));
  return in.heap().MakeList(ItemsOf(std::move(keyed)));
}

// What unique, min, max and groupby compare items by.
absl::StatusOr<Value> KeyOf(Interpreter& in, const Value& item, const AttributePath& path,
                            bool case_sensitive, const Value* otherwise = nullptr) {
  INCIPIT_ASSIGN_OR_RETURN(const Value key, path.Get(in, item, otherwise));
  return case_sensitive ? key : IgnoreCase(in, key);
}

class UniqueItems final : public Iterator {
 public:
  UniqueItems(Value source, AttributePath path, bool case_sensitive)
      : source_(std::move(source)), path_(std::move(path)), case_sensitive_(case_sensitive) {}

  absl::StatusOr<std::optional<Value>> Next(Interpreter& in) override {
    if (items_ == nullptr) {
      INCIPIT_ASSIGN_OR_RETURN(items_, Iterate(in, source_));
    }
    while (true) {
      INCIPIT_ASSIGN_OR_RETURN(std::optional<Value> item, items_->Next(in));
      if (!item) return item;
      INCIPIT_ASSIGN_OR_RETURN(const Value key, KeyOf(in, *item, path_, case_sensitive_));
      if (!IsHashable(key)) return InvalidArgument("unhashable type: '{}'", TypeName(key));
      if (seen_.Find(key) != nullptr) continue;
      INCIPIT_RETURN_IF_ERROR(in.heap().Take(Heap::kEntryBytes));
      seen_.Set(key, Value::None());
      return item;
    }
  }

 private:
  Value source_;
  AttributePath path_;
  bool case_sensitive_;
  Iterator* items_ = nullptr;
  Dict seen_;
};

Result Unique(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"unique", {"value", "case_sensitive", "attribute"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(AttributePath path,
                           AttributePath::Make(in, bound.IsNone(2) ? Value::None() : bound[2]));
  return Value::OfIterator(in.heap().New<UniqueItems>(bound[0], std::move(path), case_sensitive));
}

template <bool maximum>
Result Extreme(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"min", {"value", "case_sensitive", "attribute"}, 1}, arguments));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path,
                           AttributePath::Make(in, bound.IsNone(2) ? Value::None() : bound[2]));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[0]));
  if (items.empty()) return in.heap().MakeUndefined("No aggregated item, sequence was empty.");
  Value best = items[0];
  INCIPIT_ASSIGN_OR_RETURN(Value best_key, KeyOf(in, best, path, case_sensitive));
  for (size_t i = 1; i < items.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(Value key, KeyOf(in, items[i], path, case_sensitive));
    INCIPIT_ASSIGN_OR_RETURN(const bool better,
                             maximum ? Less(in, best_key, key) : Less(in, key, best_key));
    if (!better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Result Sum(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"sum", {"iterable", "attribute", "start"}, 1}, arguments));
  AttributePath path;
  if (!bound.IsNone(1)) {
    INCIPIT_ASSIGN_OR_RETURN(path, AttributePath::Make(in, bound[1]));
  }
  Value total = bound.Find(2) == nullptr ? Value::Integer(0) : bound[2];
  if (total.is_string()) return InvalidArgument("sum() can't sum strings");
  INCIPIT_ASSIGN_OR_RETURN(Iterator * items, Iterate(in, bound[0]));
  while (true) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(in));
    if (!item) return total;
    INCIPIT_ASSIGN_OR_RETURN(const Value value, path.Get(in, *item));
    INCIPIT_ASSIGN_OR_RETURN(total, Binary(in, ArithmeticOp::kAdd, total, value));
  }
}

Result DictSort(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"dictsort", {"value", "case_sensitive", "by", "reverse"}, 1},
                           arguments));
  std::string_view by = "key";
  if (bound.Find(2) != nullptr) by = bound[2].is_string() ? bound[2].bytes() : "";
  if (by != "key" && by != "value") {
    return InvalidArgument("dictsort() can only sort by either \"key\" or \"value\"");
  }
  if (bound[0].is_undefined()) return UndefinedError(bound[0]);
  if (!bound[0].is(Kind::kDict)) {
    return InvalidArgument("'{}' object has no attribute 'items'", TypeName(bound[0]));
  }
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, bound.Truth(in, 1, false));
  INCIPIT_ASSIGN_OR_RETURN(const bool reverse, bound.Truth(in, 3, false));
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : bound[0].dict().entries()) {
    Value key = by == "key" ? entry.key : entry.value;
    if (!case_sensitive) {
      INCIPIT_ASSIGN_OR_RETURN(key, IgnoreCase(in, key));
    }
    INCIPIT_ASSIGN_OR_RETURN(Value item, in.heap().MakeTuple({entry.key, entry.value}));
    keyed.push_back({std::move(key), std::move(item)});
  }
  INCIPIT_RETURN_IF_ERROR(SortByKey(in, keyed, reverse));
  return in.heap().MakeList(ItemsOf(std::move(keyed)));
}

Result MakeGroup(Interpreter& in, Value grouper, std::vector<Value> items) {
  INCIPIT_ASSIGN_OR_RETURN(Value list, in.heap().MakeList(std::move(items)));
  return in.heap().MakeGroup(std::move(grouper), std::move(list));
}

Result GroupBy(Interpreter& in, Arguments& arguments) {
  INCIPIT_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind({"groupby", {"value", "attribute", "default", "case_sensitive"}, 2},
                           arguments));
  INCIPIT_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Make(in, bound[1]));
  INCIPIT_ASSIGN_OR_RETURN(const bool case_sensitive, bound.Truth(in, 3, false));
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(in, bound[0]));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    INCIPIT_ASSIGN_OR_RETURN(Value key, KeyOf(in, item, path, case_sensitive, bound.Find(2)));
    keyed.push_back({std::move(key), item});
  }
  INCIPIT_RETURN_IF_ERROR(SortByKey(in, keyed, false));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> members = {keyed[begin].item};
    size_t end = begin + 1;
    for (; end < keyed.size(); ++end) {
      INCIPIT_ASSIGN_OR_RETURN(const bool equal, Equal(in, keyed[begin].key, keyed[end].key));
      if (!equal) break;
      members.push_back(keyed[end].item);
    }
    Value grouper = keyed[begin].key;
    if (!case_sensitive) {
      INCIPIT_ASSIGN_OR_RETURN(grouper, path.Get(in, members.front(), bound.Find(2)));
    }
    INCIPIT_ASSIGN_OR_RETURN(Value group, MakeGroup(in, std::move(grouper), std::move(members)));
    groups.push_back(std::move(group));
    begin = end;
  }
  return in.heap().MakeList(std::move(groups));
}

constexpr NamedBuiltin kSequenceFilters[] = {
    {"count", Count},       {"dictsort", DictSort},  {"first", First},     {"groupby", GroupBy},
    {"join", Join},         {"last", Last},          {"length", Count},    {"list", List},
    {"max", Extreme<true>}, {"min", Extreme<false>}, {"reverse", Reverse}, {"sort", Sort},
    {"sum", Sum},           {"unique", Unique},
};

}  // namespace

std::span<const NamedBuiltin> SequenceFilters() { return kSequenceFilters; }

}  // namespace incipit::jinja
