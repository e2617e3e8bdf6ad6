#include "transformer/config.h"

#include <fmt/format.h>

#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Returns a small configuration. `extra` contains further keys, written as `"key": value`, which
// come first.
std::string Config(std::string_view architecture, std::string_view extra = "") {
  return fmt::format(R"({{{}{} "architectures": ["{}"], "hidden_size": 64, "intermediate_size": 96,
                          "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 128}})",
                     extra, extra.empty() ? "" : ",", architecture);
}
std::string Llama(std::string_view extra = "") { return Config("LlamaForCausalLM", extra); }
std::string Mistral(std::string_view extra = "") { return Config("MistralForCausalLM", extra); }
std::string Qwen2(std::string_view extra = "") { return Config("Qwen2ForCausalLM", extra); }
std::string Qwen3(std::string_view extra = "") { return Config("Qwen3ForCausalLM", extra); }

ModelConfig Parse(const std::string& json, std::string_view generation = "") {
  const auto config = ParseModelConfig(json, generation);
  EXPECT_TRUE(config.ok()) << config.status() << " " << json;
  return config.ok() ? *config : ModelConfig();
}

void ExpectError(absl::StatusCode code, const std::string& json,
                 const testing::Matcher<std::string>& message, std::string_view generation = "") {
  const auto config = ParseModelConfig(json, generation);
  EXPECT_EQ(config.status().code(), code) << config.status() << " " << json;
  EXPECT_THAT(MessageOf(config.status()), message);
}
void ExpectInvalid(const std::string& json, const testing::Matcher<std::string>& message) {
  ExpectError(absl::StatusCode::kInvalidArgument, json, message);
}
void ExpectUnimplemented(const std::string& json, const testing::Matcher<std::string>& message) {
  ExpectError(absl::StatusCode::kUnimplemented, json, message);
}

TEST(ModelConfigTest, AbsentKeysMeanWhatTransformersMeansByThem) {
  const ModelConfig llama = Parse(R"({"architectures": ["LlamaForCausalLM"]})");
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.intermediate_size, 11008);
  EXPECT_EQ(llama.num_layers, 32);
  EXPECT_EQ(llama.num_heads, 32);
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.max_positions, 2048);
  EXPECT_EQ(llama.rms_norm_epsilon, 1e-6F);
  EXPECT_EQ(llama.rope.theta, 10000);
  EXPECT_FALSE(llama.tied_embeddings || llama.qkv_bias || llama.output_bias || llama.mlp_bias);
  EXPECT_FALSE(llama.qk_norm);
  EXPECT_THAT(llama.layer_windows, AllOf(testing::SizeIs(32), Each(0)));

  const ModelConfig mistral = Parse(R"({"architectures": ["MistralForCausalLM"]})");
  EXPECT_EQ(mistral.intermediate_size, 14336);
  EXPECT_EQ(mistral.num_kv_heads, 8);
  EXPECT_EQ(mistral.max_positions, 131072);
  EXPECT_THAT(mistral.layer_windows, Each(4096));

  const ModelConfig qwen2 = Parse(R"({"architectures": ["Qwen2ForCausalLM"]})");
  EXPECT_EQ(qwen2.vocab_size, 151936);
  EXPECT_EQ(qwen2.intermediate_size, 22016);
  EXPECT_EQ(qwen2.max_positions, 32768);
  EXPECT_EQ(qwen2.num_kv_heads, 32);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_THAT(qwen2.layer_windows, Each(0));

  const ModelConfig qwen3 =
      Parse(R"({"architectures": ["Qwen3ForCausalLM"], "num_attention_heads": 64})");
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(qwen3.num_kv_heads, 32);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
}

TEST(ModelConfigTest, HeadsAreGivenOrDerived) {
  EXPECT_EQ(Parse(Llama()).head_dim, 16);
  EXPECT_EQ(Parse(Llama(R"("head_dim": null)")).head_dim, 16);
  EXPECT_EQ(Parse(Llama(R"("head_dim": 40)")).head_dim, 40);
  EXPECT_EQ(Parse(Qwen2(R"("head_dim": 24, "num_key_value_heads": 1)")).head_dim, 24);
  EXPECT_EQ(Parse(Llama(R"("num_key_value_heads": null)")).num_kv_heads, 4);
  EXPECT_EQ(Parse(Mistral(R"("num_key_value_heads": null)")).num_kv_heads, 4);
  EXPECT_EQ(Parse(Qwen3(R"("num_key_value_heads": 2)")).num_kv_heads, 2);
}

