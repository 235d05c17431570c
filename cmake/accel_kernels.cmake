# SPDX-License-Identifier: MIT
# The devices' kernels, src/accel/kernels.cl, become a C file, accel_kernels.c in the build folder: as their text, which
# OpenCL's drivers compile, and as PTX, which NVIDIA's do, where there is a clang that makes it.
set(accel_source ${CMAKE_CURRENT_SOURCE_DIR}/src/accel/kernels.cl)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${accel_source})

# Nothing is fused, flushed or rounded otherwise than written. 6.1: integer dot products.
set(accel_ptx_flags -x cl -cl-std=CL1.2 --target=nvptx64-nvidia-cuda -march=sm_61 -Xclang -target-feature -Xclang +ptx63
                    -DHEARTH_PTX -O2 -ffp-contract=off -Xclang -cl-fp32-correctly-rounded-divide-sqrt -Wno-everything)
set(accel_ptx ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels.ptx)
find_program(HEARTH_PTX_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
             DOC "a clang that knows the target nvptx64, for kernels of NVIDIA's GPUs")
set(accel_ptx_text "")
if(HEARTH_PTX_CLANG)
    if(NOT EXISTS ${accel_ptx} OR ${accel_source} IS_NEWER_THAN ${accel_ptx} OR
       ${CMAKE_CURRENT_LIST_FILE} IS_NEWER_THAN ${accel_ptx})
        file(REMOVE ${accel_ptx})
        execute_process(COMMAND ${HEARTH_PTX_CLANG} ${accel_ptx_flags} -S ${accel_source} -o ${accel_ptx}
                        RESULT_VARIABLE accel_ptx_failed OUTPUT_QUIET ERROR_QUIET)
        if(accel_ptx_failed)
            file(REMOVE ${accel_ptx})
        endif()
    endif()
    if(EXISTS ${accel_ptx})
        hearth_chars(${accel_ptx} accel_ptx_text)
    endif()
endif()
if(NOT accel_ptx_text)
    message(STATUS "no clang that compiles for nvptx64: NVIDIA's GPUs are used by OpenCL alone")
endif()

hearth_chars(${accel_source} accel_text)
set(HEARTH_ACCEL_KERNELS_C ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels.c)
file(CONFIGURE OUTPUT ${HEARTH_ACCEL_KERNELS_C} @ONLY CONTENT
"// Made by cmake/accel_kernels.cmake of src/accel/kernels.cl.
#include \"accel/kernels_source.h\"

const char hearth_accel_kernels_cl[] = {@accel_text@'\\0'};
const char hearth_accel_kernels_ptx[] = {@accel_ptx_text@'\\0'};
")
