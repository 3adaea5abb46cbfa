#!/usr/bin/env bash
# Tests the tests of the kernels: plants one bug after another in a copy of the sources and runs the test that must fail.
#   tests/cuda/mutations.sh             all of the list below
#   tests/cuda/mutations.sh attention   those whose line matches (grep -E)
# A line is: build | test | file | what is planted, as an expression for sed -E. Builds: plain, race (the checker). A line
# that no longer changes its file, or does not compile, is a mistake of the list and fails.
set -u
list() {
    grep -v '^#' <<'LIST'
# What gpu.h offers to kernels.
plain | test_wrappers | kernels/cuda/gpu.h | /float warp_sum/,/^}/ s/lanes = 16/lanes = 8/
plain | test_wrappers | kernels/cuda/gpu.h | /float warp_max/,/^}/ s/fmaxf\(x, /fmaxf(0, /
plain | test_wrappers | kernels/cuda/gpu.h | /float block_sum/,/^}/ {/scratch\[warp\] = x/ {n; d}}
plain | test_wrappers | kernels/cuda/gpu.h | /float block_sum/,/^}/ {/lane < warps/ {n; d}}
race  | test_wrappers | kernels/cuda/gpu.h | /float block_max/,/^}/ s/lane < warps \? lane : 0/lane/
plain | test_wrappers | kernels/cuda/gpu.h | s/__floats2bfloat162_rn\(x, y\)/__floats2bfloat162_rn(y, x)/
plain | test_wrappers | kernels/cuda/gpu.h | s/__float2half_rn\(x\)/__float2half_rz(x)/
plain | test_wrappers | kernels/cuda/gpu.h | /mma_16x8x16_slowly/,/^}/ s/4 \* \(column \+ 1\) \+ at/4 * column + at/
plain | test_wrappers | kernels/cuda/gpu.h | /load_matrix_x4_slowly/,/^}/ s/first \+ 1\)/first)/
# The emulator: each would let bugs of kernels pass.
plain | test_wrappers | kernels/cuda/emulate/warps.cpp | s/k < 16; k\+\+/k < 15; k++/
plain | test_wrappers | kernels/cuda/emulate/warps.cpp | s/a\[2 \* \(k \/ 8\) \+ half\]/a[2 * half + k \/ 8]/
plain | test_wrappers | kernels/cuda/emulate/warps.cpp | s/matrix\[column \+ 1\]\[row\]/matrix[row][column + 1]/
plain | test_wrappers | kernels/cuda/emulate/warps.cpp | s/groups\.size\(\) - pending/groups.size() - pending - 1/
plain | test_wrappers | kernels/cuda/emulate/warps.cpp | s/^( *)memset\(copy.to \+ .*/\1;/
plain | test_emulator | kernels/cuda/emulate/warps.cpp | s/copies_land == Worker::AT_ISSUE \|\| /true || /
plain | test_wrappers | kernels/cuda/emulate/emulate.h | /T __shfl_down_sync/,/^}/ s/source >= .*\) source/false) source/
plain | test_wrappers | kernels/cuda/emulate/emulate_functions.h | /T atomicMax/,/^}/ s/old > x/old < x/
plain | test_wrappers | kernels/cuda/emulate/scheduler.cpp | s/vote == ALL \? w.votes == w.n_threads/vote == ALL ? w.votes > 0/
plain | test_emulator | kernels/cuda/emulate/scheduler.cpp | s/if \(w\.exited\)$/if (false)/
plain | test_emulator | kernels/cuda/emulate/launch.cpp | s/memset\(memory, 0xFF, bytes\)/memset(memory, 0, bytes)/
plain | test_emulator | kernels/cuda/emulate/launch.cpp | s/if \(seed == 1\) return count - 1 - i/if (seed >= 1) return i/
plain | test_emulator | kernels/cuda/emulate/streams.cpp | s/if \(emulate_seed\(\) == 0\) drain/if (true) drain/
plain | test_emulator | kernels/cuda/emulate/runtime.cpp | s/begin \+ bytes <= at->first/begin <= at->first/
race  | test_emulator | kernels/cuda/emulate/check.cpp | s/earlier\.epoch < epoch \|\|/earlier.epoch <= epoch ||/
race  | test_emulator | kernels/cuda/emulate/check.cpp | s/if \(state & PENDING\)/if (false)/
race  | test_emulator | kernels/cuda/emulate/check.cpp | s/if \(earlier\.block != block\) return !shared/if (earlier.block != block) return false/
race  | test_wrappers | kernels/cuda/emulate/check.cpp | s/^void barrier\(\) \{ epoch\+\+; \}/void barrier() {}/
# Matrix products and their epilogues.
plain | test_linear | kernels/cuda/gemm_kernel.h | /finish\.epilogue\) return/ {n; d}
plain | test_linear | kernels/cuda/gemm_kernel.h | s/if \(finish\.epilogue\) finish\.template/if (false) finish.template/
plain | test_linear | kernels/cuda/gelu.h | s/3 \* 0\.044715f/0.044715f/
plain | test_cublas | kernels/cuda/cublas.c | s/&g->n, sizeof g->n/\&g->m, sizeof g->m/
plain | test_cublas | kernels/cuda/cublas.c | s/\(uint32_t\)g->epilogue << 5/0/
plain | test_cublas | kernels/cuda/linear.cu | s/if \(is_gelu\) plain.c = gemm.hidden/;/
LIST
}

