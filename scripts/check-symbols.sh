#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks that every external symbol of the library starts with hearth_.
set -eu
library=${1:-$(dirname "$0")/../build/libhearth.a}
[ -f "$library" ] || {
    echo "check-symbols: $library is not there: build first" >&2
    exit 1
}

# A library that shows no symbols at all would pass by accident.
symbols=$(nm --defined-only --extern-only --portability "$library" | awk 'NF >= 2 { print $1 }')
grep -q '^hearth_model_open$' <<<"$symbols" || {
    echo "check-symbols: $library does not define hearth_model_open" >&2
    exit 1
}
if strays=$(grep -v '^hearth_' <<<"$symbols"); then
    echo "check-symbols: external symbols of $library without the prefix hearth_:" >&2
    echo "$strays" >&2
    exit 1
fi
