"""Tables and plots of bench/workloads.py from the figures of all runs."""
import statistics

import svg_plots

# Hit ratios that publications report for the workloads, in percent (smallest, largest); None: none is published.
PUBLISHED = {
    "chatbot": (92, 97), "multi-turn": (80, 95), "rag": (25, 40), "rag-stable": (88, 94), "code-completion": (15, 35),
    "batch-summarisation": (8, 15), "random": (0, 2), "agent": None, "long-document": None,
}
REFERENCE = "no eviction"  # name of the run that measures the working set, in place of an eviction policy
# Prompts of one line in the plot of TTFT by cached share: largest number of prompt tokens, name of the line.
LENGTHS = [(512, "up to 512 tokens"), (2048, "513 to 2,048 tokens"), (4096, "2,049 to 4,096 tokens"),
           (float("inf"), "more than 4,096 tokens")]
BUCKETS = 10  # the cached shares from 0 to 1 are divided into this number of equal parts
BUCKET_RECORDS_MIN = 3  # a part with fewer requests of a line has no point


def at(run, path):
    for key in path.split("."):
        run = run[key]
    return run


def median(runs, path):
    known = [at(run, path) for run in runs if at(run, path) is not None]
    return statistics.median(known) if known else None


def percents(runs, path):
    found = median(runs, path)
    return None if found is None else 100 * found


def cell(value, digits=1, factor=1):
    return "" if value is None else f"{factor * value:,.{digits}f}"


def of(runs, **wanted):
    return [run for run in runs if all(run.get(key) == value for key, value in wanted.items())]


def names(runs, key):
    return list(dict.fromkeys(run[key] for run in runs))


def range_text(workload):
    return "" if PUBLISHED.get(workload) is None else "{} to {}".format(*PUBLISHED[workload])


def speedup(on, off, path):
    """Returns the figure without the cache, divided by the figure with the cache; medians of the rounds."""
    ours, theirs = median(on, path), median(off, path)
    return theirs / ours if ours and theirs else None


def row(runs, workload):
    on, off = of(runs, cache="on", workload=workload), of(runs, cache="off", workload=workload)
    cells = [str(on[0]["requests"]), cell(median(on, "hit_ratio"), factor=100), cell(median(on, "implied_hit_ratio"), factor=100),
             range_text(workload)]
    for quantile in ("p50", "p99"):
        path = f"ttft_ms.{quantile}"
        cells += [cell(median(on, path)), cell(median(off, path)), cell(speedup(on, off, path), 2)]
    cells += [cell(median(group, "output_tokens_per_s")) for group in (on, off)]
    return f"| {workload} | {' | '.join(cells)} |"


def table(runs, machine):
    """Returns one Markdown table for each model."""
    lines = [f"{machine}.", ""]
    for model in names(runs, "model"):
        found = of(runs, model=model)
        rounds = max(run["round"] for run in found)
        lines += [f"Model {model}, " + (f"medians of {rounds} rounds:" if rounds > 1 else "one run of each workload:"), "",
                  "| workload | requests | hit ratio, % | implied hit ratio, % | published, % | TTFT p50, cache on, ms "
                  "| TTFT p50, cache off, ms | off / on | TTFT p99, cache on, ms | TTFT p99, cache off, ms | off / on "
                  "| output tokens/s, cache on | output tokens/s, cache off |",
                  "|---|---:|---:|---:|---:|" + "---:|" * 8]
        lines += [row(found, workload) for workload in names(found, "workload")]
        errors = sum(run["errors"] for run in found)
        lines += [f"\n{errors} requests failed."] if errors else []
        lines.append("")
    return "\n".join(lines)


def cached_share_series(records):
    """Returns the lines of the plot of TTFT by cached share: (name, points). A point is the mean cached share in percent
    and the median TTFT of the prompts whose cached share is in one part of the range."""
    series, low = [], 0
    for high, name in LENGTHS:
        parts = [[] for _ in range(BUCKETS)]
        for prompt, cached, ttft in records:
            if low < prompt <= high:
                parts[min(int(BUCKETS * cached / prompt), BUCKETS - 1)].append((100 * cached / prompt, ttft))
        points = [(statistics.mean(share for share, _ in part), statistics.median(ttft for _, ttft in part))
                  for part in parts if len(part) >= BUCKET_RECORDS_MIN]
        if points:
            series.append((name, points))
        low = high
    return series


