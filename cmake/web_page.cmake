# SPDX-License-Identifier: MIT
# The files of src/serve/page/ become one page, and this a C file, web_page.c in the build folder: hearth serve sends it
# to browsers, with a policy that allows its style and its script by their hashes and nothing else.
set(page_folder ${CMAKE_CURRENT_SOURCE_DIR}/src/serve/page)
set(page_scripts elements.js markdown.js store.js server.js thread.js main.js)

function(read_page_file name out)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_folder}/${name})
    file(READ ${page_folder}/${name} text)
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# The SHA-256 of a text in base64, as policies want it.
function(hash_of text out)
    set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
    string(SHA256 hash "${text}")
    string(APPEND hash 00) # 33 bytes; the last digit is then the padding
    set(base64 "")
    foreach(at RANGE 0 63 3) # three hexadecimal digits are two in base64
        string(SUBSTRING ${hash} ${at} 3 three)
        math(EXPR high "0x${three} >> 6")
        math(EXPR low "0x${three} & 63")
        string(SUBSTRING ${digits} ${high} 1 high)
        string(SUBSTRING ${digits} ${low} 1 low)
        string(APPEND base64 ${high}${low})
    endforeach()
    string(SUBSTRING ${base64} 0 43 base64)
    set(${out} "sha256-${base64}=" PARENT_SCOPE)
endfunction()

read_page_file(page.css page_style)
set(page_script "")
foreach(name ${page_scripts})
    read_page_file(${name} text)
    string(APPEND page_script "${text}\n")
endforeach()
read_page_file(page.html page)
string(REPLACE "@page_style@" "${page_style}" page "${page}")
string(REPLACE "@page_script@" "${page_script}" page "${page}")
hash_of("${page_style}" style_hash)
hash_of("${page_script}" script_hash)
string(CONCAT page_policy
    "default-src 'none'; script-src '${script_hash}'; style-src '${style_hash}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'")

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/web_page.html "${page}")
file(SIZE ${CMAKE_CURRENT_BINARY_DIR}/web_page.html page_size)
hearth_chars(${CMAKE_CURRENT_BINARY_DIR}/web_page.html page_bytes)
set(HEARTH_WEB_PAGE_C ${CMAKE_CURRENT_BINARY_DIR}/web_page.c)
file(CONFIGURE OUTPUT ${HEARTH_WEB_PAGE_C} @ONLY CONTENT
"// Made by cmake/web_page.cmake of src/serve/page/.
#include \"serve/page.h\"

const char hearth_web_page[] = {@page_bytes@'\\0'};
const size_t hearth_web_page_bytes = @page_size@;
const char hearth_web_page_policy[] = \"@page_policy@\";
")
