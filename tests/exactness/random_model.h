// Small transformers of random weights, one for each family, whose logits, keys and values a test
// can read bit for bit, cut into steps as it likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/backend.h"
#include "kernels/cpu/kv_pool.h"
#include "tests/conformance/support.h"
#include "transformer/config.h"
#include "transformer/transformer.h"
#include "transformer/weights.h"

namespace incipit {

struct Family {
  std::string name;
  ModelConfig config;
  int32_t block_size = 16;
};
// Llama, Mistral with a sliding window, Qwen2 and Qwen3; heads, groups and blocks of other sizes.
const std::vector<Family>& Families();

// One layer of few heads, to be cheap where contexts are long.
Family LongContextFamily(int32_t window, int32_t max_positions);

// How a model's weights are kept.
struct WeightForm {
  std::string name;
  DType stored = DType::kF32;
  WeightFormat format = WeightFormat::kAsStored;
};
const std::vector<WeightForm>& WeightForms();

struct RandomModelOptions {
  const Family* family = nullptr;  // outlives the model
  const BackendCase* backend = nullptr;
  WeightForm weights;
  DType kv_dtype = DType::kF32;
  int32_t num_threads = 1;
  int32_t num_blocks = 0;
};

// Tokens of one sequence, at consecutive positions.
struct Part {
  std::span<const TokenId> tokens;
  int32_t first_position = 0;
  std::vector<BlockId> blocks;
};

class RandomModel {
 public:
  explicit RandomModel(const RandomModelOptions& options);

  // One step. The logits of every token, or of each part's last.
  enum class Rows : uint8_t { kAll, kLast };
  Tensor Run(const std::vector<Part>& parts, Rows rows = Rows::kAll);

  void Copy(const BlockCopy& copy) { backend_->CopyBlocks(*pool_, {&copy, 1}); }

  // The keys and values of one position, all layers and heads.
  std::vector<std::byte> KeysAndValues(std::span<const BlockId> blocks, int32_t position) const;

  const ModelConfig& config() const { return family_.config; }

 private:
  void Load(const WeightForm& form);
  std::unique_ptr<Weight> PackMatrix(int64_t rows, int64_t cols, WeightUse use,
                                     const WeightForm& form);
  std::unique_ptr<Buffer> StoreRandom(int64_t size, float low, float high);
  LayerWeights RandomLayer(const WeightForm& form);

  const Family& family_;
  std::unique_ptr<Backend> backend_;
  RandomNumbers numbers_{11};
  std::vector<std::unique_ptr<Tensor>> tensors_;  // that weights may use in place
  ModelWeights weights_;
  std::unique_ptr<Buffer> rope_;
  std::unique_ptr<KvPool> pool_;
  std::optional<Transformer> transformer_;
};

}  // namespace incipit
