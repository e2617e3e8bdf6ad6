// The flags of commands that send requests: for example, flags for sampling and for the end of the
// output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/flags.h"
#include "incipit/v1/inference.pb.h"

namespace incipit {

// The flags of a request. If a flag is not set, the server uses its own default value. The server,
// not the client, checks the range of each value.
class RequestFlags {
 public:
  void Bind(Flags& flags);

  // Copies the values of the flags to `request`. REQUIRES: Request is GenerateRequest or
  // ChatRequest.
  template <typename Request>
  void Fill(Request& request) const {
    request.set_request_id(request_id_);
    request.set_model(model_);
    request.set_priority(priority_);
    request.mutable_cache()->set_salt(cache_salt_);
    request.mutable_cache()->set_skip_read(skip_cache_);
    FillRetention(*request.mutable_cache());
    FillSampling(*request.mutable_sampling());
    FillOutput(*request.mutable_output());
  }

  bool wants_logprobs() const { return logprobs_.has_value(); }
  bool wants_prompt_logprobs() const { return prompt_logprobs_.has_value(); }
  uint32_t num_choices() const { return num_choices_ == 0 ? 1 : num_choices_; }

 private:
  void BindOutput(Flags& flags);
  void BindSampling(Flags& flags);
  void FillSampling(v1::SamplingOptions& sampling) const;
  void FillOutput(v1::OutputOptions& output) const;
  void FillRetention(v1::CacheOptions& cache) const;

  std::optional<float> temperature_, top_p_, min_p_;
  std::optional<float> repetition_penalty_, presence_penalty_, frequency_penalty_;
  std::optional<uint32_t> top_k_, logprobs_, prompt_logprobs_;
  std::optional<int64_t> seed_;
  std::vector<std::pair<uint32_t, float>> logit_bias_;
  uint32_t max_tokens_ = 0, min_tokens_ = 0, num_choices_ = 1;
  std::vector<std::string> stop_;
  std::vector<uint32_t> stop_token_ids_;
  bool include_stop_ = false, ignore_eos_ = false, keep_special_tokens_ = false;
  int32_t priority_ = 0;
  std::string cache_salt_, request_id_, model_;
  bool skip_cache_ = false;
  std::optional<int32_t> cache_priority_;
  // Values of the flags --cache-ttl and --cache-pin; zero: the flag is not set.
  Duration cache_ttl_{}, cache_pin_{};
};

// Parses token ids, for example "1,2,3". Returns INVALID_ARGUMENT with the invalid part of `text`
// if `text` is not a list of token ids.
absl::StatusOr<std::vector<uint32_t>> ParseTokenIds(std::string_view text);

}  // namespace incipit
