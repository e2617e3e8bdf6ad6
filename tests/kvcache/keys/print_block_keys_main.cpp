// Prints the keys of known block chains. A test compares the output of several processes.
#include <cstdio>

#include "tests/kvcache/keys/key_vectors_text.h"

int main() { return std::fputs(incipit::ChainsAsText().c_str(), stdout) < 0 ? 1 : 0; }