cd "$(dirname "$0")/../.." || exit 1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z -co --exclude-standard | tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C "$copy" || exit 1
lines=$(list | grep -E -- "${1:-.}")
[ -n "$lines" ] || { echo "$0: no line of the list matches '$1'" >&2; exit 2; }

build() { # plain|race test
    local options=(BUILD=build/plain OPTIMIZE="-O1 -g")
    [ "$1" = race ] && options=(BUILD=build/race OPTIMIZE="-O2 -g" KERNEL_EXTRA="-fsanitize=thread -Wno-tsan"
        EMULATOR_EXTRA=-DEMULATE_CHECK)
    make -C "$copy" -j"$(nproc)" --no-print-directory "build/$1/tests/cuda/$2" "${options[@]}" EXTRA=-w >"$copy/log" 2>&1
}
run() { (cd "$copy" && timeout 300 "build/$1/tests/cuda/$2" >log 2>&1); }

# Without a bug, all must pass.
while read -r kind test; do
    if ! { build "$kind" "$test" && run "$kind" "$test"; }; then
        tail -n 30 "$copy/log"
        echo "$test ($kind) fails without any bug" >&2
        exit 1
    fi
done < <(awk -F ' *[|] *' '{print $1, $2}' <<<"$lines" | sort -u)

caught=0 missed=0
while IFS='|' read -r kind test file change; do
    read -r kind <<<"$kind"
    read -r test <<<"$test"
    read -r file <<<"$file"
    cp "$copy/$file" "$copy/original"
    sed -E -e "$change" "$copy/original" >"$copy/$file"
    if cmp -s "$copy/original" "$copy/$file"; then
        verdict="MISTAKE: changes nothing"
    elif ! build "$kind" "$test"; then
        verdict="MISTAKE: does not compile: $(grep -m 1 error "$copy/log")"
    elif run "$kind" "$test"; then
        verdict=MISSED
    else
        verdict=caught
    fi
    if [ "$verdict" = caught ]; then caught=$((caught + 1)); else missed=$((missed + 1)); fi
    printf '%-8s %s: %s:%s\n' "$verdict" "$test ($kind)" "$file" "$change"
    cp "$copy/original" "$copy/$file"
done <<<"$lines"
echo "$caught bugs caught, $missed not"
[ "$missed" -eq 0 ]
