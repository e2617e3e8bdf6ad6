#include "transformer/weights.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/backend.h"
#include "tests/transformer/safetensors_builder.h"
#include "transformer/model.h"
#include "transformer/tensor_names.h"

namespace incipit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kConfig =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "vocab_size": 10, "max_position_embeddings": 32, "attention_bias": true,
        "tie_word_embeddings": true})";

class WeightsTest : public testing::Test {
 protected:
  WeightsTest() {
    backend_ = reference::CreateBackend(0);
    config_ = *ParseModelConfig(kConfig, "");
    for (const ExpectedTensor& expected : ExpectedTensors(config_)) {
      tensors_.push_back({expected.name, expected.shape});
    }
    tensors_.push_back({std::string(kEmbeddingName), {config_.vocab_size, config_.hidden_size}});
  }

  BuiltTensor& Tensor(std::string_view name) {
    for (BuiltTensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return tensors_.front();
  }

  absl::StatusOr<Model> Load() {
    WriteFile(folder_.path() / "config.json", kConfig);
    WriteFile(folder_.path() / "model.safetensors", SafetensorsFile(tensors_));
    return LoadModel(folder_.path(), *backend_);
  }

  std::unique_ptr<Backend> backend_;
  ModelConfig config_;
  std::vector<BuiltTensor> tensors_;
  TemporaryFolder folder_;
};

TEST_F(WeightsTest, MatricesThatAreMultipliedTogetherArePackedTogether) {
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelWeights& weights = model->weights;
  EXPECT_EQ(weights.dtype, DType::kF32);
  ASSERT_EQ(weights.layers.size(), 1U);
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(layer.qkv->rows(), (2 + 2 * 1) * 4);
  EXPECT_EQ(layer.gate_up->rows(), 2 * 12);
  EXPECT_EQ(layer.down->cols(), 12);
  EXPECT_EQ(layer.qkv_bias->byte_size(), 16 * sizeof(float));
  EXPECT_NE(layer.output_bias, nullptr);
  EXPECT_EQ(layer.gate_up_bias, nullptr);
  EXPECT_EQ(layer.query_norm, nullptr);
  EXPECT_EQ(weights.head->rows(), 10);
  EXPECT_THAT(weights.non_finite, ElementsAre());
}

TEST_F(WeightsTest, TensorsAtOddAddressesAreRead) {
  for (BuiltTensor& tensor : tensors_) {
    tensor.dtype = "BF16";
    tensor.bytes_per_element = 2;
  }
  std::string file = SafetensorsFile(tensors_);
  WriteFile(folder_.path() / "config.json", kConfig);
  const auto header_size = static_cast<uint8_t>(file[0]) + 256 * static_cast<uint8_t>(file[1]);
  WriteFile(folder_.path() / "model.safetensors",
            SafetensorsFile(file.substr(8, static_cast<size_t>(header_size)) + " ",
                            file.substr(8 + static_cast<size_t>(header_size))));
  const auto model = LoadModel(folder_.path(), *backend_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(static_cast<const float*>(model->weights.final_norm->data())[7], 1.0F);
}

TEST_F(WeightsTest, TensorsWithValuesThatAreNotFiniteAreNamed) {
  Tensor("model.layers.0.mlp.down_proj.weight").data =
      std::string(4 * 12 * 8 - 4, '\0') + std::string("\x00\x00\x80\xff", 4);  // -infinity
  Tensor("model.norm.weight").data =
      std::string("\x01\x00\x80\x7f", 4) + std::string(4 * 7, '\0');  // NaN
  const auto model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->weights.non_finite,
              ElementsAre("model.layers.0.mlp.down_proj.weight", "model.norm.weight"));
}

TEST_F(WeightsTest, ErrorsNameTheFolder) {
  tensors_.pop_back();
  const auto model = Load();
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(model.status()), HasSubstr(folder_.path().string()));
  EXPECT_THAT(MessageOf(model.status()), HasSubstr("model.embed_tokens.weight"));
}

}  // namespace
}  // namespace incipit
