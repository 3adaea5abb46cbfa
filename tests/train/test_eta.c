/* The time that is left of a run, on recorded times: no test here waits. */
#include "tests/test.h"

#include "train/meter.h"
#include "train/run/eta.h"

/* A run by a made-up clock. */
typedef struct {
    EtaPlan plan;
    Eta eta;
    double clock, step, validation, checkpoint; /* seconds */
    double compile;                             /* of the first step */
    double settle;                              /* that each of the next steps takes longer, until METER_LEFT_OUT */
    int64_t first;                              /* step of this part's start */
    double predicted, at;                       /* the time left, said after the latest step; the clock then */
} Made;

static double remaining(const Made *m) {
    EtaLeft left = eta_left(&m->plan);
    return eta_seconds(&m->eta, &left);
}

static void pause_of(Made *m, Pause pause, double seconds) {
    m->clock += seconds;
    eta_pause(&m->eta, pause, seconds);
}

/* Does a step as the loop does, with the pauses that follow it. */
static void step(Made *m) {
    EtaPlan *p = &m->plan;
    int64_t done = ++p->step - m->first;
    bool last = p->step == p->last, ends_epoch = false;
    m->clock += m->step + (done == 1 ? m->compile : done <= METER_LEFT_OUT ? m->settle : 0);
    for (int64_t i = 0; i < p->batches_per_step; i++) {
        p->batch_index = p->batch_index == p->epoch_batches ? 1 : p->batch_index + 1;
        ends_epoch |= p->batch_index == p->epoch_batches;
    }
    eta_step(&m->eta, done, m->clock);
    m->predicted = remaining(m);
    m->at = m->clock;
    if (p->validates && (last || (p->val_interval ? p->step % p->val_interval == 0 : ends_epoch)))
        pause_of(m, PAUSE_VALIDATION, m->validation);
    if (last || (p->save_interval && p->step % p->save_interval == 0)) pause_of(m, PAUSE_CHECKPOINT, m->checkpoint);
}

/* Does all steps, and compares what was predicted after each with what then came, from the step `from` of this part on.
 * Returns how many predictions were compared. */
static int follow(Made made, int64_t from, double tolerance) {
    enum { MOST = 4096 };
    static double predicted[MOST], at[MOST];
    int n = 0;
    while (made.plan.step < made.plan.last) {
        step(&made);
        predicted[n] = made.predicted;
        at[n++] = made.at;
    }
    for (int64_t i = 0; i < from - 1; i++) assert_true(i == 0 ? isnan(predicted[i]) : predicted[i] > 0);
    for (int i = (int)from - 1; i < n; i++) assert_near(predicted[i], made.clock - at[i], tolerance);
    return n;
}

static const Made usual = {
    .plan = {.last = 1000,
             .save_interval = 300,
             .validates = true,
             .val_interval = 100,
             .batches_per_step = 1,
             .epoch_batches = 77},
    .clock = 1e6,
    .step = 0.25,
    .validation = 5,
    .checkpoint = 7,
    .compile = 40,
    .settle = 3,
};

/* A prediction is exact once a step, a validation and a checkpoint have been measured. */
TEST(the_time_left_includes_pauses_as_long_as_those_before) { assert_int_equal(follow(usual, 301, 1e-6), 1000); }

TEST(before_the_second_step_nothing_is_said) {
    Made m = usual;
    step(&m);
    assert_true(isnan(m.predicted));
    step(&m);
    assert_near(m.predicted, 998 * 3.25, 1e-6); /* not with the compilation */
    step(&m);
    step(&m);
    assert_near(m.predicted, 996 * 3.25, 1e-6);
    step(&m);
    assert_near(m.predicted, 995 * 0.25, 1e-6);
}

TEST(each_kind_of_pause_counts_from_its_first_on) {
    Made m = usual;
    while (m.plan.step < 100) step(&m);
    assert_near(m.predicted, 900 * 0.25, 1e-6); /* the first validation is about to begin */
    step(&m);
    assert_near(m.predicted, 899 * 0.25 + 9 * 5, 1e-6);
    while (m.plan.step < 301) step(&m);
    assert_near(m.predicted, 699 * 0.25 + 7 * 5 + 3 * 7, 1e-6);
}

/* The epochs of 7 micro-batches end within steps of 3; the last ends nowhere near the last step. */
TEST(epochs_end_in_the_middle_of_steps) {
    Made m = usual;
    m.plan = (EtaPlan){.last = 400, .validates = true, .batches_per_step = 3, .epoch_batches = 7};
    m.checkpoint = 0; /* the only one is at the end */
    follow(m, METER_LEFT_OUT + 1, 1e-6);
    m.plan = (EtaPlan){
        .step = 1, .batch_index = 1, .last = 40, .validates = true, .batches_per_step = 7, .epoch_batches = 3};
    EtaLeft left = eta_left(&m.plan);
    assert_int_equal(left.count[PAUSE_VALIDATION], 40); /* every step ends an epoch, most of them two */
}

/* A resumed part measures anew, also where the machine is another one, and counts what is left of the whole run. */
TEST(a_resumed_part_has_its_own_measurements) {
    Made m = usual;
    m.plan.step = m.first = 650;
    m.plan.batch_index = 650 % 77;
    m.step = 1.5;
    assert_int_equal(follow(m, 251, 1e-6), 350); /* the first checkpoint of this part is that of step 900 */
}

/* A pause that was waited for within a later step is the pause's time, not the step's. */
TEST(a_late_wait_belongs_to_the_pause_before) {
    Made m = usual;
    while (m.plan.step < 300) step(&m);
    m.clock += 11;
    eta_wait(&m.eta, 11);
    step(&m);
    assert_near(m.predicted, 699 * 0.25 + 7 * 5 + 3 * 18, 1e-6);
}

TEST(the_last_validation_is_left_at_the_end) {
    Made m = usual;
    while (m.plan.step < m.plan.last) step(&m);
    assert_near(m.predicted, 5 + 7, 1e-9);
}
