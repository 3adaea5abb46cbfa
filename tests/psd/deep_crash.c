/* Trainings and preparations of train_psd that are killed, or whose file operations fail. */
#include "tests/crash/crash.h"

/* Spectra, the manifest and splits of them. */
static char *open_spectra(void) {
    char *root = crash_root();
    crash_make(root, "$PROGRAMS/train_psd synthesize -o raw --sensors 2 --rows 6 --num-workers 1");
    crash_make(root, "$PROGRAMS/train_psd prepare --input raw --output data --num-workers 1");
    return root;
}

#define PSD_OPTIONS                                                                                                    \
    "-m ../data/manifest.csv --split ../data/splits/pooled_seed42_frac1.0.json --threads 1 --num-workers 1 "           \
    "--size tiny --d-model 16 --n-layers 1 --n-heads 2 --ffn-dim 16 -b 16 --log-interval 1 --save-interval 3 "         \
    "--keep-checkpoints 1 -o run --resume auto "

TEST(train_psd_pretrain) {
    char *root = open_spectra();
    crash_at_every(
        root,
        &(CrashRun){.command = "exec $PROGRAMS/train_psd pretrain " PSD_OPTIONS
                               "--decoder-dim 16 --decoder-layers 1 --projection-dim 16 --epochs 4 --warmup-epochs 3 "
                               "--max-steps 8 --val-interval 1 --learning-rate 0.5",
                    .log = "run/log.jsonl",
                    .lowest = "val/mae_loss"});
}

TEST(train_psd_finetune) {
    char *root = open_spectra();
    crash_at_every(root, &(CrashRun){.command = "exec $PROGRAMS/train_psd finetune " PSD_OPTIONS
                                                "--epochs 4 --learning-rate 5e-2 --seed 4",
                                     .log = "run/log.jsonl",
                                     .lowest = "-val/macro_f1",
                                     .alike = "@(run|*.@(csv|svg|md).*)"});
}

/* All stages, each of which takes up what the one before has left. */
TEST(train_psd_run) {
    char *root = open_spectra(), *pretrain = kept_path(root, "pretrain.yaml"), *tune = kept_path(root, "tune.yaml");
    static const char *const both = "batch_size: 16\nlog_interval: 2\nsave_interval: 2\nkeep_checkpoints: 1\nsize: "
                                    "tiny\nnum_workers: 1\n"
                                    "encoder: {d_model: 16, n_layers: 1, n_heads: 2, ffn_dim: 16}\n";
    write_text(pretrain,
               "%sepochs: 2\nmax_steps: 4\nval_interval: 1\nwarmup_epochs: 1\nlearning_rate: 0.5\n"
               "mpae: {decoder_dim: 16, decoder_layers: 1}\nsicr: {projection_dim: 16}\n",
               both);
    write_text(tune, "%sepochs: 3\nlearning_rate: 5.0e-2\n", both);
    crash_at_every(root,
                   &(CrashRun){.command = "exec $PROGRAMS/train_psd run -m ../data/manifest.csv --split "
                                          "../data/splits/pooled_seed42_frac1.0.json --threads 1 --seed 3 "
                                          "--pretrain-config ../pretrain.yaml --finetune-config ../tune.yaml -o run",
                               .log = "run/pretrain/log.jsonl",
                               .lowest = "val/mae_loss",
                               .alike = "@(run|run/calibration|*.@(csv|svg|md).*)"});
}

TEST(train_psd_prepare) {
    char *root = crash_root();
    crash_make(root, "$PROGRAMS/train_psd synthesize -o raw --sensors 2 --rows 6 --num-workers 1");
    crash_at_every(
        root, &(CrashRun){.command = "exec $PROGRAMS/train_psd prepare --input ../raw --output data --num-workers 1"});
}

TEST(train_psd_synthesize) {
    char *root = crash_root();
    crash_at_every(
        root, &(CrashRun){.command = "exec $PROGRAMS/train_psd synthesize -o raw --sensors 1 --rows 3 --num-workers 1",
                          .done = "is there already"});
}

int main(void) { return crash_tests(); }
