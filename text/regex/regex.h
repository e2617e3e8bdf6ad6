// Regular expressions with the syntax of tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace incipit {

// A range [begin, end) of a text. `is_match` is true if the pattern matched this range.
struct Span {
  size_t begin = 0, end = 0;
  bool is_match = false;
};
using SpanSink = absl::FunctionRef<absl::Status(const Span&)>;

// A compiled regular expression. Immutable; FindAll() is thread-safe.
class Regex {
 public:
  enum class Engine : uint8_t {
    kAutomaton,      // linear time; does not support all constructs
    kBacktracking,   // supports all constructs; the number of steps is limited
    kBestAvailable,  // kAutomaton if it supports the pattern, otherwise kBacktracking
  };

  // Compiles `pattern`. Returns INVALID_ARGUMENT for a syntax error, and UNIMPLEMENTED for an
  // unsupported construct.
  static absl::StatusOr<Regex> Compile(std::string_view pattern,
                                       Engine engine = Engine::kBestAvailable);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Passes all matches in `text` and the parts between them to `sink`, in order. An empty match
  // directly after another match is ignored. An empty text is passed as one part without a match.
  // Stops at the first error that `sink` returns. Returns INVALID_ARGUMENT if the expression takes
  // too many steps on `text`.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  class Program;
  explicit Regex(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

// Passes all occurrences of `literal` and the parts between them to `sink`, like Regex::FindAll().
// REQUIRES: `literal` is not empty.
absl::Status FindAllLiteral(std::string_view literal, std::string_view text, SpanSink sink);

}  // namespace incipit
