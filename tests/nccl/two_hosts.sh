#!/usr/bin/env bash
# Trains on two hosts: two network namespaces, each with an emulated card and a name of its own, and a cable of 1 Gbit/s between them.
# The job must compute what two cards of one host compute, and name the host whose cable is pulled. For root.
#   PROGRAM=.../emulated/train_slm TRAINC_NCCL=.../libnccl.so.2 tests/nccl/two_hosts.sh
set -u
: "${PROGRAM:?names no train_slm of the emulated card}" "${TRAINC_NCCL:?names no stand-in for NCCL}"
PROGRAM=$(realpath "$PROGRAM") TRAINC_NCCL=$(realpath "$TRAINC_NCCL")
root=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "SKIPPED: two hosts: $*"; exit 0; }
command -v ip >/dev/null || skip "ip is not installed (tools/install_packages.sh network)"
unshare --net --uts true 2>/dev/null || skip "this user may not make network namespaces"

work=$(mktemp -d)
processes=()
close_all() {
    [ ${#processes[@]} -eq 0 ] || kill -9 "${processes[@]}" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$work"
}
trap close_all EXIT
trap 'exit 1' INT TERM
fail() {
    echo "two hosts: $*" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}
must() { "$@" || fail "$* has failed"; }

# ---- the hosts ----

# A process keeps each namespace.
hosts=()
for i in 0 1; do
    unshare --net --uts sleep 1000 &
    processes+=($!)
    hosts+=($!)
done
on() { # on HOST COMMAND...: does not fork, so that $! is the command
    local host=${hosts[$1]}
    shift
    exec nsenter --target "$host" --net --uts "$@"
}
for i in 0 1; do
    until [ "$(readlink "/proc/${hosts[i]}/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
done
(on 0 ip link add cable netns "${hosts[0]}" type veth peer name cable netns "${hosts[1]}") || skip "there is no veth"
limited=", 1 Gbit/s"
for i in 0 1; do
    (on $i sh -c "echo host-$i >/proc/sys/kernel/hostname && ip address add 192.0.2.$((i + 1))/24 dev cable && ip link set lo up && ip link set cable up") ||
        fail "the cable cannot be connected"
    (on $i tc qdisc add dev cable root tbf rate 1gbit burst 128kb latency 50ms) 2>/dev/null || limited=", of no limited rate: tc is missing"
done

# ---- the job ----

mkdir "$work/text"
for file in "$root"/docs/*.md; do cp "$file" "$work/text/$(basename "$file" .md).txt"; done
"$PROGRAM" prepare --input "$work/text" --output "$work/data" --vocabulary 512 >"$work/prepare.log" 2>&1 || fail "nothing is prepared"
train=(--data "$work/data" --device cuda --size tiny --context 32 --vocabulary 0 -b 2 --dropout 0.1 --amp --max-steps 16 --warmup-steps 4
    --val-interval 0 --max-val-batches 2 --log-interval 1 --sample-tokens 0 --threads 1 --num-workers 0)
export TRAINC_NCCL EMULATE_DEVICES=2
secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
# The cards of the emulator have fixed UUIDs, so the second host's is the second one.
rank() { # rank NUMBER FOLDER
    on "$1" env RANK="$1" WORLD_SIZE=2 LOCAL_RANK="$1" MASTER_ADDR=192.0.2.1 MASTER_PORT=29500 TRAINC_JOB_SECRET="$secret" \
        STAND_IN_NCCL_ADDRESS="192.0.2.$(($1 + 1))" NCCL_HOSTID="host-$1" "$PROGRAM" "${train[@]}" -o "$2"
}
start() { # start FOLDER: both ranks
    for i in 0 1; do
        rank $i "$1" >"$1.$i.log" 2>&1 &
        ranks[i]=$!
        processes+=($!)
    done
}
ends() { # ends RANK STATUS
    wait "${ranks[$1]}"
    local status=$?
    [ $status -eq "$2" ] || fail "rank $1 ends with status $status, expected $2"
}
losses() { grep -o '"step": [0-9]*\|"train/loss": [^,]*' "$1/log.jsonl"; }

"$PROGRAM" "${train[@]}" --gpus 2 -o "$work/one" >"$work/one.log" 2>&1 || fail "two cards of one host do not train"
ranks=()
start "$work/two"
ends 0 0
ends 1 0
must grep -q '^\[Ranks\] 2, started by torchrun, over NCCL' "$work/two.0.log"
[ "$(losses "$work/one")" = "$(losses "$work/two")" ] || fail "the losses are not those of one host"
must cmp "$work"/{one,two}/last/model.safetensors

# ---- the cable is pulled ----

start "$work/pulled"
until grep -qs '"step": 3,' "$work/pulled/log.jsonl"; do
    kill -0 "${ranks[0]}" 2>/dev/null || fail "the job ends before the cable is pulled"
    sleep 0.1
done
(on 1 ip link set cable down)
ends 0 75
ends 1 75
must grep -q 'rank 1 (host host-1, .*has not answered for 20 s; the job ends' "$work/pulled.0.log"
must grep -q 'rank 0 (host host-0' "$work/pulled.1.log"
step=$(sed -n 's/^ *"step": \([0-9]*\),/\1/p' "$work/pulled/last/state.json")
[ "${step:-0}" -ge 3 ] || fail "the last whole step is not kept"
"$PROGRAM" "${train[@]}" --gpus 2 -o "$work/pulled" --resume auto >"$work/resumed.log" 2>&1 || fail "the job does not go on"
must cmp "$work"/{one,pulled}/last/model.safetensors
echo "two hosts$limited: the bits of one; a pulled cable is named, and the job goes on from step $step"
