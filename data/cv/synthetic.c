/* A voxel's count is a Poisson number with the mean (the pixel's brightness) x (the bin's share of the photons). The
 * shares are a decay of two exponentials, blurred by the instrument, with a weak second pulse and a constant
 * background, between two gates. Active cells have less of the fast component. A pixel is bright where a cell body is.
 */
#include "data/cv/synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/threads.h"
#include "data/formats/npy.h"
#include "data/unfinished.h"
#include "kernels/poisson.h"

static const double PI = 3.14159265358979323846, PERIOD = 12.5; /* ns */
static const double FREE = 0.4, BOUND = 2.6;                    /* ns: lifetimes of NAD(P)H */
enum { FIELDS = 6, CLASSES = 2 };                               /* fields of view of a donor */

/* ---- donors ---- */

/* Real donors' numbers of cells, photons and sizes; bins out of 256. */
typedef struct {
    int quiescent, active;
    double photons; /* per pixel */
    double size;    /* out of 441 pixels */
    int peak, first, last;
} Donor;

static const Donor donors[] = {{2110, 789, 259, 216, 63, 10, 242}, {2184, 582, 300, 199, 61, 10, 241},
                               {2351, 604, 323, 202, 60, 10, 243}, {399, 1139, 485, 166, 51, 12, 241},
                               {625, 1291, 443, 254, 53, 12, 242}, {3210, 957, 527, 213, 43, 12, 243}};
enum { KINDS = sizeof donors / sizeof *donors };

/* ---- what is drawn ---- */

enum { OF_CELL, OF_FIELD, OF_PIXEL, OF_PHOTONS, OF_BODY, OF_NEIGHBOUR };

static double uniform(uint64_t seed, uint32_t what, uint32_t where, uint64_t which) {
    return (double)philox_uniform(seed, PURPOSE_SYNTHETIC_COUNTS | what << 8, where, which);
}

/* Elements from 2^40 on, so that these numbers are independent of the uniform ones of the same `what`. */
static double normal(uint64_t seed, uint32_t what, uint32_t where, uint64_t which) {
    return (double)philox_normal(seed, PURPOSE_SYNTHETIC_COUNTS | what << 8, where, ((uint64_t)1 << 40) + which);
}

/* The cell of one file. */
typedef struct {
    const char *directory;
    const CvSynthetic *o;
    const Donor *donor;
    int donor_number, label, field;
    int64_t place;   /* among the cells of its donor and class */
    uint32_t number; /* among all cells */
    double *share;   /* [T] of the pixel's photons */
    double *bright;  /* [H, W] photons */
} Cell;

/* ---- the decay ---- */

/* Returns exp(-t / lifetime), from t = 0 on, blurred by a Gaussian; up to a factor. */
static double decay(double t, double lifetime, double sigma) {
    double at = (sigma / lifetime - t / sigma) / sqrt(2.0);
    /* long before the pulse erfc is 0 and the exponential overflows */
    return at > 20 ? 0 : exp(sigma * sigma / (2 * lifetime * lifetime) - t / lifetime) * erfc(at) / lifetime;
}

static double pulse(double t, double free, double sigma) {
    return free * decay(t, FREE, sigma) + (1 - free) * decay(t, BOUND, sigma);
}

/* The share of free NAD(P)H is 0.90 in quiescent and 0.66 in active cells at a separation of 1, with a standard
 * deviation of 0.04. */
static void draw_decay(Cell *cell) {
    const CvSynthetic *o = cell->o;
    const Donor *d = cell->donor;
    int T = o->shape.T, first = (int)ceil(d->first * T / 256.0), last = (int)floor(d->last * T / 256.0);
    double width = PERIOD / T, sigma = 0.12, sum = 0;
    double free =
        0.78 + o->separation * (cell->label ? -0.12 : 0.12) + 0.04 * normal(o->seed, OF_CELL, cell->number, 0);
    double start = (d->peak - 2 + normal(o->seed, OF_CELL, cell->number, 1)) * PERIOD / 256;
    free = fmin(fmax(free, 0), 1);
    for (int t = 0; t < T; t++) {
        double time = (t + 0.5) * width - start;
        cell->share[t] =
            t < first || t >= last ? 0 : pulse(time, free, sigma) + 0.02 * pulse(time - 2.7, free, sigma) + 0.004;
        sum += cell->share[t];
    }
    for (int t = 0; t < T; t++) cell->share[t] /= sum;
}

