/* The order of the random draws is the contract here: every draw of NumPy is made at its place, also where its result
 * changes nothing. */
#include "data/psd/splits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/text_file.h"

const char *const PSD_SPLIT_NAMES[2][PSD_SPLITS] = {{"train", "val", "test"}, {"finetune", NULL, "test"}};
const int PSD_SHOT_COUNTS[PSD_SHOTS] = {5, 10, 50, 100};
static const double SHARES[PSD_SPLITS] = {0.70, 0.15, 0.15};

/* ---- the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) ---- */

enum { WORDS = 624, MIDDLE = 397 };

typedef struct {
    uint32_t words[WORDS];
    int at;
} Twister;

static Twister twister(uint32_t seed) {
    Twister t = {{seed}, WORDS};
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t before = t.words[i - 1];
        t.words[i] = 1812433253U * (before ^ before >> 30) + i;
    }
    return t;
}

static void twist(Twister *t) {
    for (int i = 0; i < WORDS; i++) {
        uint32_t both = (t->words[i] & 0x80000000U) | (t->words[(i + 1) % WORDS] & 0x7fffffffU);
        t->words[i] = t->words[(i + MIDDLE) % WORDS] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfU : 0);
    }
    t->at = 0;
}

static uint32_t draw(Twister *t) {
    if (t->at == WORDS) twist(t);
    uint32_t x = t->words[t->at++];
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680U;
    x ^= x << 15 & 0xefc60000U;
    return x ^ x >> 18;
}

/* Draws uniformly from 0 .. most: takes as many bits as `most` has, until the number is not larger. */
static uint32_t draw_to(Twister *t, uint32_t most) {
    uint32_t mask = most, x;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    while ((x = draw(t) & mask) > most) {
    }
    return x;
}

/* Does what RandomState.shuffle does, and so permutation; the first k are then choice(n, k, replace=False). */
static void shuffle(Twister *t, int64_t *ids, int64_t n) {
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = draw_to(t, (uint32_t)i), swap = ids[i];
        ids[i] = ids[j];
        ids[j] = swap;
    }
}

/* ---- lists of ids ---- */

static void ids_free(PsdIds *ids) { free(ids->at); }

static PsdIds ids_new(int64_t capacity) { return (PsdIds){xmalloc((size_t)capacity * sizeof(int64_t)), 0}; }

static void add(PsdIds *to, const int64_t *ids, int64_t n) {
    if (n) memcpy(to->at + to->n, ids, (size_t)n * sizeof *ids);
    to->n += n;
}

static bool has_class(const PsdRows *rows, int64_t id) {
    return rows->labels[id] >= 0 && rows->labels[id] < rows->classes;
}

static PsdIds classified_ids(const PsdRows *rows) {
    PsdIds ids = ids_new(rows->n);
    for (int64_t i = 0; i < rows->n; i++)
        if (has_class(rows, i)) ids.at[ids.n++] = i;
    return ids;
}

/* Keeps a random fraction of the ids, at least one, in random order. A fraction of 1 draws nothing. */
static void keep_fraction(Twister *t, PsdIds *ids, double fraction) {
    if (!(fraction < 1) || !ids->n) return;
    shuffle(t, ids->at, ids->n);
    int64_t kept = (int64_t)((double)ids->n * fraction);
    ids->n = kept ? kept : 1;
}

/* ---- the stratified split of scikit-learn ---- */

/* Divides n draws among classes of these sizes: drawn[] in proportion, rounded down; the missing ones go one by one to
 * the largest remainders, equal remainders in random order. */
static void apportion(Twister *t, const int64_t *sizes, int classes, int64_t n, int64_t *drawn) {
    OWNED double *remainders = xmalloc((size_t)classes * sizeof *remainders);
    double total = 0, least = INFINITY;
    OWNED int64_t *equal = xmalloc((size_t)classes * sizeof *equal);
    int64_t missing = n;
    for (int c = 0; c < classes; c++) total += (double)sizes[c];
    for (int c = 0; c < classes; c++) {
        double share = (double)sizes[c] / total * (double)n;
        drawn[c] = (int64_t)share;
        remainders[c] = share - floor(share);
        missing -= drawn[c];
    }
    while (missing > 0) {
        double next = -1;
        int64_t count = 0;
        for (int c = 0; c < classes; c++)
            if (remainders[c] < least && remainders[c] > next) next = remainders[c];
        if (next < 0) break;
        for (int c = 0; c < classes; c++)
            if (remainders[c] == next) equal[count++] = c;
        shuffle(t, equal, count);
        for (int64_t i = 0; i < count && missing > 0; i++, missing--) drawn[equal[i]]++;
        least = next;
    }
}

