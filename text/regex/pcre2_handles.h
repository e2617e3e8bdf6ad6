// Smart pointers (std::unique_ptr) that free objects of the library PCRE2.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>

namespace incipit {

template <auto kFree>
struct Pcre2Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2Free<pcre2_code_free>>;
using Pcre2MatchData = std::unique_ptr<pcre2_match_data, Pcre2Free<pcre2_match_data_free>>;
using Pcre2MatchContext = std::unique_ptr<pcre2_match_context, Pcre2Free<pcre2_match_context_free>>;

}  // namespace incipit
