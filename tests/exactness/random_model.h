// Small transformers with random weights, one for each model family. A test cuts the sequence into
// steps of any size, and reads logits, keys and values bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
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
// Returns Llama, Mistral with a sliding window, Qwen2 and Qwen3, each with other numbers of heads,
// head groups and block sizes.
const std::vector<Family>& Families();

// Returns a model with one layer and few heads, which keeps tests with long contexts fast.
Family LongContextFamily(int32_t window, int32_t max_positions);

// The data type in which a checkpoint stores the weights, and the format in which the backend keeps
// the weights.
struct WeightForm {
  std::string name;
  DType stored = DType::kF32;
  WeightFormat format = WeightFormat::kAsStored;
};
const std::vector<WeightForm>& WeightForms();

struct RandomModelOptions {
  // REQUIRES: `*family` outlives the model.
  const Family* family = nullptr;
  const BackendCase* backend = nullptr;
  WeightForm weights;
  DType kv_dtype = DType::kF32;
  int32_t num_threads = 1;
  int32_t num_blocks = 0;
};

// Consecutive tokens of one sequence.
struct Part {
  std::span<const TokenId> tokens;
  int32_t first_position = 0;
  std::vector<BlockId> blocks;
};

class RandomModel {
 public:
  explicit RandomModel(const RandomModelOptions& options);

  // Rows of the logits that Run returns: all tokens of the step, or the last token of each part.
  enum class Rows : uint8_t { kAll, kLast };
  // Runs one step. Returns the logits of the rows `rows`.
  Tensor Run(const std::vector<Part>& parts, Rows rows = Rows::kAll);

  void Copy(const BlockCopy& copy) { backend_->CopyBlocks(*pool_, {&copy, 1}); }

  // Writes the keys and values of one block, as Blocks returns them, to another block.
  void Write(const BlockWrite& write) {
    backend_->WriteBlocks(*pool_, {&write, 1});
    INCIPIT_CHECK(backend_->Synchronize().ok());
  }

  // Returns the bytes of whole blocks, as the backend stores them.
  std::vector<std::byte> Blocks(std::span<const BlockId> blocks) const;
  // Returns the stored bytes of the keys and values of one position, in all layers and heads.
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
  // Tensors that must live as long as the model, because weights may use their memory.
  std::vector<std::unique_ptr<Tensor>> tensors_;
  ModelWeights weights_;
  std::unique_ptr<Buffer> rope_;
  std::unique_ptr<KvPool> pool_;
  std::optional<Transformer> transformer_;
};

}  // namespace incipit
