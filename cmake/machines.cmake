# SPDX-License-Identifier: MIT
# The machines that devices/ describes become a C file, machines.c in the build folder: hearth plan --machine NAME.
file(GLOB HEARTH_MACHINES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/devices/*.txt)
hearth_named_texts(HEARTH_MACHINES machine_texts machine_table)
set(HEARTH_MACHINES_C ${CMAKE_CURRENT_BINARY_DIR}/machines.c)
file(CONFIGURE OUTPUT ${HEARTH_MACHINES_C} @ONLY CONTENT
"// Made by cmake/machines.cmake of devices/.
#include \"cli/machine.h\"

@machine_texts@
const struct hearth_known_machine hearth_known_machines[] = {
@machine_table@    {0},
};
")
