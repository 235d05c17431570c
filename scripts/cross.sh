#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the program for another system: one file, with all libraries in it that the system does not have itself.
#
#   scripts/cross.sh TARGET [FOLDER]
#
# TARGET: x86_64-linux-musl aarch64-linux-musl x86_64-windows aarch64-windows x86_64-macos aarch64-macos
# FOLDER: where everything is put, build-cross if none is given. The program is FOLDER/TARGET/hearth[.exe], the licences
#         of what is in it FOLDER/TARGET/licences.
#
# The compiler is zig, of the version below: $ZIG, or what the package `ziglang` of the Python package index has, which is
# downloaded into FOLDER. Libraries are made of Debian's source packages of the versions below. Nothing is installed, and
# no root is needed. TESTS=1 builds the tests, too. JOBS: how many at once, 2 if not given.
set -eu

usage() {
    sed -n 's/^# \{0,1\}//; 4,9p' "$0" >&2
    exit 2
}
[ $# = 1 ] || [ $# = 2 ] || usage
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/apt-folder.sh"
target=$1
folder=${2:-$here/build-cross}
jobs=${JOBS:-2}

zig_version=0.17.1
zig_sum=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 # of the package for x86-64

# NAME VERSION SHA256-of-the-dsc-file LIBRARY; the dsc file has the sums of the others.
sources='
pcre2 10.42-1 726dafe7a8d07332d4df61edf23f384ddb158b2b263846273d1103b6b9a7c176
jansson 2.14-2 6296ddd9c0a022bd1b70074aefb171cfcdf5694a04ffd32b35fd66097621af87
libmicrohttpd 0.9.75-6 c0f8a9cd77c41285d2d48fc68bbee2e460a55042fcd5d3f6b9946c017d4b6846
hwloc 2.9.0-1 680eca8eb1fa245f90089ac11bb22d7ae1d3b3e3b114cca08617ea986678fd69
liburing 2.3-3 1eefd4e81c0c3c767ccc95adcb6a37d184418ea127dd9e8b68624ae911f2f66d
cmocka 1.1.5-2.1 9f94190b571e059dd6a359c7effd40b982c6c2796959ea201cf41e7cac0b6730
'
release=bookworm

die() {
    echo "cross: $*" >&2
    exit 1
}

# What CMake calls the system, and how zig names it. macOS: the oldest release that every program for it can count on.
libraries='pcre2 jansson libmicrohttpd'
suffix=
case $target in
x86_64-linux-musl | aarch64-linux-musl) system=Linux triple=$target libraries="$libraries hwloc liburing" ;;
x86_64-windows | aarch64-windows) system=Windows triple=$target-gnu suffix=.exe ;;
x86_64-macos | aarch64-macos) system=Darwin triple=$target.13.0-none ;;
*) usage ;;
esac
[ -z "${TESTS:-}" ] || libraries="$libraries cmocka"
processor=${target%%-*}

case $here$folder in
*[[:blank:]]*) die "there is a blank in the path $here or $folder: the libraries' build files cannot do with that" ;;
esac
for tool in flock cmake ninja make python3 apt-get dpkg-source sha256sum pkg-config; do
    command -v $tool >/dev/null 2>&1 || die "$tool is not installed (Debian: cmake ninja-build make python3 apt dpkg-dev pkg-config)"
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/$target
mkdir -p "$root/stamps" "$root/licences"
exec 9>"$root/lock" # two builds of one target would spoil each other's libraries
flock 9

# ---- zig

