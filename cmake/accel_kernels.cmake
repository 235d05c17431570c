# SPDX-License-Identifier: MIT
# The devices' kernels, src/accel/kernels.cl, become a C file, accel_kernels.c in the build folder.
set(accel_source ${CMAKE_CURRENT_SOURCE_DIR}/src/accel/kernels.cl)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${accel_source})
file(READ ${accel_source} accel_text HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," accel_text "${accel_text}")
set(HEARTH_ACCEL_KERNELS_C ${CMAKE_CURRENT_BINARY_DIR}/accel_kernels.c)
file(CONFIGURE OUTPUT ${HEARTH_ACCEL_KERNELS_C} @ONLY CONTENT
"// Made by cmake/accel_kernels.cmake of src/accel/kernels.cl.
#include \"accel/kernels_source.h\"

const char hearth_accel_kernels_cl[] = {@accel_text@'\\0'};
")
