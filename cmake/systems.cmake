# SPDX-License-Identifier: MIT
# Files that are for some operating systems alone have the system in their names, between underscores: posix (all but
# Windows), linux, macos, windows. Every system compiles its own and those that name none.
if(CMAKE_SYSTEM_NAME STREQUAL Windows)
    set(HEARTH_SYSTEM windows)
elseif(CMAKE_SYSTEM_NAME STREQUAL Darwin)
    set(HEARTH_SYSTEM macos)
else() # Android, too
    set(HEARTH_SYSTEM linux)
endif()

# hearth_drop_other_systems(LIST): leaves what this system compiles.
function(hearth_drop_other_systems list)
    set(others linux macos windows)
    list(REMOVE_ITEM others ${HEARTH_SYSTEM})
    if(HEARTH_SYSTEM STREQUAL windows)
        list(APPEND others posix)
    endif()
    list(JOIN others "|" others)
    list(FILTER ${list} EXCLUDE REGEX "_(${others})(_[a-z0-9_]*)?\\.c$")
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()
