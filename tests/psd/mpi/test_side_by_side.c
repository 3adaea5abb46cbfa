/* Trains classifiers of spectra for several sensors side by side, on several ranks. */
#include "tests/psd/train_rig.h"
#include "tests/side_by_side_rig.h"

static SideCase psd = {.program = "train_psd run"};

static int open_case(void **state) {
    int status = psd_make_toy(state);
    heed_signals();
    psd.options =
        kept_format("-m %s/toy.safetensors --size tiny -b 60 --pretrain-epochs 2 --finetune-epochs 3", fixture.data);
    return status;
}

TEST(sensors_side_by_side_have_the_bytes_of_sensors_in_a_row) {
    char *loso = kept_format("--threads 2 --protocol loso --split %s/loso.json", fixture.data);
    char *row = side_train(&psd, 1, loso), *side = side_train(&psd, 2, loso);
    assert_contains(fixture.output, "[Ranks] 3 trainings side by side");
    assert_contains(fixture.output, "\n[rank 1] [Run] train_psd pretrain ");
    assert_contains(fixture.output, " --threads=1 "); /* 2 are divided once */
    assert_contains(fixture.output, "\n[Device] cpu: 1 threads");
    assert_null(strstr(fixture.output, "[rank 1] [Run] train_psd evaluate "));
    side_check_same(row, side, "");
}

TEST(few_shots_side_by_side_have_the_bytes_of_those_in_a_row) {
    char *few = kept_format("--threads 1 --protocol fewshot_loso --loso-split %s/loso.json --split %s/few.json "
                            "--fewshot-seeds 2",
                            fixture.data, fixture.data);
    char *row = side_train(&psd, 1, few), *side = side_train(&psd, 3, few);
    side_check_same(row, side, "");
}

TEST(a_signal_to_one_rank_stops_the_run_and_other_ranks_go_on) {
    int statuses[SIDE_MOST_RANKS];
    SideCase loso = psd;
    char *folder = kept_folder(), *finetune = kept_path(fixture.data, "steps.yaml");
    write_text(finetune, "log_interval: 1\nearly_stopping_patience: 0\n");
    loso.options = kept_format("%s --threads 1 --protocol loso --split %s/loso.json --finetune-epochs 60 "
                               "--finetune-config %s",
                               psd.options, fixture.data, finetune);
    char *row = side_train(&loso, 1, "");
    side_signal(&loso, 2, folder, 1, "s01/finetune", 10, SIGTERM, statuses);
    for (int r = 0; r < 2; r++) assert_int_equal(statuses[r], 128 + SIGTERM);
    assert_contains(fixture.output, "\n[Run] stopped by signal 15; the same command continues");
    assert_int_equal(side_try(&loso, 3, folder, ""), 0);
    side_check_same(row, folder, "");
}

TEST(a_pooled_run_is_shared_only_if_g_says_so) {
    char *pooled = kept_format("--threads 2 --split %s/pooled.json", fixture.data), *folder = kept_folder();
    assert_int_not_equal(side_try(&psd, 2, folder, pooled), 0);
    assert_contains(fixture.output, "train_psd run: 2 ranks cannot share the steps of -g 1 (the contrast is between "
                                    "the spectra of a micro-batch): give -g 2 or another multiple of 2");
    folder = side_train(&psd, 2, kept_format("%s -g 2", pooled));
    assert_contains(fixture.output, "[Ranks] 2 ranks share each step of 2 micro-batches; the contrast is between the "
                                    "spectra of a micro-batch");
    must_run("test -s %s/per_class_finetuned.csv && test -s %s/calibration/calibration.json", folder, folder);
}

int main(void) { return tests_run(open_case, NULL); }
