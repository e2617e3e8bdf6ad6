#include "cli/serve_load.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/serve.h"
#include "cli/serve_defaults.h"
#include "cli/serve_tier.h"
#include "engine/transformer_runner.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/cuda/cuda_options.h"
#include "server/engine_options.h"
#include "text/tokenizer/tokenizer_config.h"

namespace incipit {
namespace {

constexpr char kExitCodePayload[] = "incipit.exit_code";

// Attaches `exit_code` to `status` if `status` is an error. ExitCodeOf() returns the attached code.
absl::Status WithExitCode(absl::Status status, int exit_code) {
  if (!status.ok()) status.SetPayload(kExitCodePayload, absl::Cord(fmt::to_string(exit_code)));
  return status;
}

CudaOptions CudaOptionsOf(const Options& options) {
  CudaOptions cuda;
  cuda.large_products = options.gpu_large_products;
  cuda.tuning_file = TuningFileOf(options);
  cuda.note = [](std::string_view note, bool is_warning) {
    spdlog::log(is_warning ? spdlog::level::warn : spdlog::level::info, "{}", note);
  };
  return cuda;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const Options& options) {
  if (options.backend != Device::kCpu) {
    auto cuda = CreateCudaBackend(CudaOptionsOf(options));
    if (cuda.ok() || options.backend == Device::kCuda) return cuda;
    // Use the CPU only if the program was built without CUDA or the machine has no CUDA device. If
    // the machine has a CUDA device that cannot be used, return the error.
    const absl::StatusCode code = cuda.status().code();
    if (code != absl::StatusCode::kUnimplemented && code != absl::StatusCode::kUnavailable) {
      return cuda;
    }
    if (code == absl::StatusCode::kUnavailable) {
      spdlog::info("serving on the CPU: {}", MessageOf(cuda.status()));
    }
  }
  CpuOptions cpu;
  cpu.num_threads = options.threads;
  cpu.pin_threads = options.pin_threads;
  if (options.cpu_isa) cpu.isa = NameOf(*options.cpu_isa);
  return CreateCpuBackend(cpu);
}

absl::Status CheckKvDtype(const Options& options, const BackendLimits& limits) {
  const std::vector<DType>& offered = limits.kv_dtypes;
  if (!options.kv_dtype || std::ranges::find(offered, *options.kv_dtype) != offered.end()) {
    return absl::OkStatus();
  }
  std::vector<std::string_view> names;
  for (const DType one : offered) names.push_back(NameOf(one));
  return InvalidArgument("--kv-dtype is {}; the backend {} supports {}", NameOf(*options.kv_dtype),
                         limits.name, fmt::join(names, ", "));
}

absl::Status LoadText(const Options& options, ServerParts& parts) {
  auto tokenizer = Tokenizer::Load(options.model);
  if (absl::IsNotFound(tokenizer.status())) {
    spdlog::warn("{} has no tokenizer.json, so requests must contain token ids", options.model);
    return absl::OkStatus();
  }
  INCIPIT_RETURN_IF_ERROR(tokenizer.status());
  parts.tokenizer = *std::move(tokenizer);
  parts.model.has_tokenizer = true;
  TokenizerConfig chosen = parts.tokenizer->config();
  if (options.chat_template.kind != FileChoice::Kind::kAuto) {
    chosen.chat_template.reset();
    chosen.tool_chat_template.reset();
  }
  if (options.chat_template.kind == FileChoice::Kind::kFile) {
    INCIPIT_ASSIGN_OR_RETURN(chosen.chat_template,
                             ReadTextFile(options.chat_template.path, kChatTemplateBytesMax));
  }
  if (!chosen.has_chat_template()) return absl::OkStatus();
  auto chat_template = ChatTemplate::Parse(chosen);
  if (!chat_template.ok()) return Annotate(chat_template.status(), "chat template");
  parts.chat_template = std::make_unique<ChatTemplate>(*std::move(chat_template));
  parts.model.has_chat_template = true;
  return absl::OkStatus();
}

uint64_t CountParameters(const Model& model) {
  uint64_t count = 0;
  for (const auto& [name, tensor] : model.checkpoint.tensors()) {
    uint64_t size = 1;
    for (const int64_t extent : tensor.shape) size *= static_cast<uint64_t>(extent);
    count += size;
  }
  return count;
}

absl::Status Describe(const Options& options, const Loaded& loaded,
                      const TransformerRunnerOptions& runner, ServerParts& parts) {
  const ModelConfig& config = loaded.model->config;
  ServedModel& model = parts.model;
  // The name of the model is the last folder of the path. If the path ends with a slash, filename()
  // is empty, and parent_path() is the path without the slash.
  const auto folder = std::filesystem::absolute(options.model).lexically_normal();
  const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  model.name = options.model_name.empty() ? name.string() : options.model_name;
  model.aliases = options.model_aliases;
  model.vocab_size = config.vocab_size;
  model.max_model_len = runner.max_model_len;
  model.eos_ids = config.eos_ids;
  INCIPIT_ASSIGN_OR_RETURN(model.defaults, ReadGenerationDefaults(options.model));
  ModelDescription& description = parts.description;
  description.architecture = config.architecture;
  description.dtype = NameOf(loaded.model->weights.dtype);
  description.kv_dtype = NameOf(*runner.kv_dtype);
  description.num_parameters = CountParameters(*loaded.model);
  description.num_layers = config.num_layers;
  description.hidden_size = config.hidden_size;
  description.num_heads = config.num_heads;
  description.num_kv_heads = config.num_kv_heads;
  description.head_dim = config.head_dim;
  description.backend = loaded.backend->limits().name;
  description.backend_description = loaded.backend->limits().description;
  return absl::OkStatus();
}

bool OffersInt8(const Backend& backend) {
  const auto& formats = backend.limits().weight_formats;
  return std::ranges::find(formats, WeightFormat::kInt8) != formats.end();
}

// If `status` is RESOURCE_EXHAUSTED, appends the advice `flags` (flags that reduce memory use) to
// the message. Returns any other status unchanged.
absl::Status WithFlags(const absl::Status& status, std::string_view flags) {
  if (!absl::IsResourceExhausted(status)) return status;
  return ResourceExhausted("{}; {}", MessageOf(status), flags);
}

// Returns advice for the user: the flags that reduce memory use.
std::string_view FlagsOfMemory(const Options& options, const Loaded& loaded) {
  if (options.kv_blocks.has_value())
    return "use a smaller value of --kv-blocks, --step-tokens or --running-max";
  if (options.kv_memory > 0)
    return "use a smaller value of --kv-memory, --step-tokens or --running-max";
  if (IsCpu(*loaded.backend))
    return "use a smaller value of --step-tokens, --running-max or --max-model-len";
  return "use a smaller value of --gpu-memory-fraction, --step-tokens, --running-max or "
         "--max-model-len";
}

// Creates the runner of the model in `loaded`. If the server has measured steps to choose the step
// size, stores the measurements in the scheduler options of `loaded`.
absl::StatusOr<std::unique_ptr<TransformerRunner>> CreateRunner(const Options& options,
                                                                Loaded& loaded) {
  INCIPIT_ASSIGN_OR_RETURN(RunnerChoice choice,
                           RunnerOptionsOf(options, *loaded.backend, *loaded.model));
  loaded.parts.engine.scheduler.measured_steps = std::move(choice.measured_steps);
  return TransformerRunner::Create(*loaded.backend, *loaded.model, choice.runner);
}

absl::Status LoadRunner(const Options& options, Loaded& loaded) {
  EngineOptions& engine = loaded.parts.engine;
  engine.scheduler = SchedulerOptionsOf(options);
  auto runner = CreateRunner(options, loaded);
  if (!runner.ok()) {
    return WithExitCode(WithFlags(runner.status(), FlagsOfMemory(options, loaded)), kExitDevice);
  }
  const TransformerRunnerOptions& decided = (*runner)->options();
  engine.scheduler.step_tokens_max = decided.step_tokens_max;
  engine.scheduler.steps_in_flight_max = StepsInFlightOf(options, *loaded.backend);
  engine.cache = CacheOptionsOf(options);
  engine.cache.num_blocks = decided.num_blocks;
  engine.cache.block_size = decided.block_size;
  engine.waiting_prompt_tokens_max = options.waiting_prompt_tokens_max;
  spdlog::info(
      "the cache has {} blocks of {} tokens ({} MiB); a step (batch) computes at most {} tokens",
      decided.num_blocks, decided.block_size, (*runner)->kv_bytes() >> 20, decided.step_tokens_max);
  const int64_t capacity = int64_t{decided.num_blocks} * decided.block_size;
  if (capacity < decided.max_model_len) {
    spdlog::warn(
        "the cache holds {} tokens, less than the context of {} tokens; requests that do not "
        "fit into the cache are rejected",
        capacity, decided.max_model_len);
  }
  INCIPIT_RETURN_IF_ERROR(
      WithExitCode(Describe(options, loaded, decided, loaded.parts), kExitModel));
  auto tier = CreateDiskTier(options, *loaded.backend, *loaded.model, **runner);
  if (!tier.ok()) return WithExitCode(Annotate(tier.status(), "--disk-cache"), kExitUsage);
  loaded.parts.disk_tier = *std::move(tier);
  loaded.parts.runner = *std::move(runner);
  return absl::OkStatus();
}

// Loads backend, model, tokenizer, chat template and runner into `loaded`. If loading fails, the
// returned status contains an exit code (see ExitCodeOf()).
absl::Status Load(const Options& options, Loaded& loaded) {
  auto backend = CreateBackend(options);
  if (!backend.ok()) return WithExitCode(backend.status(), kExitDevice);
  loaded.backend = *std::move(backend);
  INCIPIT_RETURN_IF_ERROR(
      WithExitCode(CheckKvDtype(options, loaded.backend->limits()), kExitUsage));
  // CreateDiskTier digests the tensors. Pages that are still mapped make the digest about twice as
  // fast.
  const TensorPages pages =
      options.disk_cache.empty() ? TensorPages::kReleased : TensorPages::kKept;
  auto model = LoadModel(options.model, *loaded.backend, options.weights, pages);
  if (absl::IsResourceExhausted(model.status())) {
    return WithExitCode(
        WithFlags(model.status(), OffersInt8(*loaded.backend)
                                      ? "with --weights int8, the model needs less memory"
                                      : "the model needs a device with more memory"),
        kExitDevice);
  }
  if (!model.ok()) return WithExitCode(model.status(), kExitModel);
  loaded.model.emplace(*std::move(model));
  const int32_t context = loaded.model->config.max_positions;
  if (options.max_model_len.value_or(0) > context) {
    return WithExitCode(
        InvalidArgument("--max-model-len is {}; the maximum is the model's context, {} tokens",
                        *options.max_model_len, context),
        kExitUsage);
  }
  const auto& non_finite = loaded.model->weights.non_finite;
  if (!non_finite.empty()) {
    spdlog::warn(
        "{} weight tensors contain values that are not finite (NaN or infinite); the first of "
        "these tensors is {}",
        non_finite.size(), non_finite.front());
  }
  INCIPIT_RETURN_IF_ERROR(WithExitCode(LoadText(options, loaded.parts), kExitModel));
  return LoadRunner(options, loaded);
}

}  // namespace

// Runs Load() on a temporary thread, so that the thread of the caller stays unchanged. Load() may
// pin its thread to one CPU, and OpenMP attaches worker threads to the thread.
absl::Status LoadApart(const Options& options, Loaded& loaded) {
  absl::Status status;
  std::thread([&] { status = Load(options, loaded); }).join();
  return status;
}

int ExitCodeOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kExitCodePayload);
  return payload ? std::stoi(std::string(*payload)) : kExitFailure;
}

}  // namespace incipit
