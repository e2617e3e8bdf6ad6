#include "transformer/tensor_names.h"

#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig TinyConfig() {
  ModelConfig config;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 6;
  config.vocab_size = 10;
  config.tying_is_given = true;
  return config;
}

StoredTensor Stored(std::vector<int64_t> shape) {
  StoredTensor tensor;
  tensor.dtype_name = "F32";
  tensor.dtype = DType::kF32;
  tensor.shape = std::move(shape);
  return tensor;
}

StoredTensors TensorsOf(const ModelConfig& config) {
  StoredTensors tensors;
  for (const ExpectedTensor& expected : ExpectedTensors(config)) {
    tensors.emplace(expected.name, Stored(expected.shape));
  }
  tensors.emplace(kEmbeddingName, Stored({config.vocab_size, config.hidden_size}));
  tensors.emplace(kHeadName, Stored({config.vocab_size, config.hidden_size}));
  return tensors;
}

void ExpectError(absl::StatusCode code, const ModelConfig& config, const StoredTensors& tensors,
                 const testing::Matcher<std::string>& message) {
  const absl::Status status = CheckTensors(config, tensors);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(MessageOf(status), message);
}
void ExpectInvalid(const ModelConfig& config, const StoredTensors& tensors,
                   const testing::Matcher<std::string>& message) {
  ExpectError(absl::StatusCode::kInvalidArgument, config, tensors, message);
}

TEST(TensorNamesTest, ACompleteSetIsAccepted) {
  ModelConfig config = TinyConfig();
  EXPECT_TRUE(CheckTensors(config, TensorsOf(config)).ok());
  config.qkv_bias = config.output_bias = config.mlp_bias = config.qk_norm = true;
  StoredTensors tensors = TensorsOf(config);
  tensors.emplace("model.layers.1.self_attn.rotary_emb.inv_freq", Stored({3}));
  EXPECT_TRUE(CheckTensors(config, tensors).ok());
}

TEST(TensorNamesTest, MissingTensorsAreNamed) {
  const ModelConfig config = TinyConfig();
  for (const auto& [name, tensor] : TensorsOf(config)) {
    StoredTensors tensors = TensorsOf(config);
    tensors.erase(name);
    ExpectInvalid(config, tensors, AllOf(HasSubstr("missing"), HasSubstr(name)));
  }
  ExpectInvalid(config, {}, HasSubstr("and 17 more"));
}

TEST(TensorNamesTest, TensorsThatNothingReadsAreNamed) {
  const ModelConfig config = TinyConfig();
  for (const std::string name :
       {"model.layers.2.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.k_scale"}) {
    StoredTensors tensors = TensorsOf(config);
    tensors.emplace(name, Stored({8}));
    ExpectInvalid(config, tensors, HasSubstr(name));
  }
}

TEST(TensorNamesTest, OtherShapesAreNamedWithWhatIsExpected) {
  const ModelConfig config = TinyConfig();
  StoredTensors tensors = TensorsOf(config);
  tensors.find("model.layers.1.self_attn.k_proj.weight")->second.shape = {8, 12};
  ExpectInvalid(config, tensors,
                AllOf(HasSubstr("model.layers.1.self_attn.k_proj.weight"), HasSubstr("[8, 12]"),
                      HasSubstr("[12, 8]")));
}

TEST(TensorNamesTest, AllTensorsAreOfTheModelsDType) {
  ModelConfig config = TinyConfig();
  StoredTensors tensors = TensorsOf(config);
  StoredTensor& odd = tensors.find("model.layers.0.mlp.down_proj.weight")->second;
  odd.dtype = DType::kBF16;
  odd.dtype_name = "BF16";
  ExpectInvalid(
      config, tensors,
      AllOf(HasSubstr("model.layers.0.mlp.down_proj.weight has the type BF16"), HasSubstr("F32")));
  odd.dtype.reset();
  odd.dtype_name = "F8_E4M3";
  ExpectError(absl::StatusCode::kUnimplemented, config, tensors,
              HasSubstr("model.layers.0.mlp.down_proj.weight has the type F8_E4M3"));
  config.dtype = DType::kF16;
  ExpectInvalid(config, TensorsOf(config),
                AllOf(HasSubstr("F32"), HasSubstr("config.json is f16")));
}

TEST(TensorNamesTest, ATiedHeadIsTheEmbeddingUnlessThereIsAnother) {
  ModelConfig config = TinyConfig();
  config.tied_embeddings = true;
  StoredTensors tensors = TensorsOf(config);
  EXPECT_TRUE(CheckTensors(config, tensors).ok());
  EXPECT_EQ(NamesOfEnds(config, tensors).head, kHeadName);
  tensors.erase(tensors.find(kHeadName));
  EXPECT_TRUE(CheckTensors(config, tensors).ok());
  EXPECT_EQ(NamesOfEnds(config, tensors).head, kEmbeddingName);
  tensors = TensorsOf(config);
  tensors.erase(tensors.find(kEmbeddingName));
  EXPECT_TRUE(CheckTensors(config, tensors).ok());
  EXPECT_EQ(NamesOfEnds(config, tensors).embedding, kHeadName);
}

TEST(TensorNamesTest, AnAbsentHeadMeansTiedWhereTheConfigurationDoesNotSay) {
  ModelConfig config = TinyConfig();
  StoredTensors tensors = TensorsOf(config);
  tensors.erase(tensors.find(kHeadName));
  ExpectInvalid(config, tensors, HasSubstr("lm_head.weight"));
  config.tying_is_given = false;
  EXPECT_TRUE(CheckTensors(config, tensors).ok());
}

}  // namespace
}  // namespace incipit
