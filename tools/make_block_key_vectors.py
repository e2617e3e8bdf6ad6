#!/usr/bin/env python3
"""Writes tests/kvcache/keys/block_key_vectors.h: keys of blocks, computed without any code of this project.

Usage: make_block_key_vectors.py | clang-format > tests/kvcache/keys/block_key_vectors.h

Needs the PyPI packages xxhash and cbor2. The cbor forms follow vLLM: hash_block_tokens and
generate_block_hash_extra_keys in vllm/v1/core/kv_cache_utils.py, sha256_cbor and xxhash_cbor in
vllm/utils/hashing.py. vLLM has no tenants; the tenant is an addition of this project.
"""
import dataclasses
import hashlib
import struct
from typing import Any

import cbor2
import xxhash

EDGES = [0, 23, 24, 255, 256, 65535, 65536, 2**31 - 1]
FUNCTIONS = {"sha256": lambda data: hashlib.sha256(data).digest(), "xxh3_128": xxhash.xxh3_128_digest}


@dataclasses.dataclass
class Case:
    name: str
    block_size: int
    num_blocks: int
    seed: str = ""
    tenant: str | None = None
    salt: str = ""
    adapter: str | None = None  # name of the adapter; its digest is the sha256 of "content of " and the name
    # (hash, index of the first token, number of tokens)
    media: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)


CASES = [
    Case("Plain", 16, 3),
    Case("SeedOfPythonHashSeed", 16, 2, seed="0"),
    Case("OneToken", 1, 3, seed="s"),
    Case("LongBlocks", 256, 2),
    Case("Salt", 16, 2, salt="pepper"),
    Case("TenantWithoutSalt", 16, 2, tenant="default"),
    Case("TenantAndSalt", 4, 2, seed="seed 1", tenant="", salt="a salt of more than twenty-four bytes"),
    Case("Adapter", 8, 3, adapter="style"),
    Case("Media", 16, 3, media=[("c0ffee", 3, 20), ("beef", 23, 2), ("f00d", 30, 300)]),
    Case("Everything", 32, 3, "4294967295", "acme", "\u00e9", "style", [("0" * 64, 31, 34), ("1" * 64, 70, 9)]),
]


def token(i: int) -> int:
    return EDGES[i] if i < len(EDGES) else (i * 2654435761 % 2**31) >> (7 * (i % 5))


def adapter_digest(case: Case) -> bytes:
    return hashlib.sha256(b"content of " + case.adapter.encode()).digest()


def blocks_of(case: Case) -> list[list[int]]:
    size = case.block_size
    return [[token(i) for i in range(b * size, (b + 1) * size)] for b in range(case.num_blocks)]


def media_of(case: Case, begin: int) -> list[tuple[str, int]]:
    """Returns the media that overlap a block, each with the offset of its first token from the block's first token."""
    end = begin + case.block_size
    return [(name, at - begin) for name, at, length in case.media if at < end and at + length > begin]


def root_message(case: Case) -> bytes:
    fields = [(1, case.seed.encode())]
    if case.tenant is not None:
        fields.append((2, case.tenant.encode()))
    if case.salt:
        fields.append((3, case.salt.encode()))
    if case.adapter is not None:
        fields.append((4, adapter_digest(case)))
    framed = b"".join(struct.pack("<BQ", kind, len(content)) + content for kind, content in fields)
    return framed + bytes(8) + b"incipitR"


def own_chain(case: Case, function) -> list[bytes]:
    parent = function(root_message(case))
    chain = []
    for number, tokens in enumerate(blocks_of(case)):
        extras = b"".join(struct.pack("<BIq", 2, len(name), offset) + name.encode()
                          for name, offset in media_of(case, number * case.block_size))
        message = parent + struct.pack(f"<{len(tokens)}I", *tokens) + extras
        message += struct.pack("<II", len(tokens), len(extras)) + b"incipitB"
        parent = function(message)
        chain.append(parent)
    return chain


def cbor_chain(case: Case, function) -> list[bytes]:
    parent = function(cbor2.dumps(case.seed, canonical=True))
    chain = []
    for number, tokens in enumerate(blocks_of(case)):
        extras: list[Any] = [case.adapter] if case.adapter is not None else []
        extras += media_of(case, number * case.block_size)
        if number == 0 and case.tenant is not None:
            extras.append((case.tenant,))
        if number == 0 and case.salt:
            extras.append(case.salt)
        value = (parent, tuple(tokens), tuple(extras) if extras else None)
        parent = function(cbor2.dumps(value, canonical=True))
        chain.append(parent)
    return chain


def quoted(text: str) -> str:
    return '"' + "".join(chr(b) if 32 <= b < 127 else f"\\{b:03o}" for b in text.encode()) + '"'


def main() -> None:
    print("// Made by tools/make_block_key_vectors.py.\n#pragma once\n\n#include <optional>\n#include <string>\n"
          '#include <vector>\n\n#include "kvcache/keys/extra_keys.h"\n\nnamespace incipit {\n')
    print("// The keys of a chain's blocks, in hexadecimal, with each algorithm. Tokens are those of\n"
          "// VectorToken, an adapter's digest is the sha256 of \"content of \" and its name.\n"
          "struct KeyVector {\n  std::string name;\n  int block_size;\n  std::string seed;\n"
          "  std::optional<std::string> tenant;\n  std::string salt;\n  std::optional<std::string> adapter;\n"
          "  std::vector<MediaSpan> media;\n"
          "  std::string root_digest;\n  std::vector<std::string> sha256, xxh3, sha256_cbor, xxh3_cbor;\n};\n")
    print("inline const std::vector<KeyVector>& KeyVectors() {\n  static const std::vector<KeyVector> vectors = {")
    for case in CASES:
        optional = [quoted(text) if text is not None else "std::nullopt" for text in (case.tenant, case.adapter)]
        media = ", ".join(f"{{{quoted(name)}, {begin}, {length}}}" for name, begin, length in case.media)
        print(f"{{{quoted(case.name)}, {case.block_size}, {quoted(case.seed)}, {optional[0]}, {quoted(case.salt)}, "
              f"{optional[1]}, {{{media}}}, {quoted(hashlib.sha256(root_message(case)).hexdigest())},")
        chains = [chain(case, FUNCTIONS[name]) for chain in (own_chain, cbor_chain) for name in FUNCTIONS]
        print(", ".join("{" + ", ".join(quoted(digest.hex()) for digest in chain) + "}" for chain in chains) + "},")
    print("  };\n  return vectors;\n}\n\n}  // namespace incipit")


if __name__ == "__main__":
    main()
