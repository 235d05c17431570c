# SPDX-License-Identifier: MIT
# src/serve/page.html becomes a C file, web_page.c in the build folder: hearth serve sends it to browsers.
set(page ${CMAKE_CURRENT_SOURCE_DIR}/src/serve/page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} page_bytes HEX)
string(LENGTH "${page_bytes}" page_size)
math(EXPR page_size "${page_size} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," page_bytes "${page_bytes}")
set(HEARTH_WEB_PAGE_C ${CMAKE_CURRENT_BINARY_DIR}/web_page.c)
file(CONFIGURE OUTPUT ${HEARTH_WEB_PAGE_C} @ONLY CONTENT
"// Made by cmake/web_page.cmake of src/serve/page.html.
#include \"serve/page.h\"

const char hearth_web_page[] = {@page_bytes@'\\0'};
const size_t hearth_web_page_bytes = @page_size@;
")
