#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the layering: a room of src/ includes itself and lower rooms only, and the operating system's headers stay in
# the files that are there for them.
set -eu
cd "$(dirname "$0")/.."

rooms=(base quant gguf kernels text grammar sample model accel store sparse plan weights engine draft convert synth schema calls serve cli)
declare -A rank
for i in "${!rooms[@]}"; do
    rank[${rooms[i]}]=$i
done

os_headers='<(unistd|pthread|dirent|mach/[a-z_]+|windows|winsock2|ws2tcpip|winioctl|psapi|io|fcntl|sched|signal|dlfcn|poll|termios|netdb|liburing|hwloc|sys/[a-z_]+|netinet/[a-z_]+|arpa/[a-z_]+|linux/[a-z_]+)\.h>'

may_use_os() {
    case $1 in
    # cpu.c: detection happens once, whichever thread asks first (pthread_once).
    src/base/os_*.[ch] | src/base/*/os_*.c | src/base/threads.c | src/base/cpu.c | src/store/io_*.c) return 0 ;;
    # serve, cli: the program, not the library. It has threads.
    src/serve/*_posix.c | src/serve/*_linux.c | src/serve/*_macos.c | src/serve/*_windows.c) return 0 ;;
    src/cli/*_posix.c | src/cli/*_windows.c) return 0 ;;
    src/serve/* | src/cli/terminal.c) ! grep -hE "^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*$os_headers" "$1" | grep -v '<pthread' ;;
    *) return 1 ;;
    esac
}

# Which system it is, only files that are named by systems ask.
may_ask_which() {
    case $1 in
    src/base/os_* | src/base/*/os_* | src/store/io_*) return 0 ;;
    esac
    return 1
}

failed=0
complain() {
    echo "$1" >&2
    failed=1
}

while IFS= read -r file; do
    room=${file#src/}
    room=${room%%/*}
    if [ -z "${rank[$room]:-}" ]; then
        complain "$file: src/$room is not a room; the rooms are: ${rooms[*]}"
        continue
    fi
    while IFS= read -r include; do
        case $include in
        hearth.h) continue ;;
        */*) target=${include%%/*} ;;
        *)
            complain "$file: include \"$include\" should name its room (\"$room/$include\")"
            continue
            ;;
        esac
        if [ -z "${rank[$target]:-}" ]; then
            complain "$file: include \"$include\" is not in a room"
        elif [ "${rank[$target]}" -gt "${rank[$room]}" ]; then
            complain "$file: $room may not include \"$include\": $target is the higher room"
        fi
    done < <(sed -nE 's/^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*"([^"]+)".*/\1/p' "$file")
    if ! may_use_os "$file" && grep -nHE "^[[:blank:]]*#[[:blank:]]*include[[:blank:]]*$os_headers" "$file" >&2; then
        complain "$file: operating-system headers belong in src/base/os_*.c, src/base/threads.c or src/store/io_*.c"
    fi
    if ! may_ask_which "$file" && grep -nHE '\b(__linux__|__APPLE__|__ANDROID__|_WIN32|_WIN64|__GLIBC__)\b' "$file" >&2; then
        complain "$file: what differs between systems belongs in files that are named by them, such as src/base/os_linux.c"
    fi
done < <(git ls-files --cached --others --exclude-standard -- 'src/*.c' 'src/*.h')
exit $failed
