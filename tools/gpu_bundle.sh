#!/usr/bin/env bash
# Packs the tests and benchmarks of the cuda device, built here for one card, with every library that they need, into one
# archive that runs on a machine that has nothing but a driver (and, for the comparison, python3 with torch).
#   make gpu-bundle GPU=h200
#   tar xJf build/gpu_bundle.tar.xz -C /tmp && /tmp/gpu_bundle/run.sh test bench
# ON_GPU names the folder of the build, TESTS the programs of the tests.
set -eu
cd "$(dirname "$0")/.."
out=build/gpu_bundle
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/reference"
# shellcheck disable=SC2086 # names without spaces
cp $TESTS "$out/bin/"
cp "$ON_GPU/tests/bench_step" "$ON_GPU/train_gpt" "$ON_GPU/train_psd" "$ON_GPU/train_cv" "$out/bin/"
cp tests/reference/*.py "$out/reference/" # bench_gpu.py, and those that it imports
cp tools/gpu_sanitize.sh "$out/"
ldd "$out"/bin/* | awk '/=> \// {print $3} /^\t\/.*ld-linux/ {print $1}' | sort -u | xargs -I FILE cp -L FILE "$out/lib/"
strip --strip-debug "$out"/bin/* "$out"/lib/*.so* 2>/dev/null || true
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# run.sh [test] [sanitize] [bench]: the tests on this machine's GPU; the same under compute-sanitizer; against PyTorch.
# OUT=FOLDER: where the results of bench go, if not beside this; WORD=FLIM: only steps with this in their name.
set -u
here=$(cd "$(dirname "$0")" && pwd)
libraries=$here/lib:$(python3 -c 'import os, site
for base in site.getsitepackages() + [site.getusersitepackages()]:
    for root in ("nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cudnn/lib"):
        path = os.path.join(base, root)
        if os.path.isdir(path): print(path, end=":")' 2>/dev/null):/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
start="$here/lib/ld-linux-x86-64.so.2 --library-path $libraries"
export TRAIN_PROGRAM="$start $here/bin/train_gpt" TRAIN_PSD_PROGRAM="$start $here/bin/train_psd" \
    TRAIN_CV_PROGRAM="$start $here/bin/train_cv"
export GOMP_SPINCOUNT=1000 # or programs would set it and start anew, which the loader before them does not survive
failed=0
for what in "${@:-test}"; do
    case $what in
    test)
        # The wrappers of inline PTX first: what fails there makes the rest meaningless.
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
