#include "server/session/output_choice.h"

#include <utility>

#include "base/check.h"
#include "text/chat/call_reader.h"

namespace incipit {
namespace {

ScoredToken ScoredTokenOf(const TokenLogprob& from, const Tokenizer* tokenizer) {
  return {.token = from.token,
          .logprob = from.logprob,
          .bytes = tokenizer == nullptr ? std::string() : tokenizer->TokenBytes(from.token)};
}

// Returns true if a marker of tool calls or reasoning (such as "</think>") is a special token. The
// text must then contain the special tokens, so that the markers can be found.
bool NeedsSpecialTokens(const OutputOptions& options, const Tokenizer& tokenizer) {
  if (!options.parsing) return false;
  const auto is_special = [&](std::string_view marker) {
    const std::optional<TokenId> token = tokenizer.IdOf(marker);
    return token && tokenizer.IsSpecial(*token);
  };
  const OutputFormats& formats = options.parsing->formats;
  const bool has_tools = options.parsing->tools != nullptr;
  return is_special(ReasoningTagsOf(formats.reasoning).end) ||
         (has_tools && is_special(CallBeginOf(formats.tools).marker));
}

}  // namespace

ScoredPosition ScoredPositionOf(const Logprobs& logprobs, int32_t row, const Tokenizer* tokenizer) {
  INCIPIT_CHECK(row >= 0 && row < logprobs.num_rows());
  const auto i = static_cast<size_t>(row);
  ScoredPosition out;
  out.token = ScoredTokenOf(logprobs.chosen[i], tokenizer);
  out.rank = logprobs.rank[i];
  for (int32_t j = logprobs.top_begin[i]; j < logprobs.top_begin[i + 1]; ++j) {
    out.top.push_back(ScoredTokenOf(logprobs.top[static_cast<size_t>(j)], tokenizer));
  }
  return out;
}

OutputChoice::OutputChoice(const OutputOptions& options, const Tokenizer* tokenizer,
                           bool after_prompt)
    : options_(&options), tokenizer_(tokenizer) {
  if (tokenizer == nullptr) return;
  const bool keeps_special = options.keep_special_tokens || NeedsSpecialTokens(options, *tokenizer);
  detokenizer_.emplace(*tokenizer, !keeps_special, after_prompt);
  if (options.stop != nullptr) stop_strings_.emplace(options.stop);
  if (!options.parsing) return;
  const auto& [formats, begins_in_reasoning, tools] = *options.parsing;
  parser_.emplace(formats.tools, formats.reasoning, begins_in_reasoning, tools != nullptr,
                  tools.get());
}

void OutputChoice::AddText(std::string_view text, OutputDelta& delta) {
  if (!parser_) {
    delta.text += text;
  } else {
    Add(parser_->Push(text), delta);
  }
}

void OutputChoice::Add(ParsedText parsed, OutputDelta& delta) {
  delta.text += parsed.content;
  delta.reasoning += parsed.reasoning;
  for (ToolCall& call : parsed.calls) {
    delta.tool_calls.push_back({.index = num_tool_calls_++,
                                .id = NewToolCallId(),
                                .name = std::move(call.name),
                                .arguments_json = std::move(call.arguments_json)});
  }
}

bool OutputChoice::Push(const TokenEvent& event, const Logprobs& logprobs, OutputDelta& delta) {
  INCIPIT_CHECK(!ended());
  if (event.token >= 0) {
    ++num_tokens_;
    delta.tokens.push_back(event.token);
    if (options_->logprobs && event.logprobs_row >= 0) {
      delta.logprobs.push_back(ScoredPositionOf(logprobs, event.logprobs_row, tokenizer_));
    }
    const bool is_stop_token = event.finish == FinishReason::kStop;
    if (detokenizer_ && (!is_stop_token || options_->include_stop) &&
        AppendText(detokenizer_->Push(event.token), delta)) {
      return !event.finish;
    }
  }
  if (!event.finish) return false;
  // Flush returns the text that the detokenizer has held back. A stop string in this text needs no
  // cancellation, because the engine has already ended the choice (output).
  if (!detokenizer_ || !AppendText(detokenizer_->Flush(), delta)) End(event, delta);
  return false;
}

bool OutputChoice::AppendText(const std::string& text, OutputDelta& delta) {
  // num_tokens_ counts the token of `text`, the token at which a stop string ends the output.
  if (!stop_strings_ || !MayStop(num_tokens_ - 1, options_->tokens_min)) {
    AddText(stop_strings_ ? stop_strings_->Pass(text) : text, delta);
    return false;
  }
  const StopStrings::Result result = stop_strings_->Push(text, options_->include_stop);
  AddText(result.text, delta);
  if (!result.matched) return false;
  if (parser_) Add(parser_->Finish(), delta);
  finish_ = delta.finish = FinishReason::kStop;
  delta.stop_string = options_->stop->strings()[*result.matched];
  return true;
}

void OutputChoice::End(const TokenEvent& event, OutputDelta& delta) {
  finish_ = event.finish;
  if (stop_strings_) AddText(stop_strings_->Flush(), delta);
  if (parser_) Add(parser_->Finish(), delta);
  if (event.finish == FinishReason::kStop) {
    delta.finish = FinishReason::kStop;
    if (event.token >= 0) delta.stop_token = event.token;
  } else if (event.finish == FinishReason::kLength) {
    delta.finish = FinishReason::kLength;
  }
}

}  // namespace incipit
