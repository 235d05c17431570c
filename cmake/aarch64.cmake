# SPDX-License-Identifier: MIT
# Compiles for 64-bit ARM on another machine and runs the tests in an emulator; Debian's packages are
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user (or qemu-user-static). QEMU_CPU in the environment picks
# the processor that is emulated.
#
# HEARTH_ARM_ROOT is a folder with ARM libraries as scripts/arm-libraries.sh makes it. Without it there are no libraries
# but the compiler's own: only the kernels can be built (HEARTH_KERNELS_ONLY), and programs are static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEARTH_ARM_ROOT)
set(HEARTH_EMULATED ON) # tests make do with fewer rounds
find_program(HEARTH_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
set(CMAKE_CROSSCOMPILING_EMULATOR ${HEARTH_QEMU})
if(HEARTH_ARM_ROOT)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${HEARTH_QEMU} -L /usr/aarch64-linux-gnu)
    set(ENV{PKG_CONFIG_LIBDIR} ${HEARTH_ARM_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
    set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HEARTH_ARM_ROOT})
else()
    set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
endif()