/* The classes in a list, ascending, and their members in the list's order. */
typedef struct {
    int count;
    int32_t *labels;  /* [count] */
    int64_t *sizes;   /* [count] */
    int64_t *members; /* class by class */
} Strata;

static Strata strata_of(const PsdRows *rows, const PsdIds *ids) {
    OWNED int64_t *starts = xcalloc((size_t)rows->classes + 1, sizeof *starts);
    Strata s = {0, xmalloc((size_t)rows->classes * sizeof *s.labels), xmalloc((size_t)rows->classes * sizeof *s.sizes),
                xmalloc((size_t)ids->n * sizeof *s.members)};
    for (int64_t i = 0; i < ids->n; i++) starts[rows->labels[ids->at[i]] + 1]++;
    for (int32_t c = 0; c < rows->classes; c++) {
        if (starts[c + 1]) {
            s.labels[s.count] = c;
            s.sizes[s.count++] = starts[c + 1];
        }
        starts[c + 1] += starts[c];
    }
    for (int64_t i = 0; i < ids->n; i++) s.members[starts[rows->labels[ids->at[i]]]++] = ids->at[i];
    return s;
}

static void strata_free(Strata *s) { FREE(s->labels, s->sizes, s->members); }

/* Checks that n ids can be divided so that n_second of them, the smaller part, have every class. */
static bool can_be_stratified(const Strata *s, int64_t n, int64_t n_second, Error *error) {
    for (int i = 0; i < s->count; i++)
        if (s->sizes[i] < 2)
            return error_set(error, "class %d has only one row; every class needs one in each of two splits",
                             (int)s->labels[i]);
    if (n_second < s->count || !s->count)
        return error_set(error, "%lld rows of %d classes are too few: one of the splits would have %lld rows",
                         (long long)n, s->count, (long long)n_second);
    return true;
}

/* Divides the ids: a share of them, rounded up, goes to `second`, the others to `first`; every class in proportion. */
static bool stratify(const PsdRows *rows, const PsdIds *ids, double share, uint32_t seed, PsdIds *first, PsdIds *second,
                     Error *error) {
    Twister t = twister(seed);
    OWNED_BY(strata_free) Strata s = strata_of(rows, ids);
    int64_t n_second = (int64_t)ceil(share * (double)ids->n), n_first = ids->n - n_second, *at = s.members;
    if (!can_be_stratified(&s, ids->n, n_second, error)) return false;
    OWNED int64_t *to_first = xmalloc((size_t)s.count * sizeof *to_first);
    OWNED int64_t *left = xmalloc((size_t)s.count * sizeof *left);
    OWNED int64_t *to_second = xmalloc((size_t)s.count * sizeof *to_second);
    apportion(&t, s.sizes, s.count, n_first, to_first);
    for (int i = 0; i < s.count; i++) left[i] = s.sizes[i] - to_first[i];
    apportion(&t, left, s.count, n_second, to_second);
    *first = ids_new(n_first);
    *second = ids_new(n_second);
    for (int i = 0; i < s.count; at += s.sizes[i++]) {
        shuffle(&t, at, s.sizes[i]);
        add(first, at, to_first[i]);
        add(second, at + to_first[i], to_second[i]);
    }
    shuffle(&t, first->at, first->n);
    shuffle(&t, second->at, second->n);
    return true;
}

/* ---- pooled ---- */

static bool check_fraction(double fraction, Error *error) {
    if (fraction > 0 && fraction <= 1) return true;
    return error_set(error, "the fraction is %g; expected more than 0, at most 1", fraction);
}

