#include "cli/commands.h"

#include "cli/analysis/analyze.h"
#include "cli/analysis/replay.h"
#include "cli/bench/bench.h"
#include "cli/bench/bench_model.h"
#include "cli/client/chat.h"
#include "cli/client/generate.h"
#include "cli/render.h"
#include "cli/tokenize.h"

namespace incipit {

std::span<const Command> Commands() {
  static constexpr Command kCommands[] = {
      {"generate", "continue one prompt", &RunGenerate},
      {"chat", "talk with a model that has a chat template", &RunChat},
      {"bench", "put load on a server and measure it", &RunBench},
      {"bench-model", "how fast this machine computes a model, without a server", &RunBenchModel},
      {"analyze", "what a prefix cache can do for a log of prompts", &RunAnalyze},
      {"replay", "what eviction policies make of a log of prompts", &RunReplay},
      {"tokenize", "text to token ids, without a server", &RunTokenize},
      {"detokenize", "token ids to text, without a server", &RunDetokenize},
      {"render", "conversations to prompts by a chat template, without a server", &RunRender},
  };
  return kCommands;
}

}  // namespace incipit
