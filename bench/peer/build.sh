#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes llama.cpp's own llama-bench, llama-quantize and llama-perplexity, and llama-bench-mapped (mapped.h), in bin/ without
# building llama.cpp: the programs are compiled from the source that node-llama-cpp carries and linked to the libraries it
# ships prebuilt.
# Run `npm install` first. Takes a minute. `build.sh server` makes llama-server, too, without its web page: some ten minutes
# more. `build.sh cuda [ARCHITECTURE]` makes llama-bench-cuda with nvcc of the path, for the GPU that is there or for the
# given one (90): half an hour on two cores.
set -eu
cd "$(dirname "$0")"
libs=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
source=node_modules/node-llama-cpp/llama/gitRelease.bundle
[ -f $libs/libggml-base.so ] || {
    echo "run 'npm install' here first" >&2
    exit 1
}
[ -d llama.cpp ] || git -c advice.detachedHead=false clone -q $source llama.cpp
mkdir -p bin
# ggml looks for its CPU variants beside the program.
for f in "$libs"/*.so; do
    ln -sf "../$f" bin/
done
for name in llama-bench llama-quantize llama-perplexity llama-bench-mapped; do
    program=bin/$name
    dir=${name%-mapped}
    more=
    [ "$dir" = "$name" ] || more='-include mapped.h'
    [ -d "llama.cpp/tools/$dir" ] || dir=${dir#llama-}
    [ -x "$program" ] && continue
    # shellcheck disable=SC2086
    ${CXX:-g++} -std=c++17 -O2 -DNDEBUG $more -Illama.cpp/include -Illama.cpp/ggml/include -Illama.cpp/common \
        -Illama.cpp/vendor llama.cpp/tools/$dir/*.cpp -o "$program" bin/libllama-common.so bin/libllama.v*.so \
        bin/libggml.v*.so bin/libggml-base.so -Wl,-rpath,"\$ORIGIN" -lpthread
    echo "$program"
done

if [ "${1:-}" = cuda ]; then
    [ -x bin/llama-bench-cuda ] && exit 0
    cmake -G Ninja -S llama.cpp -B cuda -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_CUDA=ON \
        -DCMAKE_CUDA_ARCHITECTURES="${2:-native}" -DGGML_CUDA_NO_VMM=ON -DGGML_CUDA_NCCL=OFF -DLLAMA_CURL=OFF \
        -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
    ninja -C cuda llama-bench
    cp cuda/bin/llama-bench bin/llama-bench-cuda
    echo bin/llama-bench-cuda
    exit 0
fi
[ "${1:-}" = server ] || exit 0
[ -x bin/llama-server ] && exit 0
mkdir -p server
cmake -DUI_SOURCE_DIR=llama.cpp/tools/ui -DUI_BINARY_DIR=server -DLLAMA_SOURCE_DIR=llama.cpp -DLLAMA_BUILD_NUMBER=1 \
    -DHF_ENABLED=OFF -DBUILD_UI=OFF -DLLAMA_UI_GZIP=ON -P llama.cpp/scripts/ui-assets.cmake >/dev/null 2>&1
# shellcheck disable=SC2016 # the inner shell's
compile='object=server/$(echo "$1" | tr / _).o
[ -e "$object" ] || ${CXX:-g++} -std=c++17 -O2 -DNDEBUG -w -DCPPHTTPLIB_LISTEN_BACKLOG=512 -DCPPHTTPLIB_TCP_NODELAY=1 \
    -Iserver -Illama.cpp -Illama.cpp/include -Illama.cpp/ggml/include -Illama.cpp/common -Illama.cpp/vendor \
    -Illama.cpp/tools/mtmd -Illama.cpp/tools/server -Illama.cpp/vendor/hash -c "$1" -o "$object"'
find llama.cpp/tools/server llama.cpp/tools/mtmd llama.cpp/vendor/cpp-httplib llama.cpp/vendor/hash server -name '*.cpp' \
    ! -path '*/legacy-models/*' ! -path '*/debug/*' ! -path '*/tests/*' ! -name 'mtmd-cli.cpp' ! -name 'deprecation-*' -print0 |
    xargs -0 -P "$(nproc)" -I '{}' sh -c "$compile" sh '{}'
for name in xxhash/xxhash sha1/sha1 sha256/sha256; do # one of them is C++
    source=llama.cpp/vendor/hash/$name.c
    language=c
    grep -q '^namespace' "${source%.c}.h" && language=c++
    ${CXX:-g++} -x $language -O2 -w -Illama.cpp/vendor/hash -c "$source" -o "server/$(basename $name).c.o"
done
${CXX:-g++} server/*.o -o bin/llama-server bin/libllama-common.so bin/libllama.v*.so bin/libggml.v*.so bin/libggml-base.so \
    -Wl,-rpath,"\$ORIGIN" -lpthread
echo bin/llama-server