/* Returns a fraction of the rows with a class, in the manifest's order. */
static PsdIds kept_ids(const PsdRows *rows, Twister *t, double fraction) {
    PsdIds ids = classified_ids(rows);
    keep_fraction(t, &ids, fraction);
    qsort(ids.at, (size_t)ids.n, sizeof *ids.at, compare_integers);
    return ids;
}

bool psd_partition_pooled(const PsdRows *rows, uint32_t seed, double fraction, PsdPartition *partition, Error *error) {
    /* In floating point 1 - 0.7 - 0.15 is a little more than 0.15, which may round up to one more row. */
    double test = 1 - SHARES[PSD_TRAIN] - SHARES[PSD_VAL];
    double val = SHARES[PSD_VAL] / (SHARES[PSD_TRAIN] + SHARES[PSD_VAL]);
    *partition = (PsdPartition){0};
    if (!check_fraction(fraction, error)) return false;
    Twister t = twister(seed);
    OWNED_BY(ids_free) PsdIds ids = kept_ids(rows, &t, fraction);
    OWNED_BY(ids_free) PsdIds rest = {0};
    PsdIds *splits = partition->splits;
    bool ok = stratify(rows, &ids, test, seed, &rest, &splits[PSD_TEST], error) &&
              stratify(rows, &rest, val, seed, &splits[PSD_TRAIN], &splits[PSD_VAL], error);
    if (!ok) psd_partition_free(partition);
    return ok;
}

/* ---- grouped ---- */

typedef struct {
    int64_t count, *order;           /* the groups, in random order */
    int64_t *rows;                   /* [groups, classes] */
    double *have[PSD_SPLITS], *want; /* [classes] each; the target of a split is its share of `want` */
    int *split;                      /* [groups] */
    int classes;
} Grouping;

/* Returns by how much the distance of a split to its target grows if it takes a group. The distance is chi-squared: the
 * sum over classes of (have - want)^2 / want. */
static double cost(const Grouping *g, int split, int64_t group) {
    double sum = 0;
    for (int c = 0; c < g->classes; c++) {
        double more = (double)g->rows[group * g->classes + c], want = SHARES[split] * g->want[c];
        if (more > 0) sum += more * (2 * (g->have[split][c] - want) + more) / want;
    }
    return sum;
}

/* Puts each group in turn where it costs least; for groups of one size this is Webster's apportionment. The last groups
 * go to splits that are still empty. */
static void place_groups(Grouping *g) {
    int64_t taken[PSD_SPLITS] = {0};
    int empty = PSD_SPLITS;
    for (int64_t i = 0; i < g->count; i++) {
        double least = INFINITY;
        int best = 0;
        for (int split = 0; split < PSD_SPLITS; split++) {
            double here = cost(g, split, g->order[i]);
            if ((g->count - i <= empty && taken[split]) || here >= least) continue;
            least = here;
            best = split;
        }
        if (!taken[best]++) empty--;
        g->split[g->order[i]] = best;
        for (int c = 0; c < g->classes; c++) g->have[best][c] += (double)g->rows[g->order[i] * g->classes + c];
    }
}

static int64_t group_count(const int32_t *groups, int64_t n) {
    int64_t most = -1;
    for (int64_t i = 0; i < n; i++)
        if (groups[i] > most) most = groups[i];
    return most + 1;
}

