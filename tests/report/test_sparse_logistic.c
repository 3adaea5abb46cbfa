/* Logistic regression on counts: the minimum that scikit-learn finds, and what it does at the edges. */
#include "report/sparse_logistic.h"
#include "tests/test.h"

enum { ROWS = 8, FEATURES = 4 };
static int64_t first[] = {0, 2, 5, 6, 8, 11, 12, 14, 15};
static int32_t columns[] = {0, 1, 0, 2, 2, 1, 3, 0, 3, 1, 2, 2, 3, 3, 0};
static const SparseRows rows = {ROWS, first, columns};

static SparseLogistic fit(const SparseRows *of, const int32_t *labels, int classes, int64_t features, double c) {
    SparseLogistic model;
    Error error;
    if (!sparse_logistic_fit(of, labels, classes, features, c, &model, &error)) fail_msg("%s", error.text);
    return model;
}

/* LogisticRegression(C=0.5) and (C=2.0) of scikit-learn 1.9, tol=1e-12: coef_ and intercept_. The Hessian of the mean
 * over rows is at least 1 / (C rows), so that a gradient of 1e-6 is within 2e-5 of the minimum. */
TEST(the_minimum_is_that_of_scikit_learn) {
    static const int32_t two[ROWS] = {0, 0, 0, 1, 1, 0, 1, 1}, three[ROWS] = {0, 1, 2, 0, 1, 2, 0, 2};
    static const double of_two[] = {0.0501243, -0.18613879, -0.29520847, 0.65589201, -0.12237382},
                        of_three[] = {0.67538727,  0.10726746,  -0.86580767, 0.80504519,  -0.21899113,
                                      0.00323991,  0.42104377,  1.34669117,  0.30348002,  -1.36339456,
                                      -0.67862717, -0.52831124, -0.4808835,  -1.10852521, 1.58238569};
    SparseLogistic model = fit(&rows, two, 2, FEATURES, 0.5);
    for (int k = 0; k < 5; k++) assert_near(model.weights[k], of_two[k], 2e-5);
    double logits[3 * ROWS];
    sparse_logistic_logits(&model, &rows, logits);
    assert_near(logits[0], 0, 0);
    assert_near(logits[3], model.weights[0] + 2 * model.weights[2] + model.weights[4], 1e-15);
    sparse_logistic_free(&model);
    model = fit(&rows, three, 3, FEATURES, 2);
    for (int k = 0; k < 15; k++) assert_near(model.weights[k], of_three[k], 2e-5);
    sparse_logistic_logits(&model, &rows, logits);
    assert_near(logits[3 * 2 + 1], model.weights[5 + 1] + model.weights[5 + 4], 1e-15);
    sparse_logistic_free(&model);
}

/* Rows without a column have the odds of their labels, which no penalty changes. */
TEST(the_bias_alone_has_the_odds_of_the_labels) {
    static const int32_t labels[] = {1, 0, 1, 1, 1};
    int64_t none[6] = {0};
    SparseLogistic model = fit(&(SparseRows){5, none, NULL}, labels, 2, 0, 0.01);
    assert_near(model.weights[0], log(4), 1e-5);
    sparse_logistic_free(&model);
}

/* Separable rows have a minimum only because of the penalty; a weak one takes many steps. */
TEST(a_weak_penalty_converges) {
    static const int32_t labels[] = {1, 0};
    int64_t of_one[] = {0, 1, 2};
    int32_t column[] = {0, 1};
    SparseLogistic model = fit(&(SparseRows){2, of_one, column}, labels, 2, 2, 1000);
    /* w = C / (1 + exp(w)) at the minimum, where both weights are w and -w */
    double w = model.weights[0];
    assert_true(w > 4 && model.steps > 1);
    assert_near(w, 1000 / (1 + exp(w)), 2 * 1000 * 1e-6);
    assert_near(model.weights[1], -w, 1e-9);
    sparse_logistic_free(&model);
}
