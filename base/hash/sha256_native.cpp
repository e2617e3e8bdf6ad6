// SHA-256 with the SHA instructions of x86 (SHA256RNDS2, SHA256MSG1, SHA256MSG2). These
// instructions need the SHA-256 state (words a to h) as two vectors: (a, b, e, f) and (c, d, g, h).
// The first word of a vector is in the highest lane.
#include "base/hash/sha256_rounds.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define INCIPIT_SHA_NI __attribute__((target("sha,sse4.1")))
#define INCIPIT_SHA_NI_INLINE __attribute__((always_inline, target("sha,sse4.1"))) inline

namespace incipit {
namespace {

struct ShaNiState {
  __m128i abef, cdgh;
};

INCIPIT_SHA_NI_INLINE __m128i LoadVector(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}

// Reverses the bytes in each of the four 32-bit words.
INCIPIT_SHA_NI_INLINE __m128i SwapBytes(__m128i words) {
  return _mm_shuffle_epi8(words, _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));
}

// Converts the SHA-256 state to the order of words that the SHA instructions need. Word a is in the
// lowest lane of `abcd`, and word e is in the lowest lane of `efgh`.
INCIPIT_SHA_NI_INLINE ShaNiState Pack(__m128i abcd, __m128i efgh) {
  const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
  return {.abef = _mm_alignr_epi8(badc, hgfe, 8), .cdgh = _mm_blend_epi16(hgfe, badc, 0xf0)};
}

INCIPIT_SHA_NI_INLINE void Unpack(const ShaNiState& state, __m128i& abcd, __m128i& efgh) {
  const __m128i feba = _mm_shuffle_epi32(state.abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
  abcd = _mm_blend_epi16(feba, dchg, 0xf0);
  efgh = _mm_alignr_epi8(dchg, feba, 8);
}

// Computes the SHA-256 rounds [4 * group, 4 * group + 4). `words` are the message words of these
// rounds.
INCIPIT_SHA_NI_INLINE void FourRounds(ShaNiState& state, __m128i words, size_t group) {
  const __m128i sums = _mm_add_epi32(words, LoadVector(&kSha256RoundConstants[4 * group]));
  state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sums);
  state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_shuffle_epi32(sums, 0x0e));
}

// Returns the next four words of the SHA-256 message schedule, computed from the previous sixteen
// words: four words each in `w0`, `w1`, `w2` and `w3`.
INCIPIT_SHA_NI_INLINE __m128i NextWords(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
  const __m128i sums = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  return _mm_sha256msg2_epu32(sums, w3);
}

INCIPIT_SHA_NI_INLINE void CompressOne(ShaNiState& state, const uint8_t* chunk) {
  const ShaNiState before = state;
  __m128i w0 = SwapBytes(LoadVector(chunk));
  __m128i w1 = SwapBytes(LoadVector(chunk + 16));
  __m128i w2 = SwapBytes(LoadVector(chunk + 32));
  __m128i w3 = SwapBytes(LoadVector(chunk + 48));
  FourRounds(state, w0, 0);
  FourRounds(state, w1, 1);
  FourRounds(state, w2, 2);
  FourRounds(state, w3, 3);
  for (size_t group = 4; group < 16; group += 4) {
    w0 = NextWords(w0, w1, w2, w3);
    FourRounds(state, w0, group);
    w1 = NextWords(w1, w2, w3, w0);
    FourRounds(state, w1, group + 1);
    w2 = NextWords(w2, w3, w0, w1);
    FourRounds(state, w2, group + 2);
    w3 = NextWords(w3, w0, w1, w2);
    FourRounds(state, w3, group + 3);
  }
  state.abef = _mm_add_epi32(state.abef, before.abef);
  state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
}

INCIPIT_SHA_NI void CompressNatively(Sha256State& words, const uint8_t* chunks, size_t num_chunks) {
  ShaNiState state = Pack(LoadVector(&words[0]), LoadVector(&words[4]));
  for (size_t i = 0; i < num_chunks; ++i) CompressOne(state, chunks + i * kSha256ChunkBytes);
  __m128i abcd, efgh;
  Unpack(state, abcd, efgh);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&words[0]), abcd);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&words[4]), efgh);
}

INCIPIT_SHA_NI void DigestNatively(const uint8_t* chunks, size_t num_chunks, uint8_t* digest) {
  ShaNiState state = Pack(LoadVector(&kSha256Initial[0]), LoadVector(&kSha256Initial[4]));
  for (size_t i = 0; i < num_chunks; ++i) CompressOne(state, chunks + i * kSha256ChunkBytes);
  __m128i abcd, efgh;
  Unpack(state, abcd, efgh);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(digest), SwapBytes(abcd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(digest + 16), SwapBytes(efgh));
}

bool HasShaNi() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & bit_SHA) == 0) return false;
  return __builtin_cpu_supports("sse4.1");
}

constexpr Sha256Implementation kShaNi = {
    .name = "sha-ni", .compress = CompressNatively, .digest_padded = DigestNatively};

}  // namespace

const Sha256Implementation* Sha256Native() { return HasShaNi() ? &kShaNi : nullptr; }

}  // namespace incipit

#else

namespace incipit {

const Sha256Implementation* Sha256Native() { return nullptr; }

}  // namespace incipit

#endif
