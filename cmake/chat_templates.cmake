# SPDX-License-Identifier: MIT
# The chat templates of src/text/templates become a C file, chat_templates.c in the build folder: a table of names and
# texts, which the library offers by name.
file(GLOB HEARTH_CHAT_TEMPLATES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/text/templates/*.jinja)
set(chat_texts "")
set(chat_table "")
set(chat_number 0)
foreach(path IN LISTS HEARTH_CHAT_TEMPLATES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    get_filename_component(name ${path} NAME_WLE)
    file(READ ${path} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND chat_texts "static const char text_${chat_number}[] = {${bytes}'\\0'};\n")
    string(APPEND chat_table "    {\"${name}\", text_${chat_number}},\n")
    math(EXPR chat_number "${chat_number} + 1")
endforeach()
set(HEARTH_CHAT_TEMPLATES_C ${CMAKE_CURRENT_BINARY_DIR}/chat_templates.c)
file(CONFIGURE OUTPUT ${HEARTH_CHAT_TEMPLATES_C} @ONLY CONTENT
"// Made by cmake/chat_templates.cmake of src/text/templates.
#include \"text/chat.h\"

@chat_texts@
const struct hearth_chat_named hearth_chat_templates[] = {
@chat_table@    {0},
};
")
