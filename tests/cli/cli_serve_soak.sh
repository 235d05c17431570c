#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Some seconds of check_serve_soak.mjs: clients that do what they like, and what is left of that. make check-serve-soak does it for
# longer, with the address sanitizer.
# shellcheck source=tests/cli/cli.sh
. "$(dirname "$0")/cli.sh"
node -e 'process.exit(Number.parseInt(process.versions.node) < 16 ? 1 : 0)' 2>/dev/null || skip "Node 16 is not there"
need_server
node "$(dirname "$0")/check_serve_soak.mjs" "$hearth" "$source_dir/models/hearth-novels-drelu-Q8_0.gguf" 0.15 1
