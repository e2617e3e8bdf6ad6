# Device code: where its compiler is, and what is done with it. Without one everything else is built
# and tested, and the test `cuda_gates` says what is missing.

# The toolkit: CUDA_HOME, /usr/local/cuda, or what `make deps-cuda` put into build/cuda_toolkit; the first of
# CUDA 13.
function(incipit_check_nvcc result nvcc)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "release 13\\.")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
set(INCIPIT_CUDA_HOMES /usr/local/cuda ${PROJECT_SOURCE_DIR}/build/cuda_toolkit/nvidia/cu13)
if(DEFINED ENV{CUDA_HOME})
  list(PREPEND INCIPIT_CUDA_HOMES $ENV{CUDA_HOME})
endif()
find_program(INCIPIT_NVCC nvcc NO_DEFAULT_PATH HINTS ${INCIPIT_CUDA_HOMES} PATH_SUFFIXES bin
  VALIDATOR incipit_check_nvcc DOC "Compiler of device code, CUDA 13")
set(INCIPIT_NVCC_MISSING "")
if(NOT INCIPIT_NVCC)
  set(INCIPIT_NVCC_MISSING
    "no nvcc of CUDA 13 in CUDA_HOME, /usr/local/cuda or build/cuda_toolkit (make deps-cuda installs one)")
endif()
if(INCIPIT_NVCC_MISSING)
  message(STATUS "Device code is not compiled: ${INCIPIT_NVCC_MISSING}")
else()
  message(STATUS "Device code is compiled by ${INCIPIT_NVCC}")
endif()

set(INCIPIT_NVCC_FLAGS -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I${PROJECT_SOURCE_DIR})

# The runtime's headers, and the runtime itself, linked into the program: it looks for the driver when it is
# asked for a device, so the program starts without one.
add_library(incipit_cudart INTERFACE)
if(NOT INCIPIT_NVCC_MISSING)
  cmake_path(GET INCIPIT_NVCC PARENT_PATH cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
  find_library(INCIPIT_CUDART cudart_static NO_DEFAULT_PATH HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
  target_include_directories(incipit_cudart SYSTEM INTERFACE ${cuda_root}/include)
  if(INCIPIT_CUDART)
    target_link_libraries(incipit_cudart INTERFACE ${INCIPIT_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
  endif()
endif()
if(INCIPIT_CUDA STREQUAL "AUTO")
  set(INCIPIT_CUDA OFF)
  if(NOT INCIPIT_NVCC_MISSING AND INCIPIT_CUDART)
    set(INCIPIT_CUDA ON)
  endif()
endif()
if(INCIPIT_CUDA AND NOT INCIPIT_NVCC_MISSING AND NOT INCIPIT_CUDART)
  message(FATAL_ERROR "INCIPIT_CUDA is ON, and there is no cudart_static beside ${INCIPIT_NVCC}")
endif()
message(STATUS "CUDA backend: ${INCIPIT_CUDA}")

# incipit_cuda_sources(<target> file.cu ...): compiled by nvcc into the target.
function(incipit_cuda_sources target)
  if(INCIPIT_NVCC_MISSING)
    message(FATAL_ERROR "INCIPIT_CUDA is ON, and there is ${INCIPIT_NVCC_MISSING}")
  endif()
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM name)
    cmake_path(ABSOLUTE_PATH source)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${INCIPIT_NVCC} ${INCIPIT_NVCC_FLAGS} -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC -c
        -MD -MF ${object}.d -o ${object} ${source}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "${name}.cu for a card")
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()

# incipit_cuda_gates(BUDGET file SOURCES file.cu ...): the test `cuda_gates`, which holds the machine code of
# these files against a budget (tools/cuda_gates.py). Compiles them into <build>/cuda_gates.
function(incipit_cuda_gates)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "BUDGET" "SOURCES")
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(gates ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/cuda_gates.py)
  if(INCIPIT_NVCC_MISSING)
    add_test(NAME cuda_gates COMMAND ${gates} --skip "${INCIPIT_NVCC_MISSING}")
  else()
    set(folder ${PROJECT_BINARY_DIR}/cuda_gates)
    file(MAKE_DIRECTORY ${folder})
    set(cubins)
    foreach(source IN LISTS ARG_SOURCES)
      cmake_path(GET source STEM name)
      list(APPEND cubins ${folder}/${name}.cubin)
      add_custom_command(OUTPUT ${folder}/${name}.cubin BYPRODUCTS ${folder}/${name}.log
        COMMAND sh -c "log=$1; shift; \"$@\" >\"$log\" 2>&1 || { cat \"$log\"; exit 1; }" sh
          ${folder}/${name}.log ${INCIPIT_NVCC} ${INCIPIT_NVCC_FLAGS} -Xptxas -v -cubin
          -MD -MF ${folder}/${name}.d -o ${folder}/${name}.cubin ${source}
        DEPENDS ${source} DEPFILE ${folder}/${name}.d VERBATIM
        COMMENT "Device code of ${name}.cu")
    endforeach()
    add_custom_target(cuda_cubins ALL DEPENDS ${cubins})
    add_custom_target(cuda_gates COMMAND ${gates} ${ARG_BUDGET} ${folder} DEPENDS ${cubins} VERBATIM)
    add_dependencies(fast_tests cuda_cubins)
    add_test(NAME cuda_gates COMMAND ${gates} ${ARG_BUDGET} ${folder})
  endif()
  set_tests_properties(cuda_gates PROPERTIES LABELS fast SKIP_RETURN_CODE 77)
endfunction()
