#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What ctest does before the tests that need a machine that was measured (know_machine in cli.sh): measures this one, once, and
# keeps it in a folder, as if nobody had been at work meanwhile. machine.sh HEARTH SOURCE_DIR FOLDER
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
export XDG_CACHE_HOME=$3
mkdir -p "$3"
# Of the storages that models of tests lie on, which are one, mostly.
model=$tmp/model.gguf
cp "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" "$model"
for file in "$model" "$source_dir/models/hearth-novels-drelu-Q8_0.gguf"; do
    run 0 plan "$file" -c 64
    settle
done
