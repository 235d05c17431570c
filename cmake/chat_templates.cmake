# SPDX-License-Identifier: MIT
# The chat templates of src/text/templates become a C file, chat_templates.c in the build folder: a table of names and
# texts, which the library offers by name.
file(GLOB HEARTH_CHAT_TEMPLATES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/text/templates/*.jinja)
hearth_named_texts(HEARTH_CHAT_TEMPLATES chat_texts chat_table)
set(HEARTH_CHAT_TEMPLATES_C ${CMAKE_CURRENT_BINARY_DIR}/chat_templates.c)
file(CONFIGURE OUTPUT ${HEARTH_CHAT_TEMPLATES_C} @ONLY CONTENT
"// Made by cmake/chat_templates.cmake of src/text/templates.
#include \"text/chat.h\"

@chat_texts@
const struct hearth_chat_named hearth_chat_templates[] = {
@chat_table@    {0},
};
")
