#include "server/http/openai_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/http/append_json.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

void AppendNumber(int64_t value, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}

// Returns the number of UTF-8 characters whose first byte is in `bytes`.
int64_t NumCharacters(std::string_view bytes) {
  return std::ranges::count_if(
      bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// Appends a JSON object with one token and its log probability to `out`. Leaves out the closing
// brace, so that the caller can add fields.
void AppendChatToken(const ScoredToken& token, std::string& out) {
  out += R"({"token":)";
  AppendJson(token.bytes, out);
  out += R"(,"logprob":)";
  AppendJson(token.logprob, out);
  out += R"(,"bytes":[)";
  for (size_t i = 0; i < token.bytes.size(); ++i) {
    if (i > 0) out += ',';
    AppendNumber(static_cast<unsigned char>(token.bytes[i]), out);
  }
  out += ']';
}

void AppendChatLogprobs(const std::vector<ScoredPosition>& positions, std::string& out) {
  out += R"({"content":[)";
  for (size_t i = 0; i < positions.size(); ++i) {
    if (i > 0) out += ',';
    AppendChatToken(positions[i].token, out);
    out += R"(,"top_logprobs":[)";
    for (size_t k = 0; k < positions[i].top.size(); ++k) {
      if (k > 0) out += ',';
      AppendChatToken(positions[i].top[k], out);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
}

std::string StopReasonOf(const OutputDelta& delta) {
  std::string out;
  if (delta.stop_string) {
    AppendJson(*delta.stop_string, out);
  } else if (delta.stop_token) {
    AppendNumber(*delta.stop_token, out);
  } else {
    out = "null";
  }
  return out;
}

bool HasText(const OutputDelta& delta) {
  return !delta.text.empty() || !delta.reasoning.empty() || !delta.tool_calls.empty();
}

// Removes the output from `delta`, because the client requested 0 output tokens. If the choice
// (output) has ended, its finish reason becomes kLength.
void HideOutput(OutputDelta& delta) {
  OutputDelta hidden;
  hidden.choice = delta.choice;
  if (delta.finish) hidden.finish = FinishReason::kLength;
  delta = std::move(hidden);
}

}  // namespace

void OpenAiUsage::Add(const OutputUsage& usage) {
  num_prompt_tokens += usage.num_prompt_tokens;
  num_output_tokens += usage.num_output_tokens;
  num_cached_tokens += usage.num_cached_tokens;
}

OpenAiOutput::OpenAiOutput(OpenAiFormat format, OpenAiIdentity identity, size_t num_prompts,
                           const Tokenizer* tokenizer)
    : format_(format),
      identity_(std::move(identity)),
      prompts_(num_prompts),
      tokenizer_(tokenizer),
      prompt_logprobs_(prompts_.size()),
      progress_(prompts_.size() * static_cast<size_t>(format_.num_choices)),
      outputs_(progress_.size()) {}

std::string_view OpenAiOutput::FinishOf(const std::optional<FinishReason>& finish,
                                        bool has_tool_calls) {
  if (!finish) return "null";
  if (*finish != FinishReason::kLength && has_tool_calls) return R"("tool_calls")";
  return *finish == FinishReason::kLength ? R"("length")" : R"("stop")";
}

std::string OpenAiOutput::UsageJson() const {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     usage_.num_prompt_tokens, usage_.num_output_tokens,
                     usage_.num_prompt_tokens + usage_.num_output_tokens, usage_.num_cached_tokens);
}

OutputDelta OpenAiOutput::EchoOf(size_t prompt) const {
  OutputDelta echo;
  echo.text = prompts_[prompt].text;
  if (!format_.logprobs || prompts_[prompt].tokens.empty()) return echo;
  // The first token of a prompt has no probability, because no token precedes it. Rank 0 means that
  // the probability is absent.
  ScoredPosition first;
  first.token.token = prompts_[prompt].tokens.front();
  if (tokenizer_ != nullptr) first.token.bytes = tokenizer_->TokenBytes(first.token.token);
  echo.logprobs.push_back(std::move(first));
  const auto& others = prompt_logprobs_[prompt];
  echo.logprobs.insert(echo.logprobs.end(), others.begin(), others.end());
  return echo;
}

void OpenAiOutput::BeginChoice(size_t prompt, size_t index, std::string& out) {
  Progress& progress = progress_[index];
  progress.begun = true;
  OutputDelta first = format_.echo ? EchoOf(prompt) : OutputDelta();
  num_kept_bytes_ += ContentBytes(first);
  if (!format_.streams) {
    Append(std::move(first), outputs_[index]);
    return;
  }
  if (!format_.is_chat && !format_.echo && !format_.return_token_ids) return;
  std::string json;
  if (format_.is_chat) {
    json =
        fmt::format(R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,)"
                    R"("finish_reason":null)",
                    index);
  } else {
    AppendChoice(index, first, progress, json);
    json.pop_back();  // removes the closing brace, because fields of the JSON object follow
  }
  if (format_.return_token_ids) {
    json += R"(,"prompt_token_ids":)";
    AppendJson(prompts_[prompt].tokens, json);
  }
  json += '}';
  AppendEvent(json, "null", out);
}

std::string OpenAiOutput::Add(size_t prompt, OutputPart part) {
  std::string out;
  auto& scores = prompt_logprobs_[prompt];
  for (ScoredPosition& position : part.prompt_logprobs) {
    num_kept_bytes_ += EstimatedBytes(position);
    scores.push_back(std::move(position));
  }
  for (OutputDelta& delta : part.deltas) {
    if (format_.echo_only) HideOutput(delta);
    const size_t index =
        prompt * static_cast<size_t>(format_.num_choices) + static_cast<size_t>(delta.choice);
    Progress& progress = progress_[index];
    if (!progress.begun) BeginChoice(prompt, index, out);
    progress.has_tool_calls = progress.has_tool_calls || !delta.tool_calls.empty();
    if (format_.streams) {
      const bool has_tokens =
          !delta.tokens.empty() && (format_.return_token_ids || format_.logprobs);
      if (!HasText(delta) && !delta.finish && !has_tokens) continue;
      std::string json;
      AppendChoice(index, delta, progress, json);
      AppendEvent(json, "null", out);
      continue;
    }
    num_kept_bytes_ += ContentBytes(delta);
    Append(std::move(delta), outputs_[index]);
  }
  if (part.usage) {
    if (format_.echo_only) part.usage->num_output_tokens = 0;
    usage_.Add(*part.usage);
  }
  return out;
}

void OpenAiOutput::AppendToolCalls(const OutputDelta& delta, std::string& out) const {
  out += R"(,"tool_calls":[)";
  for (size_t i = 0; i < delta.tool_calls.size(); ++i) {
    const OutputToolCall& call = delta.tool_calls[i];
    out += i > 0 ? ",{" : "{";
    if (format_.streams) fmt::format_to(std::back_inserter(out), R"("index":{},)", call.index);
    out += R"("id":)";
    AppendJson(call.id, out);
    out += R"(,"type":"function","function":{"name":)";
    AppendJson(call.name, out);
    out += R"(,"arguments":)";
    AppendJson(call.arguments_json, out);
    out += "}}";
  }
  out += ']';
}

void OpenAiOutput::AppendChatMessage(const OutputDelta& delta, std::string& out) const {
  out += format_.streams ? R"("delta":{"content":)" : R"("message":{"role":"assistant","content":)";
  const bool has_other = !delta.reasoning.empty() || !delta.tool_calls.empty();
  if (delta.text.empty() && has_other) {
    out += "null";
  } else {
    AppendJson(delta.text, out);
  }
  if (!delta.reasoning.empty()) {
    // Writes the reasoning under the new and under the old field name in vLLM's API, because a
    // client reads only one of the two fields.
    for (const std::string_view name : {R"(,"reasoning":)", R"(,"reasoning_content":)"}) {
      out += name;
      AppendJson(delta.reasoning, out);
    }
  }
  if (!delta.tool_calls.empty()) AppendToolCalls(delta, out);
  out += '}';
}

void OpenAiOutput::AppendLogprobs(size_t index, const std::vector<ScoredPosition>& positions,
                                  Progress& progress, std::string& out) const {
  out += R"(,"logprobs":)";
  if (!format_.logprobs || positions.empty()) {
    out += "null";
  } else if (format_.is_chat) {
    AppendChatLogprobs(positions, out);
  } else {
    AppendCompletionLogprobs(index, positions, progress, out);
  }
}

int64_t OpenAiOutput::CharactersOf(size_t index, const ScoredToken& token,
                                   Progress& progress) const {
  const bool is_special = tokenizer_ != nullptr && tokenizer_->IsSpecial(token.token);
  const std::string_view prompt = prompts_[index / static_cast<size_t>(format_.num_choices)].text;
  if (progress.num_prompt_bytes < prompt.size()) {
    // Skips the special tokens that the tokenizer has added to the prompt, because the text of the
    // prompt does not contain these tokens.
    const bool is_in_text =
        !is_special || prompt.substr(progress.num_prompt_bytes).starts_with(token.bytes);
    if (!is_in_text) return 0;
    progress.num_prompt_bytes += token.bytes.size();
  } else if (is_special && !format_.keeps_special_tokens) {
    return 0;
  }
  return NumCharacters(token.bytes);
}

void OpenAiOutput::AppendCompletionLogprobs(size_t index,
                                            const std::vector<ScoredPosition>& positions,
                                            Progress& progress, std::string& out) const {
  std::string tokens, values, tops, offsets;
  for (size_t i = 0; i < positions.size(); ++i) {
    const ScoredToken& token = positions[i].token;
    const std::vector<ScoredToken>& top = positions[i].top;
    if (i > 0) {
      for (std::string* const list : {&tokens, &values, &tops, &offsets}) *list += ',';
    }
    AppendJson(token.bytes, tokens);
    AppendNumber(progress.num_characters, offsets);
    progress.num_characters += CharactersOf(index, token, progress);
    if (positions[i].rank == 0) {
      values += "null";
      tops += "null";
      continue;
    }
    AppendJson(token.logprob, values);
    tops += '{';
    // Keys of the JSON object so far: texts of tokens, as JSON strings. If several tokens have the
    // same text, only the most probable of these tokens is added.
    std::vector<std::string> names;
    const auto append = [&](const ScoredToken& one) {
      std::string name;
      AppendJson(one.bytes, name);
      if (std::ranges::find(names, name) != names.end()) return;
      if (tops.back() != '{') tops += ',';
      tops += name;
      tops += ':';
      AppendJson(one.logprob, tops);
      names.push_back(std::move(name));
    };
    for (const ScoredToken& one : top) append(one);
    const auto is_sampled = [&](const ScoredToken& one) { return one.token == token.token; };
    if (std::ranges::none_of(top, is_sampled)) append(token);
    tops += '}';
  }
  fmt::format_to(std::back_inserter(out),
                 R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],)"
                 R"("text_offset":[{}]}})",
                 tokens, values, tops, offsets);
}

