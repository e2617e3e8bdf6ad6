# One function per kind of target. Each takes sources and dependencies by name; DEPS is the layering.

add_library(incipit_warnings INTERFACE)
target_compile_options(incipit_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # It takes what a unity build includes for headers.
  target_compile_options(incipit_warnings INTERFACE -Wno-subobject-linkage)
endif()

# incipit_library(<name> SOURCES ... HEADERS ... DEPS ... PRIVATE_DEPS ...): one layer, as incipit::<name>.
# HEADERS are verified to be self-contained by the target all_verify_interface_header_sets.
function(incipit_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS")
  set(target incipit_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE incipit_warnings ${ARG_PRIVATE_DEPS})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(incipit::${name} ALIAS ${target})
  target_sources(${target} ${scope} FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${ARG_DEPS})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# What the sanitizer presets build: the tests with the labels fast, emulated and tsan. None of them links gRPC,
# which takes minutes to compile; tests that do carry the label grpc instead.
add_custom_target(fast_tests)
add_custom_target(emulated_tests)
add_custom_target(tsan_tests)

# What every test includes and takes seconds to read, precompiled once for all of them. Tests are
# compiled quickly rather than for speed: what they measure and exercise is in the libraries.
set(INCIPIT_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)
if(INCIPIT_TESTS)
  file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "")
  add_library(incipit_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_compile_features(incipit_test_headers PUBLIC cxx_std_20)
  target_compile_options(incipit_test_headers PRIVATE ${INCIPIT_TEST_OPTIONS} -pthread)
  target_link_libraries(incipit_test_headers PRIVATE incipit_warnings GTest::gtest GTest::gmock
    absl::statusor absl::strings fmt::fmt)
  target_precompile_headers(incipit_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>
    <absl/status/statusor.h> <fmt/format.h> <algorithm> <filesystem> <fstream> <map> <random> <span>
    <string> <thread> <vector>)
endif()

# incipit_test(<name> SOURCES ... DEPS ... LABELS ...): a GoogleTest program; each TEST is one CTest test.
# LABELS: fast (the default), slow, emulated, gpu, grpc, tsan, and whatever a preset filters by. CPU_SECONDS: what
# it may take, of all threads, and 2.5 times as much under a sanitizer.
function(incipit_test name)
  if(NOT INCIPIT_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT;CPU_SECONDS" "SOURCES;DEPS;LABELS;ENVIRONMENT")
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  set(command ${name})
  if(ARG_CPU_SECONDS)
    if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
      math(EXPR ARG_CPU_SECONDS "2 * ${ARG_CPU_SECONDS}")
    endif()
    find_package(Python3 COMPONENTS Interpreter REQUIRED)
    set(command ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/cpu_time.py ${ARG_CPU_SECONDS}
      $<TARGET_FILE:${name}>)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    math(EXPR ARG_TIMEOUT "2 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} incipit_warnings fmt::fmt GTest::gtest GTest::gmock
    GTest::gtest_main)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE ${INCIPIT_TEST_OPTIONS} -pthread)
  target_precompile_headers(${name} REUSE_FROM incipit_test_headers)
  target_compile_definitions(${name} PRIVATE INCIPIT_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    INCIPIT_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${command})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "${ARG_ENVIRONMENT}")
  foreach(label IN ITEMS fast emulated tsan)
    if(${label} IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
endfunction()

# incipit_fuzz(<name> SOURCE file CORPUS dir DEPS ...): LLVMFuzzerTestOneInput, driven by libFuzzer in the
# preset `fuzz`, and otherwise by tests/fuzz/replay_main.cpp over its corpus as a normal test.
function(incipit_fuzz name)
  if(NOT INCIPIT_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "SOURCE;CORPUS" "DEPS")
  add_executable(${name} ${ARG_SOURCE})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} incipit_warnings)
  if(INCIPIT_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_dependencies(fast_tests ${name})
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${ARG_CORPUS})
    set_tests_properties(${name} PROPERTIES LABELS "fast;fuzz" TIMEOUT 120)
  endif()
endfunction()

# incipit_bench(<name> SOURCES ... DEPS ...): a Google Benchmark program in <build>/bench.
function(incipit_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPS")
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} incipit_warnings benchmark::benchmark)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
endfunction()
