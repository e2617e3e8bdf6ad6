"""Writes the table of tools/compare_serving.py from the figures of all runs."""
import statistics

LLAMA, OPENVINO = "llama-server", "OpenVINO GenAI"
BEFORE, INCIPIT = "incipit before", "incipit"
# Goals for Incipit's output tokens/s, divided by the peer's output tokens/s.
SPEED_GOALS = {
    "chatbot": {LLAMA: 4.5, OPENVINO: 3.0},
    "multi-turn": {LLAMA: 4.5, OPENVINO: 3.0},
    "long-and-short": {LLAMA: 1.7, OPENVINO: 1.7},
}
TTFT_GOAL = 1.0  # goal for Incipit's TTFT, divided by the peer's TTFT
SPEED = "output tokens/s"
# Name in the table, path in the figures of a run, digits after the point.
QUANTITIES = [
    (SPEED, ("output_tokens_per_s",), 1),
    ("TTFT p50, ms", ("ttft_ms", "p50"), 0),
    ("TTFT p99, ms", ("ttft_ms", "p99"), 0),
    ("TTFT p50 of short prompts, ms", ("short_ttft_ms", "p50"), 0),
    ("TTFT p99 of short prompts, ms", ("short_ttft_ms", "p99"), 0),
    ("ITL p50, ms", ("itl_ms", "p50"), 1),
    ("ITL p99, ms", ("itl_ms", "p99"), 1),
    ("share of prompt tokens found in the cache", ("cached_share",), 2),
]


def value_at(run, path):
    for key in path:
        run = run[key]
    return run


def values(runs, load, engine, path):
    """Returns the figure of each round by the number of the round."""
    return {run["round"]: value_at(run, path) for run in runs if run["load"] == load and run["engine"] == engine}


def engine_of(runs, load, peer):
    """Returns the engine that stands for `peer`, or None if the peer was not measured. If a peer was measured with
    several types of weights, this is the type with the highest median of output tokens/s."""
    def speed(engine):
        return statistics.median(values(runs, load, engine, ("output_tokens_per_s",)).values())

    names = {run["engine"] for run in runs if run["load"] == load}
    return max((name for name in sorted(names) if name == peer or name.startswith(f"{peer} ")), key=speed, default=None)


def ratio(runs, load, other, path):
    """Returns the median over the rounds of Incipit's figure divided by the other engine's figure, or None if the figures
    are unknown or zero."""
    ours, theirs = values(runs, load, INCIPIT, path), values(runs, load, other, path)
    rounds = [number for number in ours if theirs.get(number)]
    found = [ours[number] / theirs[number] for number in rounds if ours[number] is not None]
    return statistics.median(found) if found else None


def goal_of(load, peer, quantity):
    """Returns the goal for a ratio and whether the ratio must be at least the goal; (None, False) without a goal."""
    if quantity == SPEED:
        return SPEED_GOALS[load].get(peer), True
    return (TTFT_GOAL, False) if quantity.startswith("TTFT") and peer != BEFORE else (None, False)


def median_cell(found, digits):
    known = [value for value in found.values() if value is not None]
    return f"{statistics.median(known):.{digits}f}" if known else ""


def ratio_cell(found, goal, is_minimum):
    if found is None:
        return ""
    if goal is None:
        return f"{found:.2f}"
    return f"{found:.2f} ({'at least' if is_minimum else 'at most'} {goal:.2f})"


def is_missed(found, goal, is_minimum):
    if found is None or goal is None:
        return False
    return found < goal if is_minimum else found > goal


def rows(runs, load, peers, missed):
    """Returns the lines of one load. Appends the missed goals to `missed`."""
    engines = {peer: engine_of(runs, load, peer) for peer in peers}
    lines = []
    for quantity, path, digits in QUANTITIES:
        if "short prompts" in quantity and load != "long-and-short":
            continue
        cells = [median_cell(values(runs, load, engine, path), digits) for engine in [*engines.values(), INCIPIT]]
        for peer, engine in engines.items():
            found = None if path == ("cached_share",) else ratio(runs, load, engine, path)
            goal = goal_of(load, peer, quantity)
            cells.append(ratio_cell(found, *goal))
            if is_missed(found, *goal):
                missed.append(f"{load}, {quantity}, against {engine}: {cells[-1]}")
        lines.append(f"| {load}, {quantity} | {' | '.join(cells)} |")
    return lines


def table(result):
    """Returns the Markdown table of all loads, with the machine, the skipped peers and the missed goals."""
    runs = result["runs"]
    peers = [peer for peer in (LLAMA, OPENVINO, BEFORE) if any(run["engine"].startswith(peer) for run in runs)]
    lines = [f"{result['cpu']}, {result['threads']} cores, weights {result['type']}: {result['requests']} requests, "
             f"{result['concurrency']} in progress. Medians of {result['rounds']} rounds. In parentheses: the goal.", ""]
    lines += [f"{peer} was not measured: {reason}." for peer, reason in result["skipped"].items()]
    disturbed = sum(run["disturbed"] for run in runs)
    if disturbed:
        lines.append(f"Other programs disturbed {disturbed} of {len(runs)} runs on the same cores.")
    if lines[-1]:
        lines.append("")
    lines += [f"| load, quantity | {' | '.join([*peers, INCIPIT, *(f'{INCIPIT} / {peer}' for peer in peers)])} |",
              "|---|" + "---:|" * (2 * len(peers) + 1)]
    missed = []
    for load in dict.fromkeys(run["load"] for run in runs):
        lines += rows(runs, load, peers, missed)
    if any(peer != BEFORE for peer in peers):
        lines += ["", *(["Missed goals:", "", *(f"- {goal}" for goal in missed)] if missed else ["No goal is missed."])]
    return "\n".join(lines)
