// Regular expressions as tokenizer.json writes them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace incipit {

// A part of a text, and whether the pattern matched it.
struct Span {
  size_t begin = 0, end = 0;
  bool is_match = false;
};
using SpanSink = absl::FunctionRef<absl::Status(const Span&)>;

// A compiled expression. Immutable; FindAll is thread-safe.
class Regex {
 public:
  enum class Engine : uint8_t {
    kAutomaton,      // linear time
    kBacktracking,   // everything, within a limit of steps
    kBestAvailable,  // an automaton if it can do it
  };

  // INVALID_ARGUMENT for a syntax error, UNIMPLEMENTED for a construct that is not supported.
  static absl::StatusOr<Regex> Compile(std::string_view pattern,
                                       Engine engine = Engine::kBestAvailable);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Covers the text with matches and what lies between them, in order; an empty text is one part
  // that does not match. An empty match right behind a match does not count. Stops with the first
  // error of `sink`. INVALID_ARGUMENT if the expression takes too many steps on this text.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  class Program;
  explicit Regex(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

// The same for a plain string instead of an expression. REQUIRES: not empty.
absl::Status FindAllLiteral(std::string_view literal, std::string_view text, SpanSink sink);

}  // namespace incipit