TEST(ModelConfigTest, BiasesAreThoseOfTheFamily) {
  const ModelConfig llama = Parse(Llama(R"("attention_bias": true, "mlp_bias": true)"));
  EXPECT_TRUE(llama.qkv_bias && llama.output_bias && llama.mlp_bias);
  const ModelConfig qwen3 =
      Parse(Qwen3(R"("attention_bias": true, "num_key_value_heads": 2, "mlp_bias": true)"));
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.output_bias);
  EXPECT_FALSE(qwen3.mlp_bias);
  const ModelConfig qwen2 = Parse(Qwen2(R"("attention_bias": false, "num_key_value_heads": 2)"));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
}

TEST(ModelConfigTest, WindowsAreThoseOfTheFamily) {
  constexpr std::string_view kKv = R"("num_key_value_heads": 2)";
  const auto with = [&](std::string_view extra) { return fmt::format("{}, {}", kKv, extra); };
  EXPECT_THAT(Parse(Mistral(with(R"("sliding_window": 7)"))).layer_windows, Each(7));
  EXPECT_THAT(Parse(Mistral(with(R"("sliding_window": null)"))).layer_windows, Each(0));
  EXPECT_THAT(Parse(Mistral(with(R"("x": 1)"))).layer_windows, Each(4096));
  EXPECT_THAT(Parse(Qwen2(with(R"("sliding_window": 7)"))).layer_windows, Each(0));
  EXPECT_THAT(
      Parse(Qwen2(with(R"("use_sliding_window": true, "sliding_window": 7)"))).layer_windows,
      // Only layers from number 28 (max_window_layers) on would have a window, and the model has 4
      // layers.
      Each(0));
  EXPECT_THAT(Parse(Qwen2(with(R"("use_sliding_window": true, "sliding_window": 7,
                                  "max_window_layers": 3)")))
                  .layer_windows,
              ElementsAre(0, 0, 0, 7));
  EXPECT_THAT(
      Parse(Qwen3(with(R"("use_sliding_window": true, "max_window_layers": 0)"))).layer_windows,
      Each(4096));
  EXPECT_THAT(Parse(Qwen3(with(R"("use_sliding_window": true, "sliding_window": null,
                                  "max_window_layers": 0)")))
                  .layer_windows,
              Each(0));
  EXPECT_THAT(Parse(Qwen3(with(R"("use_sliding_window": true, "sliding_window": 7, "layer_types":
          ["sliding_attention", "full_attention", "attention", "sliding_attention"])")))
                  .layer_windows,
              ElementsAre(7, 0, 0, 7));
  EXPECT_THAT(Parse(Llama(R"("sliding_window": 4096)")).layer_windows, Each(0));
}

TEST(ModelConfigTest, WindowsThatAFamilyDoesNotHaveAreRefused) {
  constexpr std::string_view kSliding =
      R"("num_key_value_heads": 2, "layer_types":
         ["full_attention", "sliding_attention", "full_attention", "full_attention"])";
  ExpectUnimplemented(Llama(kSliding), HasSubstr("layer_types"));
  ExpectUnimplemented(Mistral(kSliding), HasSubstr("layer_types"));
  ExpectUnimplemented(Llama(R"("sliding_window": 100)"), HasSubstr("sliding_window is 100"));
  ExpectInvalid(Qwen3(kSliding), HasSubstr("use_sliding_window"));
  ExpectInvalid(Qwen2(R"("num_key_value_heads": 2, "layer_types": ["full_attention"])"),
                HasSubstr("4 layers (num_hidden_layers)"));
  ExpectUnimplemented(
      Qwen2(R"("num_key_value_heads": 2, "layer_types": ["full_attention", "full_attention",
               "full_attention", "linear_attention"])"),
      HasSubstr("linear_attention"));
}

TEST(ModelConfigTest, RopeIsReadInEverySpelling) {
  EXPECT_EQ(Parse(Llama(R"("rope_theta": 500000)")).rope.theta, 500000);
  EXPECT_EQ(Parse(Llama(R"("rope_theta": 1e6, "rope_scaling": null)")).rope.type,
            RopeType::kDefault);
  const std::string_view llama3 =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192)";
  for (const std::string& extra :
       {fmt::format(R"("rope_theta": 5e5, "rope_scaling": {{"type": "llama3", {}}})", llama3),
        fmt::format(R"("rope_theta": 5e5, "rope_scaling": {{"rope_type": "llama3", {}}})", llama3),
        fmt::format(R"("rope_parameters": {{"rope_type": "llama3", "rope_theta": 5e5, {}}})",
                    llama3),
        fmt::format(R"("rope_theta": 5e5, "rope_parameters": {{"rope_type": "llama3", {}}})",
                    llama3)}) {
    const RopeConfig rope = Parse(Llama(extra)).rope;
    EXPECT_EQ(rope.type, RopeType::kLlama3);
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 8);
    EXPECT_EQ(rope.low_freq_factor, 1);
    EXPECT_EQ(rope.high_freq_factor, 4);
    EXPECT_EQ(rope.original_max_positions, 8192);
  }
  const RopeConfig both = Parse(Llama(R"("rope_theta": 2, "rope_parameters": {"rope_theta": 3},
                                         "rope_scaling": {})"))
                              .rope;
  EXPECT_EQ(both.theta, 3);
  const RopeConfig linear = Parse(Llama(R"("rope_scaling": {"type": "linear", "factor": 2})")).rope;
  EXPECT_EQ(linear.type, RopeType::kLinear);
  EXPECT_EQ(linear.factor, 2);
}

TEST(ModelConfigTest, YarnReadsItsOptions) {
  const RopeConfig rope =
      Parse(Llama(R"("max_position_embeddings": 4096, "rope_scaling": {"type": "yarn", "factor": 4,
              "original_max_position_embeddings": 1024, "beta_fast": 16, "beta_slow": 2,
              "attention_factor": 1.5, "mscale": 0.5, "mscale_all_dim": 0.25, "truncate": false})"))
          .rope;
  EXPECT_EQ(rope.type, RopeType::kYarn);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_max_positions, 1024);
  EXPECT_EQ(rope.beta_fast, 16);
  EXPECT_EQ(rope.beta_slow, 2);
  EXPECT_EQ(rope.attention_factor, 1.5);
  EXPECT_EQ(rope.mscale, 0.5);
  EXPECT_EQ(rope.mscale_all_dim, 0.25);
  EXPECT_FALSE(rope.truncate);

  const RopeConfig defaults =
      Parse(Llama(R"("max_position_embeddings": 4096, "original_max_position_embeddings": 512,
               "rope_scaling": {"type": "yarn", "beta_fast": 0, "mscale": 0, "factor": null})"))
          .rope;
  EXPECT_EQ(defaults.original_max_positions, 512);
  EXPECT_EQ(defaults.factor, 8);
  EXPECT_EQ(defaults.beta_fast, 32);
  EXPECT_EQ(defaults.beta_slow, 1);
  EXPECT_FALSE(defaults.mscale || defaults.attention_factor);
  EXPECT_TRUE(defaults.truncate);
}

TEST(ModelConfigTest, UnsupportedOptionsAreRefusedByName) {
  ExpectUnimplemented(Config("GemmaForCausalLM"),
                      AllOf(HasSubstr("GemmaForCausalLM"), HasSubstr("Qwen3ForCausalLM")));
  ExpectUnimplemented(Llama(R"("hidden_act": "gelu")"), HasSubstr("hidden_act is \"gelu\""));
  ExpectUnimplemented(Llama(R"("quantization_config": {"quant_method": "awq"})"),
                      AllOf(HasSubstr("quantization_config"), HasSubstr("awq")));
  ExpectUnimplemented(Llama(R"("partial_rotary_factor": 0.5)"), HasSubstr("partial_rotary_factor"));
  ExpectUnimplemented(Llama(R"("rope_scaling": {"type": "linear", "factor": 2,
                               "partial_rotary_factor": 0.5})"),
                      HasSubstr("rope_scaling.partial_rotary_factor is 0.5"));
  ExpectUnimplemented(Llama(R"("attn_logit_softcapping": 50.0)"),
                      HasSubstr("attn_logit_softcapping is 50.0"));
  ExpectUnimplemented(Llama(R"("num_local_experts": 8)"), HasSubstr("num_local_experts is 8"));
  ExpectUnimplemented(Llama(R"("is_causal": false)"), HasSubstr("is_causal is false"));
  ExpectUnimplemented(Llama(R"("torch_dtype": "float64")"), HasSubstr("float64"));
  for (const std::string_view type : {"dynamic", "longrope", "su", "mrope", "proportional"}) {
    ExpectUnimplemented(
        Llama(fmt::format(R"("rope_scaling": {{"type": "{}", "factor": 2.0}})", type)),
        AllOf(HasSubstr("rope_scaling.type"), HasSubstr(std::string(type))));
  }
  ExpectUnimplemented(Llama(R"("rope_parameters": {"full_attention": {"rope_type": "default"}})"),
                      HasSubstr("full_attention"));
}

TEST(ModelConfigTest, OptionsThatChangeNothingAreAccepted) {
  Parse(Llama(R"("hidden_act": "silu", "quantization_config": null, "pretraining_tp": 2,
                 "partial_rotary_factor": 1.0, "num_local_experts": 0, "is_causal": true,
                 "attn_logit_softcapping": null, "unheard_of": {"a": [1, 2]}, "use_cache": true)"));
}

TEST(ModelConfigTest, BadSizesAreRefusedByKeyValueAndBound) {
  for (const std::string_view key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                                     "num_attention_heads", "vocab_size", "max_position_embeddings",
                                     "num_key_value_heads", "head_dim", "sliding_window"}) {
    for (const std::string_view value :
         {"0", "-1", "2147483648", "18446744073709551616", "1e3", "64.0", "\"64\"", "true", "[]"}) {
      // A file with two equal keys would be refused for that reason, so the configuration contains
      // only the tested key.
      const std::string json =
          fmt::format(R"({{"architectures": ["MistralForCausalLM"], "{}": {}}})", key, value);
      ExpectInvalid(json, AllOf(HasSubstr(fmt::format("{} is ", key)), HasSubstr("from ")));
    }
  }
}

TEST(ModelConfigTest, SizesThatDoNotBelongTogetherAreRefused) {
  ExpectInvalid(Llama(R"("num_key_value_heads": 3)"),
                AllOf(HasSubstr("num_key_value_heads is 3"), HasSubstr("4")));
  ExpectInvalid(Llama(R"("num_key_value_heads": 8)"), HasSubstr("num_key_value_heads is 8"));
  ExpectInvalid(Llama(R"("head_dim": 15)"), HasSubstr("head_dim is 15"));
  ExpectInvalid(
      R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 100, "num_attention_heads": 3})",
      HasSubstr("hidden_size is 100"));
  ExpectInvalid(R"({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 4})",
                HasSubstr("head_dim is 0"));
}

