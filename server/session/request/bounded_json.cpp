#include "server/session/request/bounded_json.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/session/request/field_checks.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

// Builds a JSON value from the events of the parser in the nlohmann JSON library. The builder of
// the library is not used, because its time for an object is quadratic in the number of members.
class Builder {
 public:
  Builder(int64_t& num_left, int depth_max, BoundedJsonReader::Uncounted uncounted)
      : num_left_(num_left), depth_max_(depth_max), uncounted_(uncounted) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value, counts_integers_); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value, counts_integers_); }
  bool number_float(Json::number_float_t value, const Json::string_t&) { return Add(value); }
  bool string(Json::string_t& value) { return Add(std::move(value)); }
  // Never called, because a JSON text cannot contain binary values.
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(true); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(false); }
  bool end_array() { return Close(); }
  bool key(Json::string_t& name) {
    if (levels_.size() == 1) {
      counts_integers_ = std::ranges::find(uncounted_, name) == uncounted_.end();
    }
    names_.push_back(std::move(name));
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

  bool too_deep() const { return too_deep_; }
  bool too_many() const { return num_left_ < 0; }
  // Returns the whole JSON value. REQUIRES: the parsed text was valid JSON.
  Json& root() { return values_.front(); }

 private:
  // An array or object whose end the parser has not read yet. Its values are in `values_`, from the
  // index `first_value` on. The names of its members are in `names_`, from the index `first_name`
  // on.
  struct Level {
    bool is_object;
    size_t first_value, first_name;
  };

  bool Open(bool is_object);
  bool Close();
  bool Add(Json value, bool counts = true);
  static Json MakeArray(std::span<Json> elements);
  // Returns a JSON object in which values[i] has the name names[i]. If several names are equal,
  // keeps only the last value. REQUIRES: `names` and `values` have the same size.
  static Json MakeObject(std::span<std::string> names, std::span<Json> values);

  int64_t& num_left_;
  const int depth_max_;
  const BoundedJsonReader::Uncounted uncounted_;
  bool too_deep_ = false;
  bool counts_integers_ = true;
  std::vector<Level> levels_;
  // `values_` contains the values that were read for the arrays and objects in `levels_`. `names_`
  // contains the names of the members that were read for the objects in `levels_`.
  std::vector<Json> values_;
  std::vector<std::string> names_;
};

bool Builder::Open(bool is_object) {
  too_deep_ = std::ssize(levels_) >= depth_max_;
  if (too_deep_) return false;
  values_.emplace_back(nullptr);
  levels_.push_back({is_object, values_.size(), names_.size()});
  return true;
}

bool Builder::Close() {
  const Level level = levels_.back();
  levels_.pop_back();
  const std::span<Json> values = std::span(values_).subspan(level.first_value);
  values_[level.first_value - 1] =
      level.is_object ? MakeObject(std::span(names_).subspan(level.first_name), values)
                      : MakeArray(values);
  values_.resize(level.first_value);
  names_.resize(level.first_name);
  return levels_.empty() || --num_left_ >= 0;
}

bool Builder::Add(Json value, bool counts) {
  values_.push_back(std::move(value));
  return levels_.empty() || !counts || --num_left_ >= 0;
}

Json Builder::MakeArray(std::span<Json> elements) {
  Json array = Json::array();
  auto& out = array.get_ref<Json::array_t&>();
  out.reserve(elements.size());
  for (Json& element : elements) out.push_back(std::move(element));
  return array;
}

Json Builder::MakeObject(std::span<std::string> names, std::span<Json> values) {
  // If an object has more members than this number, equal names are found with a hash table,
  // otherwise by linear search.
  constexpr size_t kIndexedMembers = 16;
  const bool is_indexed = values.size() > kIndexedMembers;
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();
  members.reserve(values.size());
  absl::flat_hash_map<std::string_view, Json*> index;
  if (is_indexed) index.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Json* known = nullptr;
    if (is_indexed) {
      const auto found = index.find(names[i]);
      if (found != index.end()) known = found->second;
    } else {
      const auto found = std::ranges::find(members, names[i], &Json::object_t::value_type::first);
      if (found != members.end()) known = &found->second;
    }
    if (known != nullptr) {
      *known = std::move(values[i]);
      continue;
    }
    auto& member = members.emplace_back(std::move(names[i]), std::move(values[i]));
    if (is_indexed) index.emplace(member.first, &member.second);
  }
  return object;
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> BoundedJsonReader::Read(
    absl::FunctionRef<std::string()> field, std::string_view text) {
  if (static_cast<int64_t>(text.size()) > bytes_max_) {
    return CheckBytes(field(), text.size(), bytes_max_);
  }
  Builder builder(num_left_, depth_max_, uncounted_);
  // Refuses a text that contains a NUL byte, because the JSON library would treat the NUL byte as
  // the end of the text.
  const bool has_nul = text.find('\0') != std::string_view::npos;
  const bool is_parsed = !has_nul && Json::sax_parse(text, &builder);
  if (builder.too_deep()) {
    return WithBound(InvalidField(field(), "is nested deeper than {} levels", depth_max_),
                     depth_max_);
  }
  if (builder.too_many()) return TooManyValues(field);
  if (!is_parsed || !builder.root().is_object())
    return InvalidField(field(), "is not a JSON object");
  return std::move(builder.root());
}

absl::Status BoundedJsonReader::Count(absl::FunctionRef<std::string()> field, int64_t num_values) {
  num_left_ -= num_values;
  return num_left_ >= 0 ? absl::OkStatus() : TooManyValues(field);
}

absl::Status BoundedJsonReader::TooManyValues(absl::FunctionRef<std::string()> field) const {
  return WithBound(InvalidField(field(),
                                "has too many values; the JSON texts and tool calls of one request "
                                "together may have at most {} object members and array elements",
                                members_max_),
                   members_max_);
}

}  // namespace incipit