bool psd_partition_grouped(const PsdRows *rows, const int32_t *groups, uint32_t seed, double fraction,
                           PsdPartition *partition, Error *error) {
    *partition = (PsdPartition){0};
    if (!check_fraction(fraction, error)) return false;
    Twister t = twister(seed);
    OWNED_BY(ids_free) PsdIds ids = kept_ids(rows, &t, fraction);
    size_t most = (size_t)group_count(groups, rows->n), classes = (size_t)rows->classes;
    OWNED int64_t *order = xmalloc(most * sizeof *order);
    OWNED int64_t *counts = xcalloc(most * classes, sizeof *counts);
    OWNED double *sums = xcalloc(classes * (PSD_SPLITS + 1), sizeof *sums);
    OWNED int *placed = xcalloc(most, sizeof *placed);
    Grouping g = {.order = order, .rows = counts, .want = sums, .split = placed, .classes = rows->classes};
    for (int split = 0; split < PSD_SPLITS; split++) g.have[split] = sums + classes * (size_t)(split + 1);
    for (int64_t i = 0; i < ids.n; i++) {
        int64_t id = ids.at[i], group = groups[id];
        g.rows[group * rows->classes + rows->labels[id]]++;
        g.want[rows->labels[id]]++;
        if (!g.split[group]++) /* counts its rows, until it is placed */
            g.order[g.count++] = group;
    }
    if (g.count < PSD_SPLITS)
        return error_set(error, "%lld groups cannot be divided into %d splits", (long long)g.count, (int)PSD_SPLITS);
    shuffle(&t, g.order, g.count);
    place_groups(&g);
    for (int split = 0; split < PSD_SPLITS; split++) partition->splits[split] = ids_new(ids.n);
    for (int64_t i = 0; i < ids.n; i++) add(&partition->splits[g.split[groups[ids.at[i]]]], &ids.at[i], 1);
    return true;
}

/* ---- by sensor ---- */

static int compare_sensors(const void *a, const void *b, void *names) {
    const char *const *all = names;
    return strcmp(all[*(const int64_t *)a], all[*(const int64_t *)b]);
}

/* Returns empty partitions for the sensors that have rows with a class, sorted by name; for `sensors` of them, drawn,
 * or for all (0). */
static PsdPartitions partitions_of_sensors(const PsdRows *rows, Twister *t, int64_t sensors, int64_t shots) {
    int64_t most = group_count(rows->sensors, rows->n);
    OWNED bool *seen = xcalloc((size_t)most, sizeof *seen);
    OWNED_BY(ids_free) PsdIds list = ids_new(most);
    for (int64_t i = 0; i < rows->n; i++) {
        if (!has_class(rows, i) || seen[rows->sensors[i]]) continue;
        seen[rows->sensors[i]] = true;
        list.at[list.n++] = rows->sensors[i];
    }
    void *names = (void *)(uintptr_t)rows->sensor_names;
    qsort_r(list.at, (size_t)list.n, sizeof *list.at, compare_sensors, names);
    if (sensors > 0 && sensors < list.n) {
        shuffle(t, list.at, list.n);
        list.n = sensors;
        qsort_r(list.at, (size_t)list.n, sizeof *list.at, compare_sensors, names);
    }
    PsdPartitions s = {list.n, shots, xmalloc((size_t)list.n * sizeof *s.sensor),
                       xcalloc((size_t)(list.n * shots), sizeof *s.partitions)};
    for (int64_t i = 0; i < list.n; i++) s.sensor[i] = (int32_t)list.at[i];
    return s;
}

/* Divides the rows of the other sensors: stratified if possible, otherwise at random; fewer than ten all go to train.
 */
static void split_others(const PsdRows *rows, Twister *t, uint32_t seed, PsdIds *others, PsdIds *train, PsdIds *val) {
    if (others->n >= 10 && stratify(rows, others, SHARES[PSD_VAL], seed, train, val, NULL)) return;
    int64_t n_val = 0;
    if (others->n >= 10) {
        shuffle(t, others->at, others->n);
        n_val = (int64_t)((double)others->n * SHARES[PSD_VAL]);
    }
    *train = ids_new(others->n);
    *val = ids_new(n_val);
    add(val, others->at, n_val);
    add(train, others->at + n_val, others->n - n_val);
}

bool psd_partition_sensors(const PsdRows *rows, uint32_t seed, double fraction, int64_t sensors,
                           PsdPartitions *partitions, Error *error) {
    *partitions = (PsdPartitions){0};
    if (!check_fraction(fraction, error)) return false;
    Twister t = twister(seed);
    OWNED_BY(ids_free) PsdIds ids = classified_ids(rows);
    OWNED_BY(ids_free) PsdIds others = ids_new(ids.n);
    *partitions = partitions_of_sensors(rows, &t, sensors, 1);
    int64_t all = 0;
    for (int64_t i = 0; i < partitions->sensors; i++) {
        PsdIds *splits = partitions->partitions[i].splits;
        splits[PSD_TEST] = ids_new(ids.n);
        others.n = 0;
        for (int64_t j = 0; j < ids.n; j++)
            add(rows->sensors[ids.at[j]] == partitions->sensor[i] ? &splits[PSD_TEST] : &others, &ids.at[j], 1);
        all = others.n;
        if (!all) break;
        keep_fraction(&t, &others, fraction);
        split_others(rows, &t, seed, &others, &splits[PSD_TRAIN], &splits[PSD_VAL]);
    }
    if (all) return true;
    psd_partitions_free(partitions);
    return error_set(error, "leaving a sensor out needs at least two sensors");
}

