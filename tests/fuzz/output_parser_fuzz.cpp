// Fuzzes OutputParser. The first two bytes of the input choose the formats and the length of the
// pieces; the rest is the output text. The pieces must not change the result. Every tool call must
// have a name and a JSON object. Text without reasoning and without calls must stay as it is.
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "text/chat/output_parser.h"

namespace {

using incipit::OutputParser;
using incipit::ParsedText;

void Append(ParsedText piece, ParsedText& whole) {
  whole.reasoning += piece.reasoning;
  whole.content += piece.content;
  for (incipit::ToolCall& call : piece.calls) whole.calls.push_back(std::move(call));
}

// Returns the result for the output `text` that arrives in pieces of `piece_size` bytes.
ParsedText Parse(OutputParser parser, std::string_view text, size_t piece_size) {
  ParsedText whole;
  for (; text.size() > piece_size; text.remove_prefix(piece_size)) {
    Append(parser.Push(text.substr(0, piece_size)), whole);
  }
  Append(parser.Push(text), whole);
  Append(parser.Finish(), whole);
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto format = incipit::kToolFormatNames[data[0] % std::size(incipit::kToolFormatNames)];
  const auto reasoning =
      incipit::kReasoningFormatNames[data[1] % std::size(incipit::kReasoningFormatNames)];
  const bool begins_in_reasoning = (data[1] & 0x80) != 0;
  const size_t piece_size = 1 + (data[0] >> 4);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto parser = [&] {
    return OutputParser(format.value, reasoning.value, begins_in_reasoning, /*has_tools=*/true);
  };
  const ParsedText whole = Parse(parser(), text, text.size() + 1);
  INCIPIT_CHECK(Parse(parser(), text, piece_size) == whole);
  for (const incipit::ToolCall& call : whole.calls) {
    INCIPIT_CHECK(!call.name.empty());
    INCIPIT_CHECK(nlohmann::json::parse(call.arguments_json).is_object());
  }
  if (whole.calls.empty() && reasoning.value == incipit::ReasoningFormat::kNone) {
    INCIPIT_CHECK(whole.content == text);
  }
  return 0;
}