zig_folder() {
    local file=$folder/zig-$zig_version
    [ "$(uname -m)" = x86_64 ] || die "no zig is pinned for this machine: give one of version $zig_version as \$ZIG"
    if [ ! -e "$file/complete" ]; then
        rm -rf "$file"
        mkdir -p "$file"
        python3 -m venv "$file/venv" >&2 || die "python3 cannot make a venv (Debian: python3-venv)"
        "$file/venv/bin/pip" -q download --no-deps -d "$file" "ziglang==$zig_version" >&2
        echo "$zig_sum  $(echo "$file"/*.whl)" | sha256sum -c --quiet >&2 || die "the package ziglang is not the one that is meant"
        python3 -m zipfile -e "$file"/*.whl "$file"
        chmod +x "$file/ziglang/zig"
        rm -rf "$file/venv" "$file"/*.whl
        : >"$file/complete"
    fi
    echo "$file/ziglang"
}
zig=${ZIG:-}
[ -n "$zig" ] || zig=$(zig_folder)/zig
[ "$("$zig" version)" = "$zig_version" ] || die "$zig is not version $zig_version"
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$folder/zig-cache}
export ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR

# What is built has no path of this machine in it.
mkdir -p "$root/tools"
flags="-target $triple -g0 -fomit-frame-pointer -ffile-prefix-map=$folder=."
printf '#!/bin/sh\nexec %s cc %s "$@"\n' "$zig" "$flags" >"$root/tools/cc"
for tool in ar ranlib; do
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$zig" $tool >"$root/tools/$tool"
done
# Resources of Windows name the versions of shared libraries: a static one gets an empty object for them.
cat >"$root/tools/rc" <<TEXT
#!/bin/sh
while [ \$# != 0 ]; do
    [ "\$1" != -o ] || out=\$2
    shift
done
exec $root/tools/cc -x c -c /dev/null -o "\$out"
TEXT
chmod +x "$root"/tools/*
cat >"$root/toolchain.cmake" <<TEXT
set(CMAKE_SYSTEM_NAME $system)
set(CMAKE_SYSTEM_PROCESSOR $processor)
set(CMAKE_C_COMPILER $root/tools/cc)
set(CMAKE_AR $root/tools/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $root/tools/ranlib CACHE FILEPATH "")
set(CMAKE_FIND_ROOT_PATH $root/libraries)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_OSX_SYSROOT "" CACHE STRING "")
set(ENV{PKG_CONFIG_LIBDIR} $root/libraries/lib/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
set(HEARTH_ZIG ON)
set(CMAKE_C_FLAGS_INIT -ffile-prefix-map=$here=.)
TEXT
# Tests run in an emulator, where there is one.
case $target in
x86_64-windows) emulator=wine ;;
aarch64-linux-musl) emulator=qemu-aarch64 ;;
*) emulator= ;;
esac
[ -z "$emulator" ] || ! command -v $emulator >/dev/null 2>&1 ||
    echo "set(CMAKE_CROSSCOMPILING_EMULATOR $(command -v $emulator))" >>"$root/toolchain.cmake"
[ "$emulator" != qemu-aarch64 ] || echo "set(HEARTH_EMULATED ON)" >>"$root/toolchain.cmake" # fewer rounds
export PKG_CONFIG_LIBDIR=$root/libraries/lib/pkgconfig PKG_CONFIG_PATH=

# ---- sources

# Unpacks the source package into $folder/sources/NAME-VERSION, unless it is there.
fetch() {
    local name=$1 version=$2 sum=$3 to=$folder/sources/$1-$2 dsc
    [ ! -e "$to/.complete" ] || return 0
    rm -rf "$to" "$to.packed"
    mkdir -p "$to.packed"
    apt_folder "$folder/apt" "$release" deb-src || die "apt-get cannot be used"
    (cd "$to.packed" && apt-get -q source --download-only "$name=$version" >&2) || die "no source package $name $version"
    dsc=$(echo "$to.packed"/*.dsc)
    echo "$sum  $dsc" | sha256sum -c --quiet >&2 || die "the source package of $name is not the one that is meant"
    dpkg-source --no-check -x "$dsc" "$to" >/dev/null
    rm -rf "$to.packed"
    : >"$to/.complete"
}

# ---- libraries

with_configure() { # SOURCE OPTION...
    local source=$1 host=$processor-pc-linux-musl
    shift
    case $system in
    Windows) host=$processor-w64-mingw32 ;;
    Darwin) host=$processor-apple-darwin22 ;;
    esac
    "$source/configure" -q --host="$host" --prefix="$root/libraries" --disable-shared --enable-static CC="$root/tools/cc" \
        AR="$root/tools/ar" RANLIB="$root/tools/ranlib" RC="$root/tools/rc" CFLAGS=-O2 "$@"
    make -s -j "$jobs"
    make -s install
}

with_cmake() { # SOURCE OPTION...
    local source=$1
    shift
    cmake -G Ninja -S "$source" -B . -DCMAKE_TOOLCHAIN_FILE="$root/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$root/libraries" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF "$@"
    ninja -j "$jobs"
    ninja install
}

build_pcre2() {
    with_cmake "$1" -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_SUPPORT_JIT=ON
    cp "$1/LICENCE" "$root/licences/pcre2.txt"
}

build_jansson() {
    with_cmake "$1" -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    cp "$1/LICENSE" "$root/licences/jansson.txt"
}

build_libmicrohttpd() {
    with_configure "$1" --disable-https --disable-doc --disable-examples --disable-curl --disable-postprocessor \
        --disable-bauth --disable-dauth --disable-httpupgrade
    cp "$1/COPYING" "$root/licences/libmicrohttpd.txt"
}

build_hwloc() {
    # The library has the path of what the system leaves there in it: it is not to be one of this machine's.
    with_configure "$1" --localstatedir=/var --disable-libxml2 --disable-pci --disable-opencl --disable-cuda \
        --disable-nvml --disable-rsmi --disable-levelzero --disable-gl --disable-libudev --disable-cairo --disable-io --disable-plugins
    cp "$1/COPYING" "$root/licences/hwloc.txt"
}

build_liburing() { # it builds where its sources are
    cp -R "$1/." .
    ./configure --prefix="$root/libraries" --cc="$root/tools/cc"
    make -s -C src -j "$jobs" ENABLE_SHARED=0 AR="$root/tools/ar" RANLIB="$root/tools/ranlib"
    make -s -C src install ENABLE_SHARED=0
    make -s liburing.pc && install -D -m 644 liburing.pc "$root/libraries/lib/pkgconfig/liburing.pc"
    cp "$1/LICENSE" "$root/licences/liburing.txt"
}

build_cmocka() { # it builds a shared library whatever it is told, and names the static one so that nobody finds it
    local defined=
    [ "$system" != Linux ] || defined=-D_UINTPTR_T_DEFINED # musl has the type, and says so by another name
    with_cmake "$1" -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF -DCMAKE_C_FLAGS="$defined"
    (cd "$root/libraries" && rm -f lib/libcmocka.* bin/cmocka.dll && mv lib/libcmocka-static.a lib/libcmocka.a &&
        sed -i "s/^Cflags:/& $defined/" lib/pkgconfig/cmocka.pc)
}

# A stamp says of what a library was built: another version, compiler or recipe builds it anew.
build_library() {
    local name=$1 line version sum stamp work=$root/work/$1
    line=$(printf '%s\n' "$sources" | sed -n "s/^$name //p")
    version=${line% *} sum=${line#* }
    stamp=$(printf '%s\n' "$line" "$zig_version" "$flags" "$(declare -f build_"$name" with_configure with_cmake)" | sha256sum)
    [ "$(cat "$root/stamps/$name" 2>/dev/null)" != "$stamp" ] || return 0
    fetch "$name" "$version" "$sum"
    rm -rf "$work"
    mkdir -p "$work"
    echo "cross: $target: $name $version"
    local status=0
    set +e # not `if`, in which nothing would stop at the first error
    (
        set -e
        cd "$work"
        "build_$name" "$folder/sources/$name-$version"
    ) >"$work.log" 2>&1
    status=$?
    set -e
    if [ $status != 0 ]; then
        tail -30 "$work.log" >&2
        die "$name cannot be built for $target; all of it is in $work.log"
    fi
    rm -rf "$work"
    echo "$stamp" >"$root/stamps/$name"
}

for name in $libraries; do
    build_library "$name"
done

# ---- the program

options=(-DHEARTH_SHARED=OFF -DHEARTH_EXAMPLES=OFF -DHEARTH_STATIC=ON)
[ -z "${TESTS:-}" ] || options+=(-DHEARTH_TESTS=ON)
[ -n "${TESTS:-}" ] || options+=(-DHEARTH_TESTS=OFF)
cmake -G Ninja -S "$here" -B "$root/build" -DCMAKE_TOOLCHAIN_FILE="$root/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    "${options[@]}" >"$root/configure.log" 2>&1 || {
    tail -20 "$root/configure.log" >&2
    die "cannot be configured for $target"
}
if [ -n "${TESTS:-}" ]; then
    ninja -C "$root/build" -j "$jobs"
else
    ninja -C "$root/build" -j "$jobs" hearth-cli
fi
cp "$root/build/hearth$suffix" "$root/hearth$suffix"
cp "$here/LICENSE" "$root/licences/hearth.txt"
lib=$(dirname "$zig")/lib
[ -d "$lib" ] || lib=$("$zig" env | sed -n 's/.*lib_dir *= *"\(.*\)".*/\1/p')
case $system in
Linux) cp "$lib/libc/musl/COPYRIGHT" "$root/licences/musl.txt" ;;
Windows) cp "$lib/libc/mingw/COPYING" "$root/licences/mingw-w64.txt" ;;
esac
cp "$(dirname "$zig")/LICENSE" "$root/licences/zig-compiler-rt.txt"
echo "$root/hearth$suffix"