bool psd_partition_few_shot(const PsdRows *rows, uint32_t seed, const int *shots, int64_t n_shots, int64_t sensors,
                            PsdPartitions *partitions, Error *error) {
    Twister t = twister(seed);
    OWNED_BY(ids_free) PsdIds ids = classified_ids(rows);
    OWNED_BY(ids_free) PsdIds own = ids_new(ids.n);
    *partitions = partitions_of_sensors(rows, &t, sensors, n_shots);
    for (int64_t i = 0; i < partitions->sensors; i++) {
        own.n = 0;
        for (int64_t j = 0; j < ids.n; j++)
            if (rows->sensors[ids.at[j]] == partitions->sensor[i]) add(&own, &ids.at[j], 1);
        for (int64_t k = 0; k < n_shots; k++) { /* each starts from the manifest's order */
            PsdIds *splits = partitions->partitions[i * n_shots + k].splits;
            OWNED_BY(strata_free) Strata s = strata_of(rows, &own);
            int64_t *at = s.members;
            splits[PSD_TRAIN] = ids_new(own.n);
            splits[PSD_TEST] = ids_new(own.n);
            for (int c = 0; c < s.count; at += s.sizes[c++]) {
                int64_t taken = s.sizes[c] <= shots[k] ? s.sizes[c] : shots[k];
                if (taken < s.sizes[c]) shuffle(&t, at, s.sizes[c]);
                add(&splits[PSD_TRAIN], at, taken);
                add(&splits[PSD_TEST], at + taken, s.sizes[c] - taken);
            }
        }
    }
    if (partitions->sensors) return true;
    psd_partitions_free(partitions);
    return error_set(error, "no row has a class");
}

void psd_partition_free(PsdPartition *partition) {
    for (int split = 0; split < PSD_SPLITS; split++) free(partition->splits[split].at);
    *partition = (PsdPartition){0};
}

void psd_partitions_free(PsdPartitions *partitions) {
    for (int64_t i = 0; i < partitions->sensors * partitions->shots; i++)
        psd_partition_free(&partitions->partitions[i]);
    FREE(partitions->sensor, partitions->partitions);
    *partitions = (PsdPartitions){0};
}

/* ---- checks ---- */

bool psd_partition_check(const PsdPartition *partition, int64_t n, Error *error) {
    OWNED char *owner = xcalloc((size_t)n, 1); /* 1 + split */
    for (int split = 0; split < PSD_SPLITS; split++)
        for (int64_t i = 0; i < partition->splits[split].n; i++) {
            int64_t id = partition->splits[split].at[i];
            if (id < 0 || id >= n)
                return error_set(error, "row %lld of split '%s' is none of the %lld there are", (long long)id,
                                 PSD_SPLIT_NAMES[false][split], (long long)n);
            if (owner[id])
                return error_set(error, "row %lld is in split '%s' and again in '%s'", (long long)id,
                                 PSD_SPLIT_NAMES[false][owner[id] - 1], PSD_SPLIT_NAMES[false][split]);
            owner[id] = (char)(1 + split);
        }
    return true;
}

int64_t psd_partition_shared_groups(const PsdPartition *partition, const int32_t *groups, int64_t n) {
    int64_t count = group_count(groups, n), shared = 0;
    OWNED unsigned char *parts = xcalloc((size_t)count, 1); /* a bit each */
    for (int split = 0; split < PSD_SPLITS; split++)
        for (int64_t i = 0; i < partition->splits[split].n; i++)
            parts[groups[partition->splits[split].at[i]]] |= (unsigned char)(1 << split);
    for (int64_t i = 0; i < count; i++) shared += (parts[i] & (parts[i] - 1)) != 0;
    return shared;
}

