#include "engine/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/numerics_version.h"
#include "transformer/rope.h"

namespace incipit {
namespace {

// Number of positions whose RoPE factors are a part of the fingerprint.
constexpr int32_t kRopePositions = 4096;

std::span<const uint8_t> OctetsOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A text of lines `name value`.
class Lines {
 public:
  template <class T>
  void Add(std::string_view name, const T& value) {
    fmt::format_to(std::back_inserter(text_), "{} {}\n", name, value);
  }
  // Adds the exact value of a number.
  void AddExact(std::string_view name, double value) {
    fmt::format_to(std::back_inserter(text_), "{} {:a}\n", name, value);
  }
  void AddExact(std::string_view name, const std::optional<double>& value) {
    if (value.has_value()) AddExact(name, *value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Binds every member of RopeConfig. A new member therefore causes a compiler error here.
void AddRope(const RopeConfig& rope, Lines& lines) {
  const auto& [type, theta, factor, original_max_positions, low_freq_factor, high_freq_factor,
               beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate] = rope;
  lines.Add("rope_type", static_cast<int>(type));
  lines.AddExact("rope_theta", theta);
  lines.AddExact("rope_factor", factor);
  lines.Add("rope_original_max_positions", original_max_positions);
  lines.AddExact("rope_low_freq_factor", low_freq_factor);
  lines.AddExact("rope_high_freq_factor", high_freq_factor);
  lines.AddExact("rope_beta_fast", beta_fast);
  lines.AddExact("rope_beta_slow", beta_slow);
  lines.AddExact("rope_attention_factor", attention_factor);
  lines.AddExact("rope_mscale", mscale);
  lines.AddExact("rope_mscale_all_dim", mscale_all_dim);
  lines.Add("rope_truncate", truncate);
}

// Adds a digest of the RoPE factors. The factors depend on the sine and cosine of the C library.
void AddRopeTable(const ModelConfig& model, Lines& lines) {
  const std::vector<float> table =
      RopeTable(model.rope, model.head_dim, std::min(model.max_positions, kRopePositions));
  const std::string_view bytes(reinterpret_cast<const char*>(table.data()),
                               table.size() * sizeof(float));
  lines.Add("rope_table", fmt::format("{:02x}", fmt::join(Sha256(OctetsOf(bytes)), "")));
}

// Binds every member of ModelConfig. A new member therefore causes a compiler error here. The ids
// of end-of-sequence tokens do not change keys and values. The digest of the weights contains the
// other members that are left out.
void AddModel(const ModelConfig& model, Lines& lines) {
  const auto& [architecture, hidden_size, intermediate_size, num_layers, num_heads, num_kv_heads,
               head_dim, vocab_size, max_positions, rms_norm_epsilon, tied_embeddings,
               tying_is_given, qkv_bias, output_bias, mlp_bias, qk_norm, rope, layer_windows, dtype,
               eos_ids] = model;
  static_cast<void>(tying_is_given), static_cast<void>(dtype), static_cast<void>(eos_ids);
  lines.Add("architecture", architecture);
  lines.Add("hidden_size", hidden_size);
  lines.Add("intermediate_size", intermediate_size);
  lines.Add("num_layers", num_layers);
  lines.Add("num_heads", num_heads);
  lines.Add("num_kv_heads", num_kv_heads);
  lines.Add("head_dim", head_dim);
  lines.Add("vocab_size", vocab_size);
  lines.Add("max_positions", max_positions);
  lines.AddExact("rms_norm_epsilon", double{rms_norm_epsilon});
  lines.Add("tied_embeddings", tied_embeddings);
  lines.Add("qkv_bias", qkv_bias);
  lines.Add("output_bias", output_bias);
  lines.Add("mlp_bias", mlp_bias);
  lines.Add("qk_norm", qk_norm);
  lines.Add("layer_windows", fmt::format("{}", fmt::join(layer_windows, ",")));
  AddRope(rope, lines);
}

}  // namespace

std::string FingerprintText(const FingerprintParts& parts) {
  INCIPIT_CHECK(parts.model != nullptr);
  Lines lines;
  lines.Add("numerics_version", kNumericsVersion);
  lines.Add("kv_layout_version", kKvLayoutVersion);
  lines.Add("backend", parts.backend);
  lines.Add("numerics", parts.numerics);
  lines.Add("weights", fmt::format("{:02x}", fmt::join(parts.weights, "")));
  lines.Add("weight_format", static_cast<int>(parts.weight_format));
  lines.Add("shard", fmt::format("{}/{}", parts.shard.index, parts.shard.count));
  lines.Add("kv_dtype", NameOf(parts.kv_dtype));
  lines.Add("block_size", parts.chunk.block_size);
  lines.Add("block_bytes", parts.chunk.block_bytes);
  lines.Add("blocks_per_chunk", parts.chunk.blocks_per_chunk);
  AddModel(*parts.model, lines);
  AddRopeTable(*parts.model, lines);
  return lines.Take();
}

Fingerprint FingerprintOf(const FingerprintParts& parts) {
  return Sha256(OctetsOf(FingerprintText(parts)));
}

}  // namespace incipit
