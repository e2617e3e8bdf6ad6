#include "server/session/bounded_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/session/request_error.h"

namespace incipit {
namespace {

using Json = nlohmann::ordered_json;

// Builds the value from nlohmann's SAX events. The library's own builder looks each name up among
// all members before it, which takes quadratic time.
class Builder {
 public:
  explicit Builder(int64_t& num_left) : num_left_(num_left) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(Json::number_integer_t value) { return Add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return Add(value); }
  bool number_float(Json::number_float_t value, const Json::string_t&) { return Add(value); }
  bool string(Json::string_t& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON texts
  bool start_object(size_t) { return Open(Json::object()); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool end_array() { return Close(); }
  bool key(Json::string_t& name);
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

  bool too_deep() const { return too_deep_; }
  bool too_many() const { return num_left_ < 0; }
  Json& root() { return root_; }

 private:
  // An array or object that is not closed. Its finished children are in `value`.
  struct Level {
    Json value;
    std::string name;                                        // of the member that is being read
    absl::flat_hash_map<std::string, std::ptrdiff_t> index;  // members by name, if there are many
  };
  static constexpr size_t kIndexedMembers = 16;

  bool Open(Json value);
  bool Close();
  bool Add(Json value);
  static void AddMember(Level& level, Json value);

  int64_t& num_left_;
  bool too_deep_ = false;
  std::vector<Level> levels_;
  Json root_;
};

bool Builder::key(Json::string_t& name) {
  levels_.back().name = std::move(name);
  return true;
}

bool Builder::Open(Json value) {
  too_deep_ = std::ssize(levels_) >= BoundedJsonReader::kDepthMax;
  if (too_deep_) return false;
  levels_.push_back({.value = std::move(value), .name = {}, .index = {}});
  return true;
}

bool Builder::Close() {
  Json value = std::move(levels_.back().value);
  levels_.pop_back();
  return Add(std::move(value));
}

bool Builder::Add(Json value) {
  if (levels_.empty()) {
    root_ = std::move(value);
    return true;
  }
  if (--num_left_ < 0) return false;
  Level& level = levels_.back();
  if (level.value.is_array()) {
    level.value.push_back(std::move(value));
  } else {
    AddMember(level, std::move(value));
  }
  return true;
}

void Builder::AddMember(Level& level, Json value) {
  auto& members = level.value.get_ref<Json::object_t&>();
  if (members.size() < kIndexedMembers) {
    members[std::exchange(level.name, {})] = std::move(value);  // looks at few
    return;
  }
  if (level.index.empty()) {
    for (std::ptrdiff_t i = 0; i < std::ssize(members); ++i)
      level.index.emplace((members.begin() + i)->first, i);
  }
  const auto [found, is_new] = level.index.try_emplace(level.name, std::ssize(members));
  if (is_new) {
    members.push_back({std::exchange(level.name, {}), std::move(value)});
  } else {
    (members.begin() + found->second)->second = std::move(value);
  }
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> BoundedJsonReader::Read(std::string_view field,
                                                               std::string_view text) {
  if (static_cast<int64_t>(text.size()) > bytes_max_) {
    return WithBound(
        InvalidField(field, "has {} bytes; at most {} are allowed", text.size(), bytes_max_),
        bytes_max_);
  }
  Builder builder(num_left_);
  const bool is_parsed = Json::sax_parse(text, &builder);
  if (builder.too_deep()) {
    return WithBound(InvalidField(field, "is nested deeper than {} levels", kDepthMax), kDepthMax);
  }
  if (builder.too_many()) {
    return WithBound(InvalidField(field,
                                  "has too many values; the JSON of one request may have {} "
                                  "members and elements",
                                  members_max_),
                     members_max_);
  }
  if (!is_parsed || !builder.root().is_object()) return InvalidField(field, "is not a JSON object");
  return std::move(builder.root());
}

}  // namespace incipit
