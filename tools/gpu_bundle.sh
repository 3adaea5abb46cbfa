#!/usr/bin/env bash
# Packs the tests and benchmarks of the cuda device, built here for one card, and all their libraries into one archive.
# The archive runs on a machine that has only a driver; the comparison also needs python3 with torch.
#   make gpu-bundle GPU=h200
#   tar xJf build/gpu_bundle.tar.xz -C /tmp && /tmp/gpu_bundle/run.sh test bench
# ON_GPU is the folder of the build, PROGRAMS the programs in it, TESTS the test programs.
set -eu
: "${PROGRAMS:?names no program}" "${TESTS:?names no test}"
cd "$(dirname "$0")/.."
out=build/gpu_bundle
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/reference"
# shellcheck disable=SC2086 # names without spaces
cp $TESTS "$out/bin/"
for program in tests/bench_step $PROGRAMS; do cp "$ON_GPU/$program" "$out/bin/"; done
cp tests/reference/*.py "$out/reference/" # bench_gpu.py and the modules that it imports
cp tools/gpu_sanitize.sh "$out/"
ldd "$out"/bin/* | awk '/=> \// {print $3} /^\t\/.*ld-linux/ {print $1}' | sort -u | xargs -I FILE cp -L FILE "$out/lib/"
strip --strip-debug "$out"/bin/* "$out"/lib/*.so* 2>/dev/null || true
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# run.sh [test] [sanitize] [bench]: runs the tests on the GPU of this machine, the same tests under compute-sanitizer, and
# the benchmark against PyTorch. OUT=FOLDER: where bench writes its results, by default beside this script. WORD=FLIM:
# runs only steps with this word in their names.
set -u
here=$(cd "$(dirname "$0")" && pwd)
libraries=$here/lib:$(python3 -c 'import os, site
for base in site.getsitepackages() + [site.getusersitepackages()]:
    for root in ("nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cudnn/lib"):
        path = os.path.join(base, root)
        if os.path.isdir(path): print(path, end=":")' 2>/dev/null):/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
start="$here/lib/ld-linux-x86-64.so.2 --library-path $libraries"
export GPU_PROGRAMS="$start $here/bin"
export GOMP_SPINCOUNT=1000 # if unset, a program sets it and starts itself again, which fails under an explicit loader
failed=0
for what in "${@:-test}"; do
    case $what in
    test)
        # The wrappers of inline PTX come first: if they fail, the other results mean nothing.
        for program in "$here/bin/test_wrappers" $(find "$here/bin" -name 'test_*' ! -name test_wrappers); do
            echo "== $(basename "$program")"
            $start "$program" 2>&1 | grep -v '  OK \]\|RUN  '
            [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
        done
        ;;
    sanitize)
        START=$start "$here/gpu_sanitize.sh" $(find "$here/bin" -name 'test_*' ! -name 'test_program*') || failed=1
        ;;
    bench)
        BENCH_START=$start python3 "$here/reference/bench_gpu.py" "$here/bin/bench_step" "${OUT:-$here}" "${WORD:-}" || failed=1
        ;;
    *)
        echo "run.sh: unknown '$what'; known: test, sanitize, bench" >&2
        exit 2
        ;;
    esac
done
exit $failed
RUN
chmod +x "$out/run.sh"
tar cJf build/gpu_bundle.tar.xz -C build gpu_bundle
du -h build/gpu_bundle.tar.xz