TEST(ModelConfigTest, BadNumbersAreRefusedByKeyValueAndBound) {
  for (const std::string_view value : {"0", "-1e-6", "1.5", "1e999", "\"1e-6\"", "false"}) {
    ExpectInvalid(Llama(fmt::format(R"("rms_norm_eps": {})", value)),
                  testing::AnyOf(HasSubstr("rms_norm_eps is "), HasSubstr("not valid JSON")));
  }
  ExpectInvalid(Llama(R"("rms_norm_eps": NaN)"), HasSubstr("not valid JSON"));
  for (const std::string_view value : {"0", "1", "-10000", "1e16"}) {
    ExpectInvalid(Llama(fmt::format(R"("rope_theta": {})", value)), HasSubstr("rope_theta is "));
  }
  ExpectInvalid(Llama(R"("rope_scaling": {"type": "linear"})"),
                HasSubstr("rope_scaling.factor is missing"));
  ExpectInvalid(Llama(R"("rope_scaling": {"type": "linear", "factor": 0})"),
                HasSubstr("rope_scaling.factor is 0"));
  ExpectInvalid(Llama(R"("rope_scaling": {"type": "yarn", "factor": 2, "attention_factor": -1})"),
                HasSubstr("attention_factor is -1"));
  ExpectInvalid(Llama(R"("rope_scaling": {"type": "llama3", "factor": 2, "low_freq_factor": 4,
                         "high_freq_factor": 4})"),
                HasSubstr("high_freq_factor"));
  ExpectInvalid(Llama(R"("rope_scaling": {"type": 7})"), HasSubstr("rope_scaling.type is 7"));
  ExpectInvalid(Llama(R"("rope_scaling": "linear")"), HasSubstr("rope_scaling is \"linear\""));
  ExpectInvalid(Llama(R"("tie_word_embeddings": 1)"), HasSubstr("tie_word_embeddings is 1"));
}

