#include "server/session/bounded_json.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/session/field_checks.h"
#include "server/session/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

// Builds a JSON value while the nlohmann library parses a text. The builder of the library is not
// used, because its time for an object is quadratic in the number of members.
class Builder {
 public:
  Builder(int64_t& num_left, int depth_max) : num_left_(num_left), depth_max_(depth_max) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) { return Add(value); }
  bool string(Json::string_t& value) { return Add(std::move(value)); }
  // Never called, because a JSON text cannot contain binary values.
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(true); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(false); }
  bool end_array() { return Close(); }
  bool key(Json::string_t& name) {
    name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

  bool too_deep() const { return too_deep_; }
  bool too_many() const { return num_left_ < 0; }
  // The whole JSON value; REQUIRES: the parsed text was valid JSON.
  Json& root() { return children_.front().value; }

 private:
  struct Child {
    std::string name;  // name of the object member; empty for an element of an array
    Json value;
  };
  // An array or object that the parser has not read completely. `first_child` is the index in
  // `children_` of its first element or member.
  struct Level {
    bool is_object;
    size_t first_child;
  };
  using Children = std::span<Child>;

  bool Open(bool is_object);
  bool Close();
  bool Add(Json value);
  static Json MakeArray(Children children);
  static Json MakeObject(Children children);

  int64_t& num_left_;
  const int depth_max_;
  bool too_deep_ = false;
  std::string name_;  // name of the object member whose value is read next
  std::vector<Level> levels_;
  std::vector<Child> children_;
};

bool Builder::Open(bool is_object) {
  too_deep_ = std::ssize(levels_) >= depth_max_;
  if (too_deep_) return false;
  children_.push_back({std::move(name_), nullptr});
  levels_.push_back({is_object, children_.size()});
  return true;
}

bool Builder::Close() {
  const Level level = levels_.back();
  levels_.pop_back();
  const Children children = Children(children_).subspan(level.first_child);
  children_[level.first_child - 1].value =
      level.is_object ? MakeObject(children) : MakeArray(children);
  children_.resize(level.first_child);
  return levels_.empty() || --num_left_ >= 0;
}

bool Builder::Add(Json value) {
  children_.push_back({std::move(name_), std::move(value)});
  return levels_.empty() || --num_left_ >= 0;
}

Json Builder::MakeArray(Children children) {
  Json array = Json::array();
  auto& elements = array.get_ref<Json::array_t&>();
  elements.reserve(children.size());
  for (Child& child : children) elements.push_back(std::move(child.value));
  return array;
}

Json Builder::MakeObject(Children children) {
  // Number of members up to which an object is searched for equal names one by one; a larger object
  // is searched with a hash table.
  constexpr size_t kIndexedMembers = 16;
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();
  members.reserve(children.size());
  absl::flat_hash_map<std::string_view, Json*> index;
  if (children.size() > kIndexedMembers) index.reserve(children.size());
  for (Child& child : children) {
    Json* known = nullptr;
    if (children.size() > kIndexedMembers) {
      const auto found = index.find(child.name);
      if (found != index.end()) known = found->second;
    } else {
      const auto found = std::ranges::find(members, child.name, &Json::object_t::value_type::first);
      if (found != members.end()) known = &found->second;
    }
    if (known != nullptr) {
      *known = std::move(child.value);
      continue;
    }
    auto& member = members.emplace_back(std::move(child.name), std::move(child.value));
    if (children.size() > kIndexedMembers) index.emplace(member.first, &member.second);
  }
  return object;
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> BoundedJsonReader::Read(
    absl::FunctionRef<std::string()> field, std::string_view text) {
  if (static_cast<int64_t>(text.size()) > bytes_max_) {
    return CheckBytes(field(), text.size(), bytes_max_);
  }
  Builder builder(num_left_, depth_max_);
  // The JSON library would treat a NUL byte as the end of the text.
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
                                "together may have at most {} members and elements",
                                members_max_),
                   members_max_);
}

}  // namespace incipit
