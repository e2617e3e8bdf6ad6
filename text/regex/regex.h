// Regular expressions in the syntax that tokenizer.json files use.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace incipit {

// A range [begin, end) of byte offsets in a text. The range is a match of a regular expression, or
// text before, between or after the matches (`is_match` is false).
struct Span {
  size_t begin = 0, end = 0;
  bool is_match = false;
};
using SpanSink = absl::FunctionRef<absl::Status(const Span&)>;

// A compiled regular expression. Immutable. FindAll() is thread-safe.
class Regex {
 public:
  enum class Engine : uint8_t {
    // Finds matches in time linear in the length of the text. Does not support all regular
    // expressions.
    kAutomaton,
    // Supports every regular expression that ParseRegex() accepts. Returns an error if a search
    // takes too many steps.
    kBacktracking,
    // Uses kAutomaton if it supports the regular expression, and kBacktracking otherwise.
    kBestAvailable,
  };

  // Compiles `pattern`. Returns INVALID_ARGUMENT for a syntax error. Returns UNIMPLEMENTED for an
  // unsupported construct.
  static absl::StatusOr<Regex> Compile(std::string_view pattern,
                                       Engine engine = Engine::kBestAvailable);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Passes the matches in `text`, and the ranges without a match, to `sink` from left to right. If
  // `text` is empty, `sink` gets one empty range that is not a match. Returns the first error of
  // `sink`, or INVALID_ARGUMENT if the search takes too many steps.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  class Program;
  explicit Regex(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

// Passes the occurrences of `literal` in `text`, and the ranges without an occurrence, to `sink`
// from left to right. REQUIRES: `literal` is not empty.
absl::Status FindAllLiteral(std::string_view literal, std::string_view text, SpanSink sink);

}  // namespace incipit
