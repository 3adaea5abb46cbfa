#!/usr/bin/env bash
# Copies the sources to build/without_MODEL, removes one model there (program, commands, data, network and tests), builds
# the remaining programs and CPU tests, and runs the tests:
#   tools/take_away.sh [--shared] [MODEL]
# --shared: runs only those of what all models share. The hash of the commit chooses the model if none is named. The rooms
# of a model are commands/MODEL, the folders of every NAME that its program or commands include as data/NAME and that
# tests/ has too, and those that mk/build.mk names as ROOMS_OF_MODEL.
set -eu
cd "$(dirname "$0")/.."
shared=
if [ "${1-}" = --shared ]; then
    shared=1
    shift
fi
models=(train_*.c)
models=("${models[@]#train_}")
models=("${models[@]%.c}")
revision=$(tools/revision.sh | sed s/unknown/0/)
model=${1:-${models[$((16#${revision:0:6} % ${#models[@]}))]}}
[ -f "train_$model.c" ] || { echo "take_away: there is no train_$model.c; expected one of ${models[*]}" >&2; exit 2; }

sources=("train_$model.c")
rooms=("train_$model.c" "commands/$model")
[ ! -d "commands/$model" ] || sources+=("commands/$model")
mapfile -t included < <(grep -rhoE '"data/[a-z_]+/' "${sources[@]}" | cut -d / -f 2 | sort -u)
for name in "${included[@]}"; do
    [ ! -d "tests/$name" ] || rooms+=("data/$name" "tests/$name" "model/$name" "model/$name.c" "model/$name.h")
done

read -ra named < <(sed -n "s/^ROOMS_OF_$model = //p" mk/build.mk) || true
rooms+=("${named[@]}")

rest=build/without_$model
mkdir -p "$rest"
find "$rest" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tools/list_files.sh | xargs -d '\n' cp --parents --preserve=timestamps -t "$rest"
(cd "$rest" && rm -rf "${rooms[@]}")
# Objects of the whole serve the rest, too, with the times of their sources.
objects=$rest/build/release
if [ -d build/release ] && [ ! -d "$objects" ]; then
    mkdir -p "$objects"
    (cd build/release && find . \( -name 'gpu_*' -o -name emulated \) -prune -o \( -name '*.[od]' -o -name sources \) -print0 |
        xargs -0 cp --parents --preserve=timestamps -t "$OLDPWD/$objects")
fi
echo "without ${rooms[*]}:"
cd "$rest"
[ "$shared" ] || exec make --no-print-directory BUILD=build/release check-programs
make --no-print-directory -j"$(nproc)" GPU=none BUILD=build/release tests-of-cpu
tests=()
read -ra folders < <(sed -n 's/^ROOMS = //p' mk/build.mk)
for room in "${folders[@]}"; do
    for test in "tests/$room"/test_*.c; do [ ! -f "$test" ] || tests+=("build/release/${test%.c}"); done
done
JOBS=2 BUILD=build/release tools/run_tests.sh "${tests[@]}"
