# SPDX-License-Identifier: MIT
# Files in C files.

# The bytes of a file as the elements of an array of char in C.
function(hearth_chars path out)
    file(READ ${path} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    set(${out} "${bytes}" PARENT_SCOPE)
endfunction()

# Files as texts of their own and a table of {"NAME", text}, NAME without folder and ending: definitions and rows.
# The build is configured again when one of them changes.
function(hearth_named_texts paths out_texts out_rows)
    set(texts "")
    set(rows "")
    set(number 0)
    foreach(path IN LISTS ${paths})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
        get_filename_component(name ${path} NAME_WLE)
        hearth_chars(${path} chars)
        string(APPEND texts "static const char text_${number}[] = {${chars}'\\0'};\n")
        string(APPEND rows "    {\"${name}\", text_${number}},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    set(${out_texts} "${texts}" PARENT_SCOPE)
    set(${out_rows} "${rows}" PARENT_SCOPE)
endfunction()
