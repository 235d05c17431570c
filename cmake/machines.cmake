# SPDX-License-Identifier: MIT
# The machines that devices/ describes become a C file, machines.c in the build folder: hearth plan --machine NAME.
file(GLOB HEARTH_MACHINES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/devices/*.txt)
set(machine_texts "")
set(machine_table "")
set(machine_number 0)
foreach(path IN LISTS HEARTH_MACHINES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(name ${path} NAME_WLE)
    file(READ ${path} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND machine_texts "static const char text_${machine_number}[] = {${bytes}'\\0'};\n")
    string(APPEND machine_table "    {\"${name}\", text_${machine_number}},\n")
    math(EXPR machine_number "${machine_number} + 1")
endforeach()
set(HEARTH_MACHINES_C ${CMAKE_CURRENT_BINARY_DIR}/machines.c)
file(CONFIGURE OUTPUT ${HEARTH_MACHINES_C} @ONLY CONTENT
"// Made by cmake/machines.cmake of devices/.
#include \"cli/machine.h\"

@machine_texts@
const struct hearth_known_machine hearth_known_machines[] = {
@machine_table@    {0},
};
")