/* ---- the image ---- */

/* Adds a cell body around (y, x), with two and three lobes, and a bite taken out of some: 1 in the middle, down to 0.5
 * at the edge. */
static void add_body(Cell *cell, uint32_t what, double y, double x, double pixels) {
    const CvSynthetic *o = cell->o;
    double u[8], radius = sqrt(pixels / PI);
    for (uint64_t i = 0; i < 8; i++) u[i] = uniform(o->seed, what, cell->number, i);
    double bite = u[4] < 0.25 ? radius * (0.5 + 0.4 * u[5]) : 0, bite_at = 2 * PI * u[6];
    for (int i = 0; i < o->shape.H; i++)
        for (int j = 0; j < o->shape.W; j++) {
            double down = i - y, right = j - x, angle = atan2(down, right), from = hypot(down, right);
            double edge = radius * (1 + 0.35 * u[0] * cos(2 * (angle + 2 * PI * u[1])) +
                                    0.2 * u[2] * cos(3 * (angle + 2 * PI * u[3])));
            bool bitten = hypot(down - radius * sin(bite_at), right - radius * cos(bite_at)) < bite;
            if (from < edge && !bitten) cell->bright[i * o->shape.W + j] += 1 - 0.5 * pow(from / edge, 2);
        }
}

/* Draws the image: a tenth of the cells are larger than the image, a fifth have a neighbour, and a third lack about
 * every seventh pixel of the footprint. */
static void draw_image(Cell *cell) {
    const CvSynthetic *o = cell->o;
    const Donor *d = cell->donor;
    int H = o->shape.H, W = o->shape.W;
    double u[6], z[2], scale = H * W / 441.0, middle = (H - 1) / 2.0;
    for (uint64_t i = 0; i < 6; i++) u[i] = uniform(o->seed, OF_CELL, cell->number, i);
    for (uint64_t i = 0; i < 2; i++) z[i] = normal(o->seed, OF_CELL, cell->number, 2 + i);
    double pixels = (u[0] < 0.1 ? 4000 : d->size * exp(0.6 * z[0])) * scale;
    if (cell->label) pixels *= pow(2, o->confound_size);
    add_body(cell, OF_BODY, middle + H * (u[1] - 0.5) / 10, middle + W * (u[2] - 0.5) / 10, fmax(pixels, 9));
    if (u[3] < 0.2)
        add_body(cell, OF_NEIGHBOUR, middle + 0.6 * H * sin(2 * PI * u[4]), middle + 0.6 * W * cos(2 * PI * u[4]),
                 d->size * scale / 2);
    double photons = o->photons * d->photons * exp(0.4 * z[1]);
    photons *= exp(0.1 * normal(o->seed, OF_FIELD, (uint32_t)cell->donor_number, (uint64_t)cell->field));
    if (cell->label) photons *= pow(2, o->confound_brightness);
    for (int i = 0; i < H * W; i++) {
        bool cut = u[5] < 1.0 / 3 && uniform(o->seed, OF_PIXEL, cell->number, (uint64_t)i) < 1.0 / 7;
        cell->bright[i] *= cut ? 0 : photons * exp(0.2 * normal(o->seed, OF_PIXEL, cell->number, (uint64_t)i));
    }
}

/* ---- files ---- */