int64_t psd_partition_drop_shared(PsdPartition *partition, const int32_t *groups, int64_t n) {
    OWNED bool *tested = xcalloc((size_t)group_count(groups, n), sizeof *tested);
    int64_t dropped = 0;
    for (int64_t i = 0; i < partition->splits[PSD_TEST].n; i++)
        tested[groups[partition->splits[PSD_TEST].at[i]]] = true;
    for (int split = PSD_TRAIN; split <= PSD_VAL; split++) {
        PsdIds *ids = &partition->splits[split];
        int64_t kept = 0;
        for (int64_t i = 0; i < ids->n; i++)
            if (!tested[groups[ids->at[i]]]) ids->at[kept++] = ids->at[i];
        dropped += ids->n - kept;
        ids->n = kept;
    }
    return dropped;
}

/* ---- JSON ---- */

static void write_partition(FILE *file, const PsdPartition *partition, bool shots) {
    for (int split = 0; split < PSD_SPLITS; split++) {
        const PsdIds *ids = &partition->splits[split];
        if (!PSD_SPLIT_NAMES[shots][split]) continue;
        fprintf(file, "%s\"%s\": [", split ? ", " : "{", PSD_SPLIT_NAMES[shots][split]);
        for (int64_t i = 0; i < ids->n; i++) fprintf(file, "%s%lld", i ? ", " : "", (long long)ids->at[i]);
        fputc(']', file);
    }
    fputc('}', file);
}

/* Writes a text in quotes and in ASCII. Other characters become \uXXXX, as a surrogate pair if necessary; a byte that
 * is not UTF-8 becomes a lone surrogate, as in Python. */
static void write_quoted(FILE *file, const char *text) {
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const uint8_t *at = (const uint8_t *)text, *end = at + strlen(text);
    fputc('"', file);
    while (at < end) {
        ucs4_t c;
        int size = u8_mbtoucr(&c, at, (size_t)(end - at));
        if (size < 1) c = 0xdc00 + *at;
        at += size < 1 ? 1 : size;
        const char *escaped = c < 128 ? strchr(plain, (int)c) : NULL;
        if (escaped)
            fprintf(file, "\\%c", letters[escaped - plain]);
        else if (c >= ' ' && c <= '~')
            fputc((int)c, file);
        else if (c > 0xffff)
            fprintf(file, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 1023));
        else
            fprintf(file, "\\u%04x", c);
    }
    fputc('"', file);
}

bool psd_partition_write(const char *path, const PsdPartition *partition, Error *error) {
    TextFile file;
    text_file_begin(&file);
    write_partition(file.out, partition, false);
    return text_file_end(&file, path, error);
}

bool psd_partitions_write(const char *path, const PsdRows *rows, const PsdPartitions *partitions, const int *shots,
                          Error *error) {
    TextFile file;
    text_file_begin(&file);
    fputc('{', file.out);
    for (int64_t i = 0; i < partitions->sensors; i++) {
        fputs(i ? ", " : "", file.out);
        write_quoted(file.out, rows->sensor_names[partitions->sensor[i]]);
        fputs(shots ? ": {" : ": ", file.out);
        for (int64_t k = 0; k < partitions->shots; k++) {
            if (shots) fprintf(file.out, "%s\"%d\": ", k ? ", " : "", shots[k]);
            write_partition(file.out, &partitions->partitions[i * partitions->shots + k], shots);
        }
        fputs(shots ? "}" : "", file.out);
    }
    fputc('}', file.out);
    return text_file_end(&file, path, error);
}

char *psd_split_file_name(const char *kind, uint32_t seed, double fraction) {
    char number[32];
    for (int digits = 1; digits <= 17; digits++) { /* the fewest digits that give the same number */
        snprintf(number, sizeof number, "%.*g", digits, fraction);
        if (strtod(number, NULL) == fraction) break;
    }
    return xformat("%s_seed%u_frac%s%s.json", kind, seed, number, strpbrk(number, ".e") ? "" : ".0");
}
