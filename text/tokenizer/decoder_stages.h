// Creates the decoding steps of a tokenizer.json file, with one function for each type of step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer/decoder.h"
#include "text/tokenizer/text_pattern.h"

namespace incipit {

std::unique_ptr<const DecoderStep> ByteLevelStep();
std::unique_ptr<const DecoderStep> ByteFallbackStep();
std::unique_ptr<const DecoderStep> FuseStep();
std::unique_ptr<const DecoderStep> ReplaceStep(TextPattern pattern, std::string content);
std::unique_ptr<const DecoderStep> StripStep(char32_t content, uint64_t start, uint64_t stop);
// Returns a step that replaces each character `replacement` by a space. If `drops_first` is true,
// the step deletes each `replacement` in the first token of the output.
std::unique_ptr<const DecoderStep> MetaspaceStep(char32_t replacement, bool drops_first);
std::unique_ptr<const DecoderStep> WordPieceStep(std::string prefix, bool cleans_up);
std::unique_ptr<const DecoderStep> WordSuffixStep(std::string suffix);
std::unique_ptr<const DecoderStep> SpacesBetweenStep();

}  // namespace incipit
