#include "engine/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/status.h"
#include "engine/text/utf8.h"

namespace incipit {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

}  // namespace

class Regex::Program {
 public:
  explicit Program(Code code) : code_(std::move(code)) {}
  const pcre2_code* code() const { return code_.get(); }

 private:
  Code code_;
};

Regex::Regex(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr));
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return InvalidArgument("the pattern is wrong at byte {}: {}", offset,
                           reinterpret_cast<const char*>(message.data()));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::make_unique<Program>(std::move(code)));
}

absl::Status Regex::FindAll(std::string_view text, SpanSink sink) const {
  const MatchData match_data(pcre2_match_data_create_from_pattern(program_->code(), nullptr));
  size_t previous = 0, start = 0;
  bool matched_before = false;
  while (start <= text.size() && !text.empty()) {
    const int result =
        pcre2_match(program_->code(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                    PCRE2_NO_UTF_CHECK, match_data.get(), nullptr);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return InvalidArgument("a pattern of the tokenizer takes too many steps on this text");
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_data.get());
    const Span match{.begin = bounds[0], .end = bounds[1], .is_match = true};
    if (match.begin == match.end && matched_before && match.begin == previous) {
      start += start < text.size() ? Utf8Length(text[start]) : 1;
      continue;
    }
    if (previous != match.begin) {
      INCIPIT_RETURN_IF_ERROR(sink({.begin = previous, .end = match.begin, .is_match = false}));
    }
    INCIPIT_RETURN_IF_ERROR(sink(match));
    start = previous = match.end;
    matched_before = true;
  }
  if (previous != text.size() || text.empty()) return sink({.begin = previous, .end = text.size()});
  return absl::OkStatus();
}

absl::Status FindAllLiteral(std::string_view literal, std::string_view text, SpanSink sink) {
  size_t previous = 0;
  for (size_t found = text.find(literal); found != text.npos;
       found = text.find(literal, previous)) {
    if (previous != found) INCIPIT_RETURN_IF_ERROR(sink({.begin = previous, .end = found}));
    previous = found + literal.size();
    INCIPIT_RETURN_IF_ERROR(sink({.begin = found, .end = previous, .is_match = true}));
  }
  if (previous != text.size() || text.empty()) return sink({.begin = previous, .end = text.size()});
  return absl::OkStatus();
}

}  // namespace incipit
