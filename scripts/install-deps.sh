#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what building and testing Hearth needs, with apt where it exists. Does nothing, and needs no network, when
# everything is there.
#
#   scripts/install-deps.sh        compiler, CMake, libraries
#   scripts/install-deps.sh check  the same, and the tools of scripts/check-*.sh and .ci/run
#   scripts/install-deps.sh devices  the first, and PoCL, which makes an OpenCL device of the CPU, for tests of devices,
#                                    and what finds OpenCL's drivers, which PoCL's package alone does not bring along
#   scripts/install-deps.sh arm    the first, and a compiler and an emulator of 64-bit ARM, for make test-cross and test-arm
set -eu

missing=()

need_tool() { # the Debian package, then tools any one of which will do
    local package=$1 tool
    shift
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 && return
    done
    missing+=("$package")
}

need_library() { # the Debian package, its pkg-config name
    pkg-config --exists "$2" 2>/dev/null || missing+=("$1")
}

need_tool gcc cc gcc clang
need_tool libc6-dev ldd
need_tool make make
need_tool cmake cmake
need_tool ninja-build ninja
need_tool pkg-config pkg-config pkgconf
need_library libpcre2-dev libpcre2-8
need_library libhwloc-dev hwloc
need_library liburing-dev liburing
need_library libjansson-dev jansson
need_library libedit-dev libedit
need_library libmicrohttpd-dev libmicrohttpd
need_library libcmocka-dev cmocka
if [ "${1:-}" = check ]; then
    need_tool gcc gcc
    need_tool g++ g++
    need_tool clang clang
    need_tool clang-format-14 clang-format-14 clang-format
    need_tool shellcheck shellcheck
    need_tool curl curl
    need_tool binutils nm
fi
if [ "${1:-}" = devices ]; then
    compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null || missing+=(pocl-opencl-icd)
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libOpenCL\.so\.1 ' || missing+=(ocl-icd-libopencl1)
fi
if [ "${1:-}" = arm ]; then
    need_tool gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
    need_tool qemu-user qemu-aarch64 qemu-aarch64-static
fi
[ ${#missing[@]} -eq 0 ] && exit 0

echo "missing: ${missing[*]}" >&2
if ! command -v apt-get >/dev/null 2>&1; then
    cat >&2 <<TEXT
This script installs with apt only. Please install the packages that provide:
  a C17 compiler, make, CMake 3.20 or later, ninja (optional), pkg-config,
  and the development files of PCRE2 (8-bit), hwloc, liburing, jansson, libedit, libmicrohttpd and
  cmocka.
TEXT
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "Please run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
if ! "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; then
    # Perhaps the package lists are missing or old.
    "${as_root[@]}" apt-get update
    "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"
fi
