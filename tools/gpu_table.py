"""Computes rates, shares of limits and goals of measurements on a GPU, and the table that shows them."""
import re

# (name, bytes/s, dense bf16 flop/s) from datasheets; the first matching name is used.
DATASHEETS = [
    (r"H200 NVL", 4.8e12, 835e12),
    (r"H200", 4.8e12, 989e12),
    (r"GH200.*144", 4.9e12, 989e12),
    (r"GH200", 4.0e12, 989e12),
    (r"H100 NVL", 3.9e12, 835e12),
    (r"H100 PCIe", 2.0e12, 756e12),
    (r"H20$", 4.0e12, 148e12),
    (r"H100|H800", 3.35e12, 989e12),
]
# (name of the measurement, figure that is compared, first goal, second goal). Seconds must be at most the goal, other
# figures at least the goal.
GOALS = [
    (r"decode attention, 8 x 16384$", "share_bytes", 0.80, None),
    (r"decode attention, (8 x 4096|1 x 32768)$", "share_bytes", 0.60, None),
    (r"decode attention, 1 x 1024$", "seconds", 11e-6, None),
    (r"prefill attention, 1 x 8192$", "flops_per_s", 350e12, None),
    (r"product of .* x (1|16|32|64),", "share_bytes", 0.80, None),
    # Two steps in flight, as the engine runs them. A single step would include the latency of its launch and of its
    # results.
    (r"decode step, (1|8|16|32|64) x 640, two on their way$", "share_bytes", 0.66, 0.80),
    (r"prefill of 8192(, by cuBLASLt)?$", "share_flops", 0.55, None),
]
SECTIONS = [
    ("memory", "Memory"),
    ("model", "Steps of the 8B shape"),
    ("attention", "Attention, one layer"),
    ("products", "Products"),
    ("library", "Large products"),
    ("yardsticks", "Other libraries"),
]


def datasheet_of(name):
    for pattern, bandwidth, rate in DATASHEETS:
        if re.search(pattern, name):
            return bandwidth, rate
    return None, None


def limits_of(measurements, device):
    """Returns bytes and flops per second: from the datasheet, and as measured here. Unknown limits are None."""
    bandwidth, rate = datasheet_of(device.get("device", ""))
    seconds = {line["name"]: line["seconds"] for line in measurements}
    work = {line["name"]: line for line in measurements}
    read = work["read"]["bytes"] / seconds["read"] if "read" in work else None
    rates = [line["flops"] / line["seconds"] for line in measurements
             if re.search(r"tensor cores|torch\.matmul|by cuBLASLt$", line["name"])]
    return {"bandwidth": bandwidth, "rate": rate, "read": read, "product": max(rates, default=None)}


def goal_of(line):
    for pattern, figure, first, then in GOALS:
        if re.match(pattern, line["name"]):
            value = line.get(figure)
            reached = None if value is None else value <= first if figure == "seconds" else value >= first
            return {"figure": figure, "goal": first, "then": then, "reached": reached}
    return None


def with_shares(measurements, device):
    """Returns the measurements with rates, shares of limits and goals added."""
    limits = limits_of(measurements, device)
    lines = []
    for measured in measurements:
        line = dict(measured)
        for what, key, sheet, found in (("bytes", "bytes_per_s", "bandwidth", "read"),
                                        ("flops", "flops_per_s", "rate", "product")):
            if not line.get(what):
                continue
            line[key] = line[what] / line["seconds"]
            for name, limit in ((f"share_{what}", limits[sheet]), (f"share_{what}_measured", limits[found])):
                if limit:
                    line[name] = round(line[key] / limit, 4)
        goal = goal_of(line)
        if goal:
            line["goal"] = goal
        lines.append(line)
    return lines


def is_of_bytes(line):
    """Returns true if memory bandwidth limits the measurement more than arithmetic does."""
    if not line.get("bytes"):
        return False
    return not line.get("flops") or line["flops"] / line["bytes"] < 200


def shown_time(seconds):
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def shown_share(value):
    return "-" if value is None else f"{value:.2f}"


def shown_goal(goal):
    if goal is None:
        return ""
    if goal["figure"] == "seconds":
        text = f"<= {goal['goal'] * 1e6:.0f} us"
    elif goal["figure"] == "flops_per_s":
        text = f">= {goal['goal'] / 1e12:.0f} TFLOP/s"
    else:
        text = f">= {goal['goal']:.2f}" + (f", then {goal['then']:.2f}" if goal["then"] else "")
    return text + {True: ": reached", False: ": missed", None: ""}[goal["reached"]]


def row_of(line):
    rate, what = "", "time"
    if "bytes_per_s" in line and is_of_bytes(line):
        rate, what = f"{line['bytes_per_s'] / 1e12:.2f} TB/s", "bytes"
    elif "flops_per_s" in line:
        rate, what = f"{line['flops_per_s'] / 1e12:.0f} TFLOP/s", "flops"
    shares = [shown_share(line.get(key)) if rate else "" for key in (f"share_{what}", f"share_{what}_measured")]
    return "| " + " | ".join([line["name"], shown_time(line["seconds"]), rate, *shares,
                              shown_goal(line.get("goal"))]) + " |"


def section(title, lines):
    return [f"## {title}", "", "| measurement | median time | rate | of the datasheet's rate | of the measured limit | goal |",
            "|---|---:|---:|---:|---:|---|", *[row_of(line) for line in lines], ""]


def markdown(found):
    """Returns the page in the format of docs/performance-gpu.md."""
    driver, device = found["driver"], found["device"]
    card = device.get("device") or driver.get("name") or "no GPU"
    software = ", ".join(text for text in (
        f"driver {driver['driver_version']}" if "driver_version" in driver else driver.get("missing", ""),
        device.get("software", "")) if text)
    text = ["# Speed on a GPU" + (": smoke run; the times are not meaningful" if found["smoke"] else ""), "",
            f"{found['date']}, {card}, {software}. {found['version']}. Written by `gpu_check` in "
            f"{found['seconds']:.0f} s.", "",
            "## Parts of the check", "", "| part | checks | outcome | details | seconds |", "|---|---|---|---|---:|"]
    for part in found["parts"]:
        said = part["said"].replace("|", "\\|").replace("\n", " ")
        text.append(f"| {part['part']} | {part['title']} | {part['outcome']} | {said} | {part['seconds']} |")
    text.append("")
    for name, title in SECTIONS:
        lines = [line for line in found["measurements"] if line["part"] == name]
        if lines:
            text += section(title, lines)
    if found["notes"]:
        text += ["## Notes", "", *[f"- {note}" for note in found["notes"]], ""]
    text += ["Each figure is the median of its samples (50; fewer for prefill). The time of a kernel is that of a graph with as many",
             "launches as take 8 ms, divided by the number of launches. The launches use different memory in turn, together 16 times",
             "the size of L2. They run one after the other, so no time includes the latency of a launch. Bytes of a step are the",
             "weights without the input embedding, and keys and values. Bytes of attention are keys and values, queries and results.",
             "Bytes of a product are its weight and inputs.", ""]
    return "\n".join(text)