def percent(value):
    return f"{value:.0f} %"


def milliseconds(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def hit_ratio_plot(runs, model):
    rows = [(workload, [percents(of(runs, cache="on", workload=workload), key) for key in ("hit_ratio", "implied_hit_ratio")])
            for workload in names(runs, "workload")]
    ranges = {workload: found for workload, found in PUBLISHED.items() if found}
    return svg_plots.horizontal_bars("Hit ratio of the prefix cache", f"Model {model}",
                                     "share of prompt tokens found in the cache", rows, ["measured", "implied by the prompts"],
                                     percent, 100, ranges, "published")


def ttft_plot(runs, model):
    rows = [(workload, [median(of(runs, cache=cache, workload=workload), "ttft_ms.p50") for cache in ("on", "off")])
            for workload in names(runs, "workload")]
    return svg_plots.horizontal_dots("Median time to first token, prefix cache on and off", f"Model {model}; logarithmic axis",
                                     "TTFT p50, ms", rows, ["cache on", "cache off"], milliseconds)


def files(runs, machine):
    """Returns the content of each file by its name, table.md first."""
    found = {"table.md": table(runs, machine)}
    for model in names(runs, "model"):
        here = of(runs, model=model)
        found[f"hit_ratio-{model}.svg"] = hit_ratio_plot(here, model)
        found[f"ttft-{model}.svg"] = ttft_plot(here, model)
        series = cached_share_series([record for run in of(here, cache="on") for record in run.get("records", [])])
        if series:
            found[f"ttft_by_cached_share-{model}.svg"] = svg_plots.lines(
                "Median time to first token, by the cached share of the prompt",
                f"Model {model}, all workloads; one line for each range of prompt lengths; logarithmic axis",
                "share of the prompt found in the cache", "TTFT p50, ms", series, percent, milliseconds, 100, y_logarithmic=True)
    return found


def share_row(runs, share, policy):
    found = of(runs, share=share, policy=policy)
    measured = [run for run in found if "skipped" not in run]
    head = f"| {share:g} | {found[0]['blocks']} | {policy} |"
    if not measured:
        return f"{head} not measured: {found[0]['skipped']} | | | | |"
    cells = [cell(median(measured, "hit_ratio"), factor=100), cell(median(measured, "ttft_ms.p50")),
             cell(median(measured, "ttft_ms.p99")), cell(median(measured, "evictions"), 0), cell(median(measured, "regret"), 0)]
    return f"{head} {' | '.join(cells)} |"


def share_table(runs, machine):
    lines = [f"{machine}. Model {runs[0]['model']}, workload {runs[0]['workload']}:", "",
             "| cache, % of the working set | blocks | eviction policy | hit ratio, % | TTFT p50, ms | TTFT p99, ms "
             "| evicted blocks | blocks computed again soon after their eviction |", "|---:|---:|---|" + "---:|" * 5]
    for share, policy in sorted({(run["share"], run["policy"]) for run in runs}):
        lines.append(share_row(runs, share, policy))
    return "\n".join(lines) + "\n"


def share_series(runs, path, factor):
    measured = [run for run in runs if "skipped" not in run and run["policy"] != REFERENCE]
    return [(policy, [(share, factor * median(of(measured, policy=policy, share=share), path))
                      for share in sorted(set(names(of(measured, policy=policy), "share")))])
            for policy in names(measured, "policy")]


def share_files(runs, machine):
    """Returns the content of each file of the measurement with small caches by its name, the table first."""
    title = f"Model {runs[0]['model']}, workload {runs[0]['workload']}"
    found = {"cache_shares.md": share_table(runs, machine)}
    for name, quantity, path, factor, label, text, high in (
            ("hit_ratio", "Hit ratio", "hit_ratio", 100, "hit ratio", percent, 100),
            ("ttft", "Median time to first token", "ttft_ms.p50", 1, "TTFT p50, ms", milliseconds, None)):
        series = share_series(runs, path, factor)
        if series:
            found[f"cache_shares-{name}.svg"] = svg_plots.lines(
                f"{quantity}, by the size of the cache", title, "size of the cache, share of the working set", label, series,
                percent, text, y_high=high)
    return found
