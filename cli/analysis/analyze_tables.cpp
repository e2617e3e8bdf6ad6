#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/analysis/analyze_output.h"
#include "cli/analysis/analyze_text.h"

namespace incipit {
namespace {

using Column = TextTable::Column;
constexpr auto kLeft = TextTable::Align::kLeft;

constexpr size_t kIndent = 2;
constexpr size_t kTimelineRows = 12;
constexpr int64_t kBarWidth = 30;

// A text table with two columns, the name and the value of a figure such as the number of requests.
class Facts {
 public:
  void Add(std::string name, std::string value) { table_.Add({std::move(name), std::move(value)}); }
  std::string Text() const { return table_.Text(kIndent); }

 private:
  TextTable table_{{{"", kLeft}, {"", kLeft}}};
};

std::string CountAndShare(int64_t part, int64_t whole) {
  return fmt::format("{} ({})", Thousands(part), PercentText(RatioOf(part, whole)));
}

std::string LengthsText(const Sharing::Lengths& lengths) {
  return fmt::format("mean {}, median {}, 90 % {}, 99 % {}, longest {}",
                     Thousands(static_cast<int64_t>(lengths.mean)), Thousands(lengths.p50),
                     Thousands(lengths.p90), Thousands(lengths.p99), Thousands(lengths.max));
}

// Appends the table columns for a cache size, one for each unit: blocks, tokens, and GiB if the
// size of a token is known.
void AddSizeColumns(const Analysis& analysis, std::vector<Column>& columns) {
  columns.push_back({"blocks"});
  columns.push_back({"tokens"});
  if (analysis.bytes_per_token) columns.push_back({"GiB"});
}
void AddSizeCells(const Analysis& analysis, const BlockSizeAnalysis& size, int64_t num_blocks,
                  std::vector<std::string>& cells) {
  const int64_t num_tokens = num_blocks * size.block_tokens;
  cells.push_back(Thousands(num_blocks));
  cells.push_back(Thousands(num_tokens));
  if (const auto gib = GibOf(analysis, num_tokens)) cells.push_back(fmt::format("{:.2f}", *gib));
}

std::string LogText(const Analysis& analysis) {
  const Sharing& sharing = analysis.sharing;
  Facts facts;
  facts.Add("requests", Thousands(sharing.num_requests) +
                            (analysis.seconds > 0 ? " in " + TimeText(analysis.seconds) : ""));
  facts.Add("prompt tokens", Thousands(sharing.input_tokens));
  facts.Add("tokens of a prompt", LengthsText(sharing.prompt_tokens));
  if (analysis.output_tokens > 0) facts.Add("output tokens", Thousands(analysis.output_tokens));
  facts.Add("prompts are given as", analysis.form);
  if (analysis.bytes_per_token) {
    facts.Add("keys and values", Thousands(*analysis.bytes_per_token) + " bytes a token");
  }
  return analysis.name + facts.Text();
}

std::string AttainableText(const Analysis& analysis) {
  TextTable table({{"block size"},
                   {"blocks looked up"},
                   {"distinct"},
                   {"block hits"},
                   {"of all"},
                   {"prompt tokens saved"},
                   {"of all"}});
  for (const BlockSizeAnalysis& size : analysis.sizes) {
    const ReuseCurve::Hits& hits = size.curve.attainable();
    table.Add({Thousands(size.block_tokens), Thousands(size.curve.all().blocks),
               Thousands(size.curve.num_distinct()), Thousands(hits.blocks),
               PercentText(size.curve.BlockHitRatio(hits)), Thousands(hits.tokens),
               PercentText(size.curve.TokenHitRatio(hits))});
  }
  return "\nSavings of a cache without a size limit\n" + table.Text(kIndent);
}

std::string NeededText(const Analysis& analysis) {
  std::vector<Column> columns = {{"block size"}, {"for"}};
  AddSizeColumns(analysis, columns);
  columns.push_back({"of the distinct"});
  columns.push_back({"prompt tokens hit"});
  TextTable table(std::move(columns));
  for (const BlockSizeAnalysis& size : analysis.sizes) {
    for (const int32_t percent : kWantedPercents) {
      const bool is_first = percent == kWantedPercents[0];
      const int64_t num_blocks = size.curve.BlocksFor(percent);
      std::vector<std::string> cells = {is_first ? Thousands(size.block_tokens) : "",
                                        fmt::format("{} %", percent)};
      AddSizeCells(analysis, size, num_blocks, cells);
      cells.push_back(PercentText(RatioOf(num_blocks, size.curve.num_distinct())));
      cells.push_back(PercentText(size.curve.TokenHitRatio(size.curve.HitsWith(num_blocks))));
      table.Add(std::move(cells));
    }
  }
  return "\nCache size needed for a percentage of the possible hits, with LRU eviction\n" +
         table.Text(kIndent);
}

std::string CurveText(const Analysis& analysis) {
  const BlockSizeAnalysis& size = analysis.detailed();
  std::vector<Column> columns = {{"of the distinct"}};
  AddSizeColumns(analysis, columns);
  for (const char* const title : {"block hits", "prompt tokens hit", "of the attainable"}) {
    columns.push_back({title});
  }
  TextTable table(std::move(columns));
  for (const auto& [num_blocks, percent] : CurveCapacities(size.curve, 0)) {
    const ReuseCurve::Hits& hits = size.curve.HitsWith(num_blocks);
    std::vector<std::string> cells = {fmt::format("{} %", percent)};
    AddSizeCells(analysis, size, num_blocks, cells);
    cells.push_back(PercentText(size.curve.BlockHitRatio(hits)));
    cells.push_back(PercentText(size.curve.TokenHitRatio(hits)));
    cells.push_back(PercentText(RatioOf(hits.blocks, size.curve.attainable().blocks)));
    table.Add(std::move(cells));
  }
  return fmt::format("\nHit ratio by cache size (LRU eviction, blocks of {} tokens):\n{}",
                     size.block_tokens, table.Text(kIndent));
}

// A text table: the columns `columns`, then one column of block counts for each time window, such
// as the last 5 minutes.
class WindowTable {
 public:
  WindowTable(const WorkingSet& set, std::vector<Column> columns)
      : num_windows_(set.windows.size()), table_(AllColumns(set, std::move(columns))) {}

