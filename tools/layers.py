"""The layers of docs/architecture.md: which folder may include which, and which folder may use
which library.

tools/tidy.py checks every source file against these tables.
"""
import re

# Maps a layer to the other layers that it may include. The longest matching prefix of a path is its
# layer.
LAYERS = {
    "base": set(),
    "kvcache": {"base"},
    "scheduler": {"base", "kvcache"},
    "tier": {"base", "kvcache"},
    "kernels": {"base"},
    "text": {"base"},
    "transformer": {"base", "kernels"},
    "engine": {"base", "scheduler", "kvcache", "kernels", "transformer"},
    "server": {"base", "engine", "text", "transformer", "proto", "tier"},
    "cli": {"base", "proto", "engine", "text", "transformer", "kernels", "kvcache", "server", "tier"},
}
# Extra layers that single files may include. The table of options has values of every layer.
EXCEPTIONS = {"server/options.h": {"kernels"}}
# Libraries that only the listed folders or files may include.
LIBRARIES = [
    (r"grpcpp/", ("server/", "cli/")),
    (r"prometheus/", ("server/metrics/",)),
    (r"omp\.h", ("kernels/cpu/",)),
    (r"cuda|cublas", ("kernels/cuda/",)),
    (r"pcre2", ("text/",)),
    (r"nlohmann/", ("base/json/", "text/", "transformer/", "server/", "cli/")),
    (r"yaml-cpp/", ("server/",)),
    (r"xxh", ("base/hash/xxh3",)),
    (r"boost/", ("server/http/",)),
    (r"liburing", ("tier/",)),
    (r"spdlog/", ("server/", "cli/serve")),
]
GENERATED = re.compile(r"\.(grpc\.)?pb\.h$")


def layer_of(path: str) -> str | None:
    matches = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(matches, key=len) if matches else None


def check_includes(name: str, text: str) -> list[str]:
    layer = layer_of(name)
    errors = []
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
        if not include:
            continue
        target = "proto/" + include[1] if GENERATED.search(include[1]) else include[1]
        target_layer = "proto" if target.startswith("proto/") else layer_of(target)
        allowed = LAYERS[layer] | {layer} | EXCEPTIONS.get(name, set())
        if target_layer and target_layer not in allowed:
            errors.append(f"{name}:{number}: {layer}/ must not include {target_layer}/")
        for pattern, owners in LIBRARIES:
            if re.match(pattern, include[1]) and not name.startswith(owners):
                errors.append(f"{name}:{number}: only {' and '.join(owners)} may include {include[1]}")
    return errors
