#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# uninstall.sh MANIFEST DESTDIR PREFIX: removes the files that MANIFEST lists, a path a line, below DESTDIR, and the
# folders that are empty then, but for PREFIX and those right in it (bin, lib, share).
set -eu
manifest=$1 dest=$2 prefix=${3%/}

[ -f "$manifest" ] || {
    echo "uninstall: $manifest is not there: run this where make install was run, or run make install once more" >&2
    exit 1
}
while IFS= read -r file || [ -n "$file" ]; do
    echo "removing $dest$file"
    rm -f -- "$dest$file"
done <"$manifest"
while IFS= read -r file || [ -n "$file" ]; do
    folder=$(dirname "$file")
    case $folder in "$prefix"/*) ;; *) continue ;; esac
    while [ "$(dirname "$folder")" != "$prefix" ] && rmdir -- "$dest$folder" 2>/dev/null; do
        folder=$(dirname "$folder")
    done
done <"$manifest"
