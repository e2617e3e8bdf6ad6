// Prints the keys of known chains, for a test that compares what different processes print.
#include <cstdio>

#include "tests/kvcache/keys/key_vectors_text.h"

int main() { return std::fputs(incipit::ChainsAsText().c_str(), stdout) < 0 ? 1 : 0; }
