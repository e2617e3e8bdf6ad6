// Fuzzes model configurations. The input is config.json and, after a zero byte,
// generation_config.json. The parser must return an error or a usable model shape.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "transformer/config.h"
#include "transformer/rope.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto generation = end == input.npos ? std::string_view() : input.substr(end + 1);
  const auto config = incipit::ParseModelConfig(input.substr(0, end), generation);
  if (!config.ok()) return 0;
  INCIPIT_CHECK(config->hidden_size > 0 && config->intermediate_size > 0 && config->num_layers > 0);
  INCIPIT_CHECK(config->num_kv_heads > 0 && config->num_heads % config->num_kv_heads == 0);
  INCIPIT_CHECK(config->head_dim > 0 && config->head_dim % 2 == 0);
  INCIPIT_CHECK(config->layer_windows.size() == static_cast<size_t>(config->num_layers));
  for (const incipit::TokenId id : config->eos_ids) {
    INCIPIT_CHECK(id >= 0 && id < config->vocab_size);
  }
  for (const float frequency : incipit::InverseFrequencies(config->rope, config->head_dim)) {
    INCIPIT_CHECK(std::isfinite(frequency));
  }
  INCIPIT_CHECK(std::isfinite(incipit::RopeAttentionFactor(config->rope)));
  return 0;
}
