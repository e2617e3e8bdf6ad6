#include "text/regex/regex_backtracker.h"

#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/status.h"
#include "text/regex/pcre2_handles.h"
#include "text/regex/regex_matches.h"

namespace incipit {
namespace {

// A search returns an error after kCalloutsMax steps, plus kCalloutsPerByteMax steps for each byte
// of the text. In one step of about 10 ns, PCRE2 tries one item of the expression or skips one
// byte.
constexpr int64_t kCalloutsMax = 40'000'000;
// Maximum number of steps for each byte of the text, in addition to kCalloutsMax. A step takes
// about 10 ns, so these steps take at most about 0.3 s per MiB of text.
constexpr int64_t kCalloutsPerByteMax = 32;

// Appends `set` to `pattern` as a character class of PCRE2. The class lists all characters, so its
// meaning does not depend on the Unicode version of PCRE2.
void AppendSet(const CodePointSet& set, std::string& pattern) {
  if (set.empty()) {
    pattern += "(?!)";
    return;
  }
  pattern += '[';
  for (const CodePointRange& range : set.ranges()) {
    // Omit surrogates (U+D800 to U+DFFF), because surrogates are not characters.
    if (range.first >= 0xD800 && range.last <= 0xDFFF) continue;
    const uint32_t first = range.first >= 0xD800 && range.first <= 0xDFFF ? 0xE000 : range.first;
    const uint32_t last = range.last >= 0xD800 && range.last <= 0xDFFF ? 0xD7FF : range.last;
    pattern += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", first, last);
  }
  pattern += ']';
}

void AppendNode(const RegexNode& node, std::string& pattern);

void AppendAlternatives(const RegexNode& node, std::string& pattern) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) pattern += '|';
    AppendNode(node.children[i], pattern);
  }
}

// Appends `opening`, the expression `node` and a closing parenthesis. Does not put (?:...) around
// alternatives, because PCRE2 accepts (?<=a|bc) but may refuse (?<=(?:a|bc)).
void AppendGroup(std::string_view opening, const RegexNode& node, std::string& pattern) {
  pattern += opening;
  if (node.kind == RegexNode::Kind::kAlternate) {
    AppendAlternatives(node, pattern);
  } else {
    AppendNode(node, pattern);
  }
  pattern += ')';
}

void AppendRepeat(const RegexNode& node, std::string& pattern) {
  AppendGroup("(?:", node.children[0], pattern);
  pattern += node.max < 0 ? fmt::format("{{{},}}", node.min)
                          : fmt::format("{{{},{}}}", node.min, node.max);
  if (node.greed == RegexNode::Greed::kLazy) pattern += '?';
}

void AppendEdge(const RegexNode& node, std::string& pattern) {
  const bool is_next = node.kind == RegexNode::Kind::kNext;
  pattern += is_next ? "(?:(?=" : "(?:(?<=";
  AppendSet(node.set, pattern);
  pattern += node.at_edge ? (is_next ? ")|\\z)" : ")|\\A)") : "))";
}

void AppendNode(const RegexNode& node, std::string& pattern) {
  using Kind = RegexNode::Kind;
  switch (node.kind) {
    case Kind::kEmpty:
      return;
    case Kind::kSet:
      return AppendSet(node.set, pattern);
    case Kind::kConcat:
      for (const RegexNode& child : node.children) AppendNode(child, pattern);
      return;
    case Kind::kAlternate:
      pattern += "(?:";
      AppendAlternatives(node, pattern);
      pattern += ')';
      return;
    case Kind::kRepeat:
      return AppendRepeat(node, pattern);
    case Kind::kAtomic:
      return AppendGroup("(?>", node.children[0], pattern);
    case Kind::kCapture:
      return AppendGroup("(", node.children[0], pattern);
    case Kind::kBackreference:
      pattern += fmt::format("\\g{{{}}}", node.group);
      return;
    case Kind::kNext:
    case Kind::kPrevious:
      return AppendEdge(node, pattern);
    case Kind::kLookAhead:
      return AppendGroup(node.negative ? "(?!" : "(?=", node.children[0], pattern);
    case Kind::kLookBehind:
      return AppendGroup(node.negative ? "(?<!" : "(?<=", node.children[0], pattern);
  }
}

}  // namespace

struct BacktrackingRegex::Code {
  Pcre2Code code;
};

BacktrackingRegex::BacktrackingRegex(std::unique_ptr<const Code> code) : code_(std::move(code)) {}
BacktrackingRegex::~BacktrackingRegex() = default;

absl::StatusOr<std::unique_ptr<const BacktrackingRegex>> BacktrackingRegex::Create(
    const RegexNode& root) {
  std::string pattern;
  AppendNode(root, pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  // PCRE2_AUTO_CALLOUT lets PCRE2 call CountSteps() for every item of the expression.
  // PCRE2_NO_START_OPTIMIZE turns off optimizations that miss some matches.
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE, &error,
                                 &offset, nullptr));
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return InvalidArgument("PCRE2 cannot compile the regular expression: {}",
                           reinterpret_cast<const char*>(message.data()));
  }
  return std::unique_ptr<const BacktrackingRegex>(new BacktrackingRegex(std::move(code)));
}

class BacktrackingRegex::Search {
 public:
  Search(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        match_data_(pcre2_match_data_create_from_pattern(code, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    pcre2_set_callout(context_.get(), &CountSteps, this);
  }

  bool Find(size_t from, Span& match) {
    place_ = from;
    const int result = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                                   from, PCRE2_NO_UTF_CHECK, match_data_.get(), context_.get());
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      has_given_up_ = true;
      return false;
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_data_.get());
    match = {.begin = bounds[0], .end = bounds[1], .is_match = true};
    return true;
  }

  bool has_given_up() const { return has_given_up_; }

 private:
  static int CountSteps(pcre2_callout_block* block, void* search) {
    auto* self = static_cast<Search*>(search);
    const size_t place = block->current_position;
    const size_t distance = place > self->place_ ? place - self->place_ : self->place_ - place;
    self->steps_ += 1 + static_cast<int64_t>(distance);
    self->place_ = place;
    return self->steps_ > self->steps_max_ ? PCRE2_ERROR_CALLOUT : 0;
  }

  const pcre2_code* code_;
  std::string_view text_;
  Pcre2MatchData match_data_;
  Pcre2MatchContext context_;
  const int64_t steps_max_ =
      kCalloutsMax + kCalloutsPerByteMax * static_cast<int64_t>(text_.size());
  size_t place_ = 0;
  int64_t steps_ = 0;
  bool has_given_up_ = false;
};

absl::Status BacktrackingRegex::FindAll(std::string_view text, SpanSink sink) const {
  Search search(code_->code.get(), text);
  return VisitMatches(text, search, sink);
}

}  // namespace incipit
