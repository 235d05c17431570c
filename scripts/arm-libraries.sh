#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches Debian's packages of the libraries that Hearth and its tests need on 64-bit ARM, and unpacks them into a
# folder, for `make test-arm`. Changes nothing outside of the folder and needs no root: apt runs with a configuration of
# its own. Does nothing when they are there.
#
#   scripts/arm-libraries.sh FOLDER
set -eu

folder=${1:?usage: arm-libraries.sh FOLDER}
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/scripts/apt-folder.sh"
packages=(libpcre2-dev libpcre2-8-0 libjansson-dev libjansson4 libcmocka-dev libcmocka0 liburing-dev liburing2)
[ -e "$folder/complete" ] && exit 0

for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null 2>&1 || {
        echo "arm-libraries: $tool is not installed; unpack the arm64 packages of ${packages[*]} into $folder yourself" \
            "and create $folder/complete" >&2
        exit 1
    }
done
mkdir -p "$folder/apt/debs"
folder=$(cd "$folder" && pwd)
# The release that this system has; other systems take Debian's stable one.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
grep -q '^ID=debian$' /etc/os-release || release=
apt_folder "$folder/apt" "${release:-stable}" deb arm64
(cd "$folder/apt/debs" && apt-get -q download "${packages[@]}")
for package in "$folder"/apt/debs/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
rm -rf "$folder/apt"
# pkg-config files name the folders of an installed system; links of libraries may be absolute.
find "$folder" -type l | while IFS= read -r link; do
    target=$(readlink "$link")
    case $target in
    /*) [ -e "$folder$target" ] && ln -sf "$folder$target" "$link" ;;
    esac
done
: >"$folder/complete"