void OpenAiOutput::AppendChoice(size_t index, const OutputDelta& delta, Progress& progress,
                                std::string& out) const {
  out += R"({"index":)";
  AppendNumber(static_cast<int64_t>(index), out);
  out += ',';
  if (format_.is_chat) {
    AppendChatMessage(delta, out);
  } else {
    out += R"("text":)";
    AppendJson(delta.text, out);
  }
  AppendLogprobs(index, delta.logprobs, progress, out);
  out += R"(,"finish_reason":)";
  out += FinishOf(delta.finish, progress.has_tool_calls);
  if (delta.finish) {
    out += R"(,"stop_reason":)";
    out += StopReasonOf(delta);
  }
  if (format_.return_token_ids) {
    out += R"(,"token_ids":)";
    AppendJson(delta.tokens, out);
  }
  out += '}';
}

void OpenAiOutput::AppendEvent(std::string_view choices, std::string_view usage,
                               std::string& out) const {
  out += R"(data: {"id":)";
  AppendJson(identity_.id, out);
  out += format_.is_chat ? R"(,"object":"chat.completion.chunk","created":)"
                         : R"(,"object":"text_completion","created":)";
  AppendNumber(identity_.created, out);
  out += R"(,"model":)";
  AppendJson(identity_.model, out);
  out += R"(,"choices":[)";
  out += choices;
  out += ']';
  if (format_.include_usage) {
    out += R"(,"usage":)";
    out += usage;
  }
  out += "}\n\n";
}

std::string OpenAiOutput::StreamEnd() const {
  std::string out;
  if (format_.include_usage) AppendEvent("", UsageJson(), out);
  out += "data: [DONE]\n\n";
  return out;
}

std::string OpenAiOutput::Whole() const {
  std::string out = R"({"id":)";
  AppendJson(identity_.id, out);
  out += format_.is_chat ? R"(,"object":"chat.completion","created":)"
                         : R"(,"object":"text_completion","created":)";
  AppendNumber(identity_.created, out);
  out += R"(,"model":)";
  AppendJson(identity_.model, out);
  out += R"(,"choices":[)";
  for (size_t index = 0; index < outputs_.size(); ++index) {
    if (index > 0) out += ',';
    Progress progress = progress_[index];
    AppendChoice(index, outputs_[index], progress, out);
    if (!format_.return_token_ids) continue;
    out.pop_back();  // removes the closing brace, because a field of the JSON object follows
    out += R"(,"prompt_token_ids":)";
    AppendJson(prompts_[index / static_cast<size_t>(format_.num_choices)].tokens, out);
    out += '}';
  }
  out += R"(],"usage":)";
  out += UsageJson();
  out += '}';
  return out;
}

}  // namespace incipit
