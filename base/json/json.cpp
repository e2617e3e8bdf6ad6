#include "base/json/json.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace incipit {
namespace {

// Builds a JSON value from the events of the JSON parser, and stops at the first error.
template <typename Json>
class LimitedBuilder final : public nlohmann::json_sax<Json> {
 public:
  using string_t = typename Json::string_t;

  explicit LimitedBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(typename Json::number_integer_t value) override {
    return Add(value) != nullptr;
  }
  bool number_unsigned(typename Json::number_unsigned_t value) override {
    return Add(value) != nullptr;
  }
  bool number_float(typename Json::number_float_t value, const string_t&) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(typename Json::binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    const auto [slot, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new && limits_.duplicate_keys == DuplicateKeys::kRefused) {
      return Fail(fmt::format("the key \"{}\" occurs twice in one object", name));
    }
    slot_ = &*slot;
    return true;
  }

  // Reports a syntax error at the byte offset `position`. Does not use the error message of the
  // JSON library, because that message repeats parts of the untrusted input.
  bool parse_error(size_t position, const std::string&, const typename Json::exception&) override {
    return Fail(fmt::format("not valid JSON: error at byte {}", position));
  }

  absl::StatusOr<Json> Result(bool is_complete) {
    if (!error_.empty()) return InvalidArgument("{}", error_);
    INCIPIT_RETURN_IF_ERROR(is_complete ? absl::OkStatus() : InvalidArgument("not valid JSON"));
    return std::move(root_);
  }

 private:
  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  Json* Add(Json value) {
    if (++num_values_ > limits_.values_max) {
      Fail(fmt::format("the JSON text has more than {} values", limits_.values_max));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Open(Json container) {
    if (static_cast<int32_t>(open_.size()) >= limits_.depth_max) {
      return Fail(fmt::format("the JSON text is nested deeper than {} levels", limits_.depth_max));
    }
    Json* slot = Add(std::move(container));
    if (slot == nullptr) return false;
    open_.push_back(slot);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  int64_t num_values_ = 0;
  Json root_;
  // The arrays and objects that contain the present position of the parser, from the outermost to
  // the innermost. Only the innermost array or object gets new elements, so all pointers stay
  // valid.
  std::vector<Json*> open_;
  // The object member whose key was parsed last. If the innermost container is an object, the next
  // value is stored in this member.
  Json* slot_ = nullptr;
  std::string error_;
};

}  // namespace

template <typename Json>
absl::StatusOr<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return InvalidArgument("the JSON text has {} bytes; the maximum is {} bytes", text.size(),
                           limits.bytes_max);
  }
  // Return an error for a NUL byte, because the JSON library would treat a NUL byte as the end of
  // the text.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument("not valid JSON: error at byte {}", nul + 1);
  }
  LimitedBuilder<Json> builder(limits);
  try {
    const bool is_complete = Json::sax_parse(text, &builder);
    return builder.Result(is_complete);
  } catch (const std::exception& error) {
    return InvalidArgument("not valid JSON: {}", error.what());
  }
}

template absl::StatusOr<nlohmann::json> ParseJson(std::string_view, const JsonLimits&);
template absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view, const JsonLimits&);

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, const JsonLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text, limits));
  if (!json.is_object()) return InvalidArgument("not a JSON object but {}", json.type_name());
  return json;
}

std::string ShownValue(const nlohmann::json& value) {
  constexpr size_t kShownMax = 80;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return text;
}

}  // namespace incipit
