# SPDX-License-Identifier: MIT
# Man pages and completions, made by the program from its own option table, man pages of the library, made from its
# header, and everything that is installed.

set(HEARTH_COMMANDS run chat serve bench perplexity embed tokenize detokenize inspect quantize convert synth profile train-predictors pack plan)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})

set(man_pages ${generated}/hearth.1)
add_custom_command(OUTPUT ${generated}/hearth.1 DEPENDS hearth-cli
                   COMMAND hearth-cli --generate man > ${generated}/hearth.1)
foreach(command IN LISTS HEARTH_COMMANDS)
    set(page ${generated}/hearth-${command}.1)
    add_custom_command(OUTPUT ${page} DEPENDS hearth-cli
                       COMMAND hearth-cli --generate man ${command} > ${page})
    list(APPEND man_pages ${page})
endforeach()
set(completions ${generated}/hearth.bash ${generated}/_hearth ${generated}/hearth.fish)
add_custom_command(OUTPUT ${completions} DEPENDS hearth-cli
                   COMMAND hearth-cli --generate bash > ${generated}/hearth.bash
                   COMMAND hearth-cli --generate zsh > ${generated}/_hearth
                   COMMAND hearth-cli --generate fish > ${generated}/hearth.fish)
# One page a section of the header, and an alias for every other function: the header says which there are.
set(library_pages ${generated}/man3)
set(header ${CMAKE_CURRENT_SOURCE_DIR}/include/hearth.h)
set(man3 ${CMAKE_CURRENT_SOURCE_DIR}/cmake/man3.awk)
set(example ${CMAKE_CURRENT_SOURCE_DIR}/examples/hello.c)
add_custom_command(OUTPUT ${library_pages}/hearth.3 DEPENDS ${header} ${man3} ${example}
                   COMMAND ${CMAKE_COMMAND} -E rm -rf ${library_pages}
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${library_pages}
                   COMMAND awk -v out=${library_pages} -v example=${example} -f ${man3} ${header})
add_custom_target(generated ALL DEPENDS ${man_pages} ${library_pages}/hearth.3 ${completions})

set(HEARTH_PC_REQUIRES "libpcre2-8 jansson")
set(needs PCRE2 JANSSON)
if(LIBURING_FOUND)
    string(APPEND HEARTH_PC_REQUIRES " liburing")
    list(APPEND needs LIBURING)
endif()
if(HWLOC_FOUND)
    string(APPEND HEARTH_PC_REQUIRES " hwloc")
    list(APPEND needs HWLOC)
endif()
# A program that takes libhearth.a is linked with the system's shared libraries, which bring what they need themselves. Those
# needs can only be named where they are all there to be linked with: hwloc's libudev seldom is.
set(HEARTH_PC_PRIVATE "")
set(HEARTH_PC_ALL_THERE TRUE)
foreach(need IN LISTS needs)
    set(folders ${${need}_LIBRARY_DIRS})
    list(REMOVE_ITEM folders ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
    foreach(folder IN LISTS folders)
        string(APPEND HEARTH_PC_PRIVATE "-L${folder} ")
    endforeach()
    foreach(library IN LISTS ${need}_LIBRARIES)
        string(APPEND HEARTH_PC_PRIVATE "-l${library} ")
    endforeach()
    foreach(library IN LISTS ${need}_STATIC_LIBRARIES)
        find_library(HEARTH_PC_FOUND_${library} ${library} HINTS ${${need}_STATIC_LIBRARY_DIRS})
        mark_as_advanced(HEARTH_PC_FOUND_${library})
        if(NOT HEARTH_PC_FOUND_${library})
            set(HEARTH_PC_ALL_THERE FALSE)
        endif()
    endforeach()
endforeach()
file(RELATIVE_PATH HEARTH_PC_BACK /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# With a shared library, programs need nothing else; the static one alone needs what it is made of.
if(TARGET hearth-shared)
    set(HEARTH_PC_LIBS "")
    if(HEARTH_PC_ALL_THERE)
        set(HEARTH_PC_NEEDS "Requires.private: ${HEARTH_PC_REQUIRES}\n")
        set(HEARTH_PC_PRIVATE "")
    endif()
else()
    set(HEARTH_PC_NEEDS "Requires: ${HEARTH_PC_REQUIRES}\n")
    set(HEARTH_PC_LIBS " -lm -pthread")
    set(HEARTH_PC_PRIVATE "")
endif()
add_custom_target(installed DEPENDS hearth-cli hearth generated)
if(TARGET hearth-shared)
    add_dependencies(installed hearth-shared)
endif()
configure_file(cmake/hearth.pc.in ${generated}/hearth.pc @ONLY)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hearth)
configure_package_config_file(cmake/hearthConfig.cmake.in ${generated}/hearthConfig.cmake INSTALL_DESTINATION ${package}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${generated}/hearthConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS hearth-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS hearth ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET hearth-shared)
    install(TARGETS hearth-shared EXPORT hearthShared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT hearthShared NAMESPACE hearth:: DESTINATION ${package})
endif()
install(FILES ${generated}/hearthConfig.cmake ${generated}/hearthConfigVersion.cmake DESTINATION ${package})
install(FILES include/hearth.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${generated}/hearth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY ${library_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES ${generated}/hearth.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME hearth)
install(FILES ${generated}/_hearth DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${generated}/hearth.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
