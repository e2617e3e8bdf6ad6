#include <bit>

#include "base/hash/sha256_rounds.h"

namespace incipit {
namespace {

uint32_t LoadBigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void CompressChunk(Sha256State& state, const uint8_t* chunk) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = LoadBigEndian(chunk + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256RoundConstants[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const Sha256State added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

void CompressPortably(Sha256State& state, const uint8_t* chunks, size_t num_chunks) {
  for (size_t i = 0; i < num_chunks; ++i) CompressChunk(state, chunks + i * kSha256ChunkBytes);
}

void DigestPortably(const uint8_t* chunks, size_t num_chunks, uint8_t* digest) {
  Sha256State state = kSha256Initial;
  CompressPortably(state, chunks, num_chunks);
  for (const uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) *digest++ = static_cast<uint8_t>(word >> shift);
  }
}

}  // namespace

const Sha256Implementation kSha256Portable = {
    .name = "portable", .compress = CompressPortably, .digest_padded = DigestPortably};

}  // namespace incipit
