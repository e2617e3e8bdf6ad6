#include "cli/commands.h"

#include "cli/analysis/analyze.h"
#include "cli/analysis/replay.h"
#include "cli/bench/bench.h"
#include "cli/bench/bench_model.h"
#include "cli/cache/cache.h"
#include "cli/client/chat.h"
#include "cli/client/generate.h"
#include "cli/render.h"
#include "cli/tokenize.h"

namespace incipit {

std::span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {"generate", "continue one prompt", &RunGenerate},
      {"chat", "talk with a model that has a chat template", &RunChat},
      {"bench", "send load to a server and measure latency and throughput", &RunBench},
      {"bench-model", "measure the speed of a model without a server", &RunBenchModel},
      {"analyze", "measure how much computing a prefix cache saves for a log of prompts",
       &RunAnalyze},
      {"replay", "compare eviction policies on a log of prompts", &RunReplay},
      {"cache", "inspect, verify, export or import the folder of a disk cache", &RunCache},
      {"tokenize", "convert text to token ids, without a server", &RunTokenize},
      {"detokenize", "convert token ids to text, without a server", &RunDetokenize},
      {"render", "convert conversations to prompts, without a server", &RunRender},
  };
  return kCommands;
}

}  // namespace incipit