  // Appends a row: the cells `cells`, then blocks_of(w) for each time window w (such as the last 5
  // minutes), then `num_distinct`.
  template <typename BlocksOf>
  void Add(std::vector<std::string> cells, const BlocksOf& blocks_of, int64_t num_distinct) {
    for (size_t w = 0; w < num_windows_; ++w) cells.push_back(Thousands(blocks_of(w)));
    cells.push_back(Thousands(num_distinct));
    table_.Add(std::move(cells));
  }
  std::string Text() const { return table_.Text(kIndent); }

 private:
  static std::vector<Column> AllColumns(const WorkingSet& set, std::vector<Column> columns) {
    for (size_t w = 0; w < set.windows.size(); ++w) {
      columns.push_back({"last " + WindowText(set, w)});
    }
    columns.push_back({"since the beginning"});
    return columns;
  }

  size_t num_windows_;
  TextTable table_;
};

std::string WorkingSetText(const Analysis& analysis) {
  const WorkingSet& set = analysis.working_set;
  std::vector<Column> columns = {{"requests"}};
  if (set.is_timed) columns.insert(columns.begin(), {"at"});
  WindowTable timeline(set, std::move(columns));
  const size_t num_rows = std::min(kTimelineRows, set.samples.size());
  for (size_t row = 1; row <= num_rows; ++row) {
    const WorkingSet::Sample& sample = set.samples[row * set.samples.size() / num_rows - 1];
    std::vector<std::string> cells = {Thousands(sample.num_requests)};
    if (set.is_timed) cells.insert(cells.begin(), TimeText(sample.at));
    timeline.Add(
        std::move(cells), [&](size_t w) { return sample.blocks[w]; }, sample.num_distinct);
  }
  WindowTable peaks(set, {{"peak for blocks of"}});
  for (const BlockSizeAnalysis& size : analysis.sizes) {
    peaks.Add(
        {Thousands(size.block_tokens)}, [&](size_t w) { return size.peaks[w].blocks; },
        size.curve.num_distinct());
  }
  return fmt::format(
      "\nWorking set: distinct blocks of {} tokens used within a window (a time or a number of "
      "requests). The first table shows this number at several times of the log, "
      "and the second table shows its maximum.\n{}\n{}",
      analysis.detailed().block_tokens, timeline.Text(), peaks.Text());
}

std::string SharingText(const Analysis& analysis) {
  const Sharing& sharing = analysis.sharing;
  const int64_t block_tokens = analysis.detailed().block_tokens;
  Facts facts;
  facts.Add("requests that share a block with an earlier request",
            CountAndShare(sharing.num_sharing, sharing.num_requests));
  facts.Add("shared tokens of a request", LengthsText(sharing.shared_tokens));
  facts.Add("distinct blocks that only one request used",
            CountAndShare(sharing.num_used_once, sharing.num_distinct));
  int64_t largest = 1;
  for (const Sharing::Bin& bin : sharing.bins) largest = std::max(largest, bin.num_requests);
  TextTable table({{"shared tokens"}, {"requests"}, {"of all"}, {"", kLeft}});
  for (const Sharing::Bin& bin : sharing.bins) {
    // Range of prefix lengths in tokens. A prefix with `blocks_to` full blocks can have up to
    // `block_tokens` - 1 more tokens.
    const std::string range =
        bin.blocks_from == 0 ? "none"
                             : fmt::format("{} - {}", Thousands(bin.blocks_from * block_tokens),
                                           Thousands((bin.blocks_to + 1) * block_tokens - 1));
    const int64_t width = (bin.num_requests * kBarWidth + largest - 1) / largest;
    table.Add({range, Thousands(bin.num_requests),
               PercentText(RatioOf(bin.num_requests, sharing.num_requests)),
               std::string(static_cast<size_t>(width), '#')});
  }
  return fmt::format("\nPrefixes that several prompts share, counted in blocks of {} tokens:{}\n{}",
                     block_tokens, facts.Text(), table.Text(kIndent));
}

std::string PrefixesText(const Analysis& analysis) {
  const Sharing& sharing = analysis.sharing;
  if (sharing.top.empty()) return "";
  const int64_t block_tokens = analysis.detailed().block_tokens;
  TextTable table({{"requests"},
                   {"after tokens"},
                   {"tokens"},
                   {"saves"},
                   {"of all saved"},
                   {"first line"},
                   {"begins with", kLeft}});
  const int64_t attainable = analysis.detailed().curve.attainable().blocks;
  for (size_t i = 0; i < sharing.top.size(); ++i) {
    const SharedPrefix& prefix = sharing.top[i];
    table.Add({Thousands(prefix.num_requests),
               Thousands((prefix.num_blocks - prefix.num_own_blocks) * block_tokens),
               Thousands(prefix.num_own_blocks * block_tokens),
               Thousands(prefix.num_saved * block_tokens),
               PercentText(RatioOf(prefix.num_saved, attainable)), Thousands(prefix.first_line),
               analysis.beginnings[i]});
  }
  return fmt::format(
      "\nThe {} stretches, out of {}, that save the most tokens (a stretch: consecutive "
      "blocks that the same requests share):\n{}",
      sharing.top.size(), Thousands(sharing.num_prefixes), table.Text(kIndent));
}

}  // namespace

std::string Describe(const Analysis& analysis) {
  std::string text = LogText(analysis) + AttainableText(analysis) + NeededText(analysis) +
                     CurveText(analysis) + SharingText(analysis) + PrefixesText(analysis) +
                     WorkingSetText(analysis);
  for (const std::string& note : analysis.notes) text += "\nNote: " + note + "\n";
  return text;
}

}  // namespace incipit