static bool write_cell(void *cells, int64_t number, Error *error) {
    Cell *cell = (Cell *)cells + number;
    AugmentShape s = cell->o->shape;
    int n = s.H * s.W;
    OWNED char *path =
        xformat("%s/isolated_cells_D%d/d%02dm%d_%s_cell_%lld.npy", cell->directory, cell->donor_number + 1,
                1 + cell->field / 2, cell->field + 1, cell->label ? "act" : "in", (long long)cell->place + 1);
    OWNED uint16_t *counts = xmalloc((size_t)(n * s.T) * sizeof *counts);
    cell->share = xmalloc((size_t)s.T * sizeof *cell->share);
    cell->bright = xcalloc((size_t)n, sizeof *cell->bright);
    draw_decay(cell);
    draw_image(cell);
    for (int i = 0; i < n * s.T; i++) {
        double k = philox_poisson(cell->o->seed, PURPOSE_SYNTHETIC_COUNTS | OF_PHOTONS << 8, cell->number, (uint64_t)i,
                                  cell->bright[i / s.T] * cell->share[i % s.T]);
        counts[i] = (uint16_t)(k < UINT16_MAX ? k : UINT16_MAX); /* a full counter stays full */
    }
    bool ok = npy_write(path, "<u2", counts, 3, (const int64_t[]){s.H, s.W, s.T}, error);
    FREE(cell->share, cell->bright);
    return ok;
}

static char *donor_folder(const char *directory, int donor) {
    return xformat("%s/isolated_cells_D%d", directory, donor + 1);
}

/* Makes the donors' folders. Refuses folders that exist, unless they are an unfinished run with the same options. */
static bool make_folders(const char *directory, const CvSynthetic *o, Error *error) {
    AugmentShape s = o->shape;
    OWNED char *what =
        xformat("%lld cells, %d donors, %d x %d x %d, photons %.17g, separation %.17g, confound %.17g and %.17g, "
                "seed %llu",
                (long long)o->cells, o->donors, s.T, s.H, s.W, o->photons, o->separation, o->confound_size,
                o->confound_brightness, (unsigned long long)o->seed);
    bool again;
    if (!unfinished_find(directory, what, &again, error)) return false;
    for (int d = 0; d < o->donors && !again; d++) {
        OWNED char *path = donor_folder(directory, d);
        if (!access(path, F_OK))
            return error_set(error, "%s is there already; remove it or choose another folder", path);
    }
    if (!unfinished_begin(directory, what, error)) return false;
    for (int d = 0; d < o->donors; d++) {
        OWNED char *path = donor_folder(directory, d);
        make_directories(path);
        directory_remove_leftovers(path);
    }
    directory_remove_leftovers(directory);
    return true;
}

/* Returns the number of cells of a donor and class, at least one for each field of view. */
static int64_t count_cells(const CvSynthetic *o, int donor, int label) {
    double all = 0;
    for (int d = 0; d < o->donors; d++) all += donors[d % KINDS].quiescent + donors[d % KINDS].active;
    const Donor *d = &donors[donor % KINDS];
    int64_t n = llround((double)o->cells * (label ? d->active : d->quiescent) / all);
    return n > FIELDS ? n : FIELDS;
}

bool cv_synthetic_write(const char *directory, const CvSynthetic *o, int n_threads, int64_t *n_files, Error *error) {
    int64_t n = 0;
    OWNED_BY(file_unlock) FileLock lock;
    if (!unfinished_lock(&lock, directory, error)) return false;
    for (int i = 0; i < o->donors * CLASSES; i++) n += count_cells(o, i / CLASSES, i % CLASSES);
    OWNED Cell *cells = xmalloc((size_t)n * sizeof *cells);
    *n_files = n;
    n = 0;
    for (int i = 0; i < o->donors * CLASSES; i++)
        for (int64_t k = 0; k < count_cells(o, i / CLASSES, i % CLASSES); k++, n++)
            cells[n] = (Cell){.directory = directory,
                              .o = o,
                              .donor = &donors[i / CLASSES % KINDS],
                              .donor_number = i / CLASSES,
                              .label = i % CLASSES,
                              .field = (int)(k % FIELDS),
                              .place = k,
                              .number = (uint32_t)n};
    return make_folders(directory, o, error) && threads_each(n, n_threads, write_cell, cells, error) &&
           unfinished_end(directory, error);
}
