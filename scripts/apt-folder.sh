# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# For other scripts: apt in a folder of its own, beside whatever the system has. It needs no root.

# apt_folder FOLDER RELEASE KIND [ARCHITECTURE]: from here on apt-get knows this release of Debian alone, and writes into
# the folder alone. KIND: deb, for packages of that architecture, or deb-src. Fetches the list of packages where it is
# not there. False, having said why: it cannot.
apt_folder() {
    local folder=$1 release=$2 kind=$3 architecture=${4:-} keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e $keys ] || {
        echo "$keys is missing: install debian-archive-keyring" >&2
        return 1
    }
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    echo "$kind [${architecture:+arch=$architecture }signed-by=$keys] http://deb.debian.org/debian $release main" \
        >"$folder/sources.list"
    : >"$folder/status"
    cat >"$folder/apt.conf" <<TEXT
APT::Sandbox::User "";
Dir::State "$folder/state";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
TEXT
    [ -z "$architecture" ] || cat >>"$folder/apt.conf" <<TEXT
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
TEXT
    export APT_CONFIG=$folder/apt.conf
    [ -e "$folder/updated" ] || apt-get -q update >&2 || return 1
    : >"$folder/updated"
}
