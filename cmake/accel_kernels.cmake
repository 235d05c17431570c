# SPDX-License-Identifier: MIT
# The devices' kernels, src/accel/kernels/, become a C file, accel_kernels.c in the build folder: as their text, which
# OpenCL's drivers compile, and as PTX, which NVIDIA's do, where there is a clang that makes it.
set(accel_folder ${CMAKE_CURRENT_SOURCE_DIR}/src/accel/kernels)

# A text of these files, beside the build's.
function(accel_join out)
    set(text "")
    foreach(name IN LISTS ARGN)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${accel_folder}/${name}.cl)
        file(READ ${accel_folder}/${name}.cl part)
        string(APPEND text "${part}\n")
    endforeach()
    file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "@text@")
endfunction()
set(accel_all ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels.cl)
set(accel_61 ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels_61.cl)
set(accel_80 ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels_80.cl)
accel_join(${accel_all} numbers rows products one matrix plain down attention experts latent forms)
accel_join(${accel_61} numbers rows products one plain down attention experts latent forms)
accel_join(${accel_80} numbers products matrix)
set(HEARTH_ACCEL_MATRIX_SOURCE ${accel_80})

# Nothing is fused, flushed or rounded otherwise than written. 6.1: integer dot products, 8.0: products of matrices.
set(accel_ptx_flags -x cl -cl-std=CL1.2 --target=nvptx64-nvidia-cuda -O2 -ffp-contract=off
                    -Xclang -cl-fp32-correctly-rounded-divide-sqrt -Wno-everything)
find_program(HEARTH_PTX_CLANG NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
             DOC "a clang that knows the target nvptx64, for kernels of NVIDIA's GPUs")

function(accel_make_ptx source capability version out)
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels_${capability}.ptx)
    if(NOT EXISTS ${ptx} OR ${source} IS_NEWER_THAN ${ptx} OR ${CMAKE_CURRENT_FUNCTION_LIST_FILE} IS_NEWER_THAN ${ptx})
        file(REMOVE ${ptx})
        execute_process(COMMAND ${HEARTH_PTX_CLANG} ${accel_ptx_flags} -march=sm_${capability} -Xclang -target-feature
                                -Xclang +ptx${version} -DHEARTH_PTX=${capability} -S ${source} -o ${ptx}
                        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        if(failed)
            file(REMOVE ${ptx})
        endif()
    endif()
    set(text "")
    if(EXISTS ${ptx})
        # Drivers' compilers keep what a kernel loads ahead in registers as long as these groups fit at once.
        file(READ ${ptx} code)
        foreach(bound "step_[48];128;3" "one_4_32;256;3" "one_8;256;2" "one_4_16;256;2" "matrix_;256;2" "attend_rows;256;2")
            list(GET bound 0 name)
            list(GET bound 1 items)
            list(GET bound 2 least)
            string(REGEX REPLACE "(\\.visible \\.entry ${name}[^)]*\\)\n)([^.])"
                   "\\1.maxntid ${items}, 1, 1\n.minnctapersm ${least}\n\\2" code "${code}")
        endforeach()
        file(CONFIGURE OUTPUT ${ptx}.bounded @ONLY CONTENT "@code@")
        hearth_chars(${ptx}.bounded text)
    endif()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(accel_ptx_text "")
set(accel_ptx_80_text "")
if(HEARTH_PTX_CLANG)
    accel_make_ptx(${accel_61} 61 63 accel_ptx_text)
    accel_make_ptx(${accel_80} 80 70 accel_ptx_80_text)
endif()
if(NOT accel_ptx_text)
    message(STATUS "no clang that compiles for nvptx64: NVIDIA's GPUs are used by OpenCL alone")
endif()

hearth_chars(${accel_all} accel_text)
set(HEARTH_ACCEL_KERNELS_C ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels.c)
file(CONFIGURE OUTPUT ${HEARTH_ACCEL_KERNELS_C} @ONLY CONTENT
"// Made by cmake/accel_kernels.cmake of src/accel/kernels/.
#include \"accel/kernels_source.h\"

const char hearth_accel_kernels_cl[] = {@accel_text@'\\0'};
const char hearth_accel_kernels_ptx[] = {@accel_ptx_text@'\\0'};
const char hearth_accel_kernels_ptx_80[] = {@accel_ptx_80_text@'\\0'};
")
