#!/usr/bin/env bash
# Checks the walls between the rooms (docs/ARCHITECTURE.md) and names every arrow that breaks one:
#   BUILD=build/release tools/check_walls.sh
# An arrow is an include, or a symbol that an object of the build takes from another. The rules:
# 1. A file uses its own room and lower ones. 2. Only the program and the tests of a model use the rooms of that model.
# 3. There is no circle of files; a .c file and its header count as one.
set -eu
cd "$(dirname "$0")/.."
[ -f "$BUILD/libtrain.a" ] || { echo "check_walls: $BUILD/libtrain.a was not found: run make first" >&2; exit 2; }

# Prints rank and name of every room, lowest first. The room of a file is the longest name that its path begins with.
# Rooms of equal rank must not use each other.
rooms() {
    cat <<'ROOMS'
1 base
2 kernels
2 kernels/cpu
2 kernels/cuda
3 data
3 model
4 checkpoint
4 report
5 cost
5 page
6 train
7 estimate
8 commands
9 train_
9 tools
10 tests
ROOMS
}

# Prints the shared folders in the rooms where models have folders of their own. Every other folder there belongs to one
# program, as train_X.c and commands/X do.
shared() {
    cat <<'SHARED'
data data/formats data/audio data/segment data/text
model/block model/context model/generate model/model model/params model/param_updates model/sampling model/token_head
commands
tests tests/page tests/base tests/bench tests/checkpoint tests/commands tests/contracts tests/crash tests/cuda tests/data tests/estimate tests/fuzz
tests/kernels tests/model tests/mpi tests/nccl tests/report tests/train tests/tools
SHARED
}

# Prints a program and the folders of data and model that are its own under another name.
owned() { sed -n 's/^ROOMS_OF_\([a-z0-9]*\) = /train_\1 /p' mk/build.mk; }

# Prints "FROM TO" for every include.
includes() {
    find . -path ./build -prune -o -name '*.[ch]' -print -o -name '*.cc' -print -o -name '*.cu' -print -o -name '*.cpp' -print |
        sed 's|^\./||' | xargs grep -H '^#include "' | sed -n 's/^\([^:]*\):#include "\([^"]*\)".*/\1 \2/p'
}

# Prints the objects whose sources still exist.
objects() {
    find "$BUILD" -path "$BUILD/tests" -prune -o -path "$BUILD/gpu_*" -prune -o -name '*.o' -print | sort |
        while read -r object; do
            source=${object#"$BUILD/"}
            source=${source#emulated/}
            case $source in kernels/cpu/operations_*) source=kernels/cpu/operations.o ;; esac
            compgen -G "${source%.o}.c*" >/dev/null && echo "$object"
        done
}

# Prints "FROM TO SYMBOL" for every symbol that one object takes from another.
symbols() {
    objects | xargs nm -A -P |
        awk -v build="$BUILD/" '
            { file = substr($1, length(build) + 1); sub(/\.o:$/, "", file); sub(/^emulated\//, "", file) 
              sub(/cpu\/operations_[a-z0-9]+$/, "cpu/operations", file) }
            $3 == "U" { used[file, $2] = 1; next }
            $3 ~ /[TDBRVW]/ && !($2 in home) { home[$2] = file }
            END { for (use in used) { split(use, part, SUBSEP)
                    if (part[2] in home && home[part[2]] != part[1]) print part[1], home[part[2]], part[2] } }'
}

{
    rooms | sed 's/^/room /'
    shared | sed 's/^/shared /'
    owned | sed 's/^/owned /'
    includes | sed 's/^/include /'
    symbols | sed 's/^/symbol /'
} | awk '
    function stem(file) { sub(/\.(c|h|cc|cu|cpp)$/, "", file); return file }
    function room_of(file,   r, best) {
        best = ""
        for (r in rank) if (index(file, r) == 1 && length(r) > length(best)) best = r
        return best
    }
    # Returns the folder or program that belongs to a model ("data/psd", "model/gpt", "train_cv"), or "" for a shared file.
    function place_of(file,   part, n, place) {
        if (file ~ /^train_/) return file
        if (file !~ /^(data|model|commands|tests)\//) return ""
        n = split(file, part, "/")
        place = n > 2 || part[1] == "model" ? part[1] "/" part[2] : part[1]
        return place in is_shared ? "" : place
    }
    function complain(text) { print "check_walls: " text; bad++ }
    $1 == "room" { rank[$3] = $2; next }
    $1 == "shared" { for (i = 2; i <= NF; i++) is_shared[$i]; next }
    $1 == "owned" { for (i = 3; i <= NF; i++) owner[$i] = $2; next }
    {
        from = stem($2); to = stem($3); how = $1 == "include" ? "includes" : "calls " $4 " of"
        if (from == to || (from, to) in seen) next
        seen[from, to] = how
        a = room_of(from); b = room_of(to)
        if (b == "") next
        arrows++
        if (rank[a] < rank[b] || (rank[a] == rank[b] && a != b && !(a ~ /^kernels/ && b ~ /^kernels/) && b != "data"))
            complain(from " " how " " to ": " a " is not above " b)
        if (a != "tools") arrow[++n_arrows] = from " " to
        if (a != "tests" && b != "tests") { next_of[from] = next_of[from] " " to }
    }
    # Searches depth first. A file that is met again while it is on the path closes a circle.
    function visit(file, path,   n, i, list) {
        state[file] = 1
        n = split(next_of[file], list, " ")
        for (i = 1; i <= n; i++) {
            if (state[list[i]] == 1) complain("a circle: " substr(path, index(path " ", " " list[i] " ") + 1) " " list[i])
            else if (!state[list[i]]) visit(list[i], path " " list[i])
        }
        state[file] = 2
    }
    # A place belongs to the first program that uses it, unless ROOMS_OF_x names its owner. The first pass finds the owners
    # of what programs use, the second those of the tests; the third complains.
    function check_owners(   i, pair, x, y, program, again) {
        for (again = 1; again <= 3; again++)
            for (i = 1; i <= n_arrows; i++) {
                split(arrow[i], pair, " "); x = place_of(pair[1]); y = place_of(pair[2])
                if (x ~ /^train_/ || x ~ /^commands\//) { program = x; sub(/^commands\//, "train_", program); owner[x] = program }
                if (y == "" || y == x) continue
                if (again == 1 && x in owner && y !~ /^tests/ && !(y in owner)) owner[y] = owner[x]
                if (again == 2 && x ~ /^tests\// && y in owner && !(x in owner)) owner[x] = owner[y]
                if (again == 3 && x == "") complain(pair[1] ", which is shared, uses " pair[2] ", which belongs to a model")
                if (again == 3 && x in owner && y in owner && owner[x] != owner[y])
                    complain(pair[1] " uses " pair[2] ", which belongs to " owner[y] ", not to " owner[x])
            }
    }
    END {
        for (file in next_of) if (!state[file]) visit(file, " " file)
        check_owners()
        if (arrows < 500) complain("only " arrows + 0 " arrows were found")
        printf "walls: %d arrows between files, %d break a wall\n", arrows, bad
        exit bad > 0
    }' | sort
