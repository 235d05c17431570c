#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the program for all systems (scripts/cross.sh) and packs archives of it, with their sums.
#
#   scripts/dist.sh [FOLDER [TARGET...]]
#
# FOLDER: as for scripts/cross.sh. The archives come into FOLDER/dist, with SHA256SUMS. TARGET: some of the targets alone.
# The same sources give the same archives, whoever packs them when.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$here/build-cross}
[ $# = 0 ] || shift
targets=("$@")
[ $# != 0 ] || targets=(x86_64-linux-musl aarch64-linux-musl x86_64-windows aarch64-windows x86_64-macos aarch64-macos)
for tool in tar gzip python3 sha256sum; do
    command -v $tool >/dev/null 2>&1 || {
        echo "dist: $tool is not installed" >&2
        exit 1
    }
done
for target in "${targets[@]}"; do
    TESTS='' "$here/scripts/cross.sh" "$target" "$folder"
done
folder=$(cd "$folder" && pwd)
version=$(sed -n 's/^project(hearth VERSION \([0-9.]*\) .*/\1/p' "$here/CMakeLists.txt")
# The time of all files: that of the last commit.
date=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}
dist=$folder/dist
mkdir -p "$dist"
rm -f "$dist"/hearth-* "$dist/SHA256SUMS"

for target in "${targets[@]}"; do
    name=hearth-$version-$target
    suffix=
    case $target in
    *-windows) suffix=.exe ;;
    esac
    program=$folder/$target/hearth$suffix
    # Where it was built is nobody's business.
    for path in "$here" "$folder"; do
        if grep -qaF "$path" "$program"; then
            echo "dist: $program has the path $path in it" >&2
            exit 1
        fi
    done
    stage=$folder/$target/stage
    rm -rf "$stage"
    mkdir -p "$stage/$name/licences"
    install -m 755 "$program" "$stage/$name/hearth$suffix"
    install -m 644 "$folder/$target/licences"/*.txt "$stage/$name/licences/"
    install -m 644 "$here/README.md" "$here/LICENSE" "$here/CHANGELOG.md" "$stage/$name/"
    install -m 644 "$here/docs/ports.md" "$stage/$name/PORTS.md"
    chmod 755 "$stage/$name" "$stage/$name/licences"
    find "$stage" -exec touch -h -d "@$date" {} +
    case $target in
    *-windows)
        (cd "$stage" && python3 - "$dist/$name.zip" "$name" "$date" <<'PYTHON'
import os, sys, time, zipfile

out, name, date = sys.argv[1:]
when = time.gmtime(max(int(date), 315532800))[:6]  # zip files begin in 1980
files = sorted(os.path.join(at, f) for at, _, names in os.walk(name) for f in names)
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in files:
        entry = zipfile.ZipInfo(path, when)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (os.stat(path).st_mode & 0xFFFF) << 16
        with open(path, "rb") as f:
            archive.writestr(entry, f.read())
PYTHON
        )
        ;;
    *)
        tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" |
            gzip -9n >"$dist/$name.tar.gz"
        ;;
    esac
    rm -rf "$stage"
done
(cd "$dist" && sha256sum hearth-* >SHA256SUMS && sha256sum -c --quiet SHA256SUMS)
chmod 644 "$dist"/*
ls -l "$dist"