TEST(ModelConfigTest, MalformedFilesAreRefused) {
  ExpectInvalid("", HasSubstr("config.json"));
  ExpectInvalid("[]", HasSubstr("not a JSON object"));
  ExpectInvalid("{}", HasSubstr("architectures is missing"));
  ExpectInvalid(R"({"architectures": "LlamaForCausalLM"})", HasSubstr("architectures"));
  ExpectInvalid(R"({"architectures": []})", HasSubstr("architectures"));
  ExpectInvalid(R"({"architectures": ["LlamaForCausalLM"], "model_type": "mistral"})",
                HasSubstr("model_type is \"mistral\""));
  ExpectInvalid(Llama(R"("vocab_size": 128)"), HasSubstr("\"vocab_size\" occurs twice"));
  ExpectInvalid(std::string(10'000, '[') + std::string(10'000, ']'), HasSubstr("deeper than 64"));
  ExpectInvalid(Llama("\"x\": \"\xff\""), HasSubstr("not valid JSON"));
  ExpectInvalid(Llama().substr(0, 100), HasSubstr("not valid JSON"));
  EXPECT_EQ(Parse(R"({"model_type": "qwen3"})").architecture, "Qwen3ForCausalLM");
}

TEST(ModelConfigTest, DTypeIsReadInBothSpellings) {
  EXPECT_EQ(Parse(Llama()).dtype, std::nullopt);
  EXPECT_EQ(Parse(Llama(R"("torch_dtype": "bfloat16")")).dtype, DType::kBF16);
  EXPECT_EQ(Parse(Llama(R"("dtype": "float16", "torch_dtype": "float32")")).dtype, DType::kF16);
}

TEST(ModelConfigTest, EosIdsComeFromBothFiles) {
  EXPECT_THAT(Parse(Llama()).eos_ids, ElementsAre());
  EXPECT_THAT(Parse(Llama(R"("eos_token_id": null)")).eos_ids, ElementsAre());
  EXPECT_THAT(Parse(Llama(R"("eos_token_id": 2)")).eos_ids, ElementsAre(2));
  EXPECT_THAT(Parse(Llama(R"("eos_token_id": [9, 2, 9])"), R"({"eos_token_id": [5, 2]})").eos_ids,
              ElementsAre(2, 5, 9));
  EXPECT_THAT(Parse(Llama(), R"({"eos_token_id": 127})").eos_ids, ElementsAre(127));
}

TEST(ModelConfigTest, EosIdsOutsideTheVocabularyAreRefused) {
  for (const std::string_view id : {"128", "-1", "[3, 128]", "[null]", "\"2\"", "2.5"}) {
    const std::string key = fmt::format(R"("eos_token_id": {})", id);
    ExpectInvalid(Llama(key), HasSubstr("config.json: eos_token_id"));
    ExpectError(absl::StatusCode::kInvalidArgument, Llama(),
                HasSubstr("generation_config.json: eos_token_id"), fmt::format("{{{}}}", key));
  }
  ExpectError(absl::StatusCode::kInvalidArgument, Llama(), HasSubstr("generation_config.json"),
              "{");
}

}  // namespace
}  // namespace incipit
