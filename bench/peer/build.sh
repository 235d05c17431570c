#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes llama.cpp's own llama-bench and llama-quantize, and llama-bench-mapped (mapped.h), in bin/ without building
# llama.cpp: the programs are compiled from the source that node-llama-cpp carries and linked to the libraries it ships prebuilt.
# Run `npm install` first. Takes a minute.
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
for name in llama-bench llama-quantize llama-bench-mapped; do
    program=bin/$name
    dir=${name%-mapped}
    [ "$dir" = llama-quantize ] && dir=quantize
    more=
    [ "$dir" = "$name" ] || more='-include mapped.h'
    [ -x "$program" ] && continue
    # shellcheck disable=SC2086
    ${CXX:-g++} -std=c++17 -O2 -DNDEBUG $more -Illama.cpp/include -Illama.cpp/ggml/include -Illama.cpp/common \
        -Illama.cpp/vendor llama.cpp/tools/$dir/*.cpp -o "$program" bin/libllama-common.so bin/libllama.v*.so \
        bin/libggml.v*.so bin/libggml-base.so -Wl,-rpath,"\$ORIGIN" -lpthread
    echo "$program"
done
