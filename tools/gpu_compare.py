"""Compares results of operations on two devices (tests/gpu_check/device_results.cpp), and an output with the golden
output."""
import array
import dataclasses
import math
import struct

# Maximum difference of log probabilities of a near tie. A device rounds differently from the program that computed the
# golden outputs, so the order of tokens within this difference may change (kNearTie in
# tests/kernels/cuda/model_test.cpp).
NEAR_TIE = 0.1


@dataclasses.dataclass
class Report:
    equal: int = 0  # number of results with equal bits
    near: list[str] = dataclasses.field(default_factory=list)  # results within their tolerance, with the difference
    wrong: list[str] = dataclasses.field(default_factory=list)


def values_of(result):
    data = bytes.fromhex(result["bytes"])
    if result["dtype"] == "f32":
        return array.array("f", data)
    if result["dtype"] == "i32":
        return array.array("i", data)
    # A bf16 number is the upper half of an f32 one.
    halves = array.array("H", data)
    return array.array("f", b"".join(struct.pack("<I", half << 16) for half in halves))


def compare_one(name, device, emulated, report):
    for key in ("dtype", "tolerance"):
        if device[key] != emulated[key]:
            report.wrong.append(f"{name}: {key} is {device[key]} and {emulated[key]}")
            return
    ours, theirs = values_of(device), values_of(emulated)
    if len(ours) != len(theirs) or not ours:
        report.wrong.append(f"{name}: {len(ours)} and {len(theirs)} numbers")
        return
    if any(not math.isfinite(value) for value in (*ours, *theirs)):
        report.wrong.append(f"{name}: numbers that are not finite")
        return
    if device["bytes"] == emulated["bytes"]:
        report.equal += 1
        return
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    count = sum(difference != 0 for difference in differences)
    largest = max(abs(value) for value in theirs) or 1.0
    relative = max(differences) / largest
    said = f"{name}: {count} of {len(ours)} numbers differ, by {relative:.1e} of the largest at most"
    if relative > device["tolerance"]:
        report.wrong.append(f"{said}; {device['tolerance']:g} is allowed")
    else:
        report.near.append(said)


def compare(device, emulated):
    """Returns a Report on two lists of printed lines."""
    ours = {line["result"]: line for line in device if "result" in line}
    theirs = {line["result"]: line for line in emulated if "result" in line}
    report = Report()
    for name in sorted(ours.keys() ^ theirs.keys()):
        report.wrong.append(f"{name}: printed by only one of the two devices")
    if not ours:
        report.wrong.append("no results")
    for name in ours.keys() & theirs.keys():
        compare_one(name, ours[name], theirs[name], report)
    report.near.sort()
    return report


def first_difference(ids, golden):
    """Returns the number of equal tokens before the first difference, or None if all tokens are equal."""
    return next((i for i, (one, other) in enumerate(zip(ids, golden)) if one != other), None)


def distance(position, golden):
    """Returns, for a token that differs from the golden token (a position of `incipit generate --json --logprobs`),
    how much lower the golden token's log probability is, and an error text, which is empty for a near tie."""
    likeliest = {token["token_id"]: token["logprob"] for token in position["top"]}
    best = max(likeliest.values())
    if position["logprob"] < best:
        return None, f"{position['text']!r} was chosen, {best - position['logprob']:.2f} below the likeliest"
    if golden not in likeliest:
        return None, f"{position['text']!r} was chosen, and the golden one is not among the {len(likeliest)} likeliest"
    gap = best - likeliest[golden]
    return gap, "" if gap <= NEAR_TIE else f"{position['text']!r} was chosen, {gap:.2f} above the golden one"
