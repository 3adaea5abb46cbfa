/* A row, in units of the receiver's noise, is (1 + the spectra of all channels in use + spurs) times the noise of the
 * estimate, through the receiver's frequency response. Transmitters belong to the sensor's site and are the same on all
 * days; the strength of the signal changes with the day. */
#include "data/psd/synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/threads.h"
#include "data/formats/npy.h"
#include "data/psd/manifest.h"
#include "data/unfinished.h"
#include "kernels/philox.h"

static const double BINS_PER_MHZ = 107.5, PI = 3.14159265358979323846;
enum { ROWS_OF_A_FILE = 15 };

/* ---- technologies ---- */

/* Power densities by the distance from the carrier in MHz; the maximum is 1. */

/* Is 1 up to half the width, with an edge of about 4 kHz, from OFDM and from the width of a bin. */
static double flat(double x, double width) { return 1 / (1 + exp((fabs(x) - width / 2) / 0.004)); }
static double dab(double x) { return flat(x, 1.536); }
static double dvbt(double x) { return flat(x, 7.61); }
static double lte(double x) { return flat(x, 0.18); } /* a resource block */
/* Speech and music: a bell of 35 kHz, and the stereo signal's skirts. */
static double fm(double x) { return 0.9 * exp(-x * x / (2 * 0.035 * 0.035)) + 0.1 * exp(-fabs(x) / 0.04); }
/* GMSK, BT 0.3, 270.833 kbit/s: minimum shift keying's spectrum, whose side lobes the Gaussian filter takes away. */
static double gsm(double x) {
    double f = x / 0.270833, pole = 1 - 16 * f * f, msk = fabs(pole) < 1e-6 ? PI / 4 : cos(2 * PI * f) / pole;
    return msk * msk * exp(-f * f / (0.72 * 0.72));
}
/* 18 kbaud through root raised cosines, roll-off 0.35. */
static double tetra(double x) {
    double f = fabs(x) / 0.018, from = 0.5 - 0.35 / 2, to = 0.5 + 0.35 / 2;
    return f <= from ? 1 : f >= to ? 0 : 0.5 * (1 + cos(PI * (f - from) / 0.35));
}

typedef struct {
    const char *name;
    double first, raster;           /* MHz: the center of one channel; the spacing of channels */
    int low, high, narrow, wide;    /* MHz: a recording lies between low and high, and is narrow to wide */
    double occupancy, spread;       /* the fraction of channels in use; dB, deviation between channels */
    double duty, fading;            /* the fraction of rows in which a block is on; dB, deviation between rows */
    int blocks;                     /* per channel, side by side around its center, each with its own load */
    double (*shape)(double), reach; /* of a block; MHz beyond which it is 0 */
} Signal;

static const Signal signals[] = {
    {"dab", 174.928, 1.712, 180, 228, 8, 16, 0.7, 4, 1, 0.7, 1, dab, 0.85},
    {"dvbt", 474, 8, 470, 690, 16, 32, 0.8, 4, 1, 0.7, 1, dvbt, 3.9},
    {"fm", 87.6, 0.2, 86, 109, 10, 20, 0.4, 8, 1, 1.5, 1, fm, 0.3},
    {"gsm", 935.2, 0.2, 935, 960, 5, 10, 0.75, 4, 0.8, 1.5, 1, gsm, 0.3},
    {"lte", 796, 10, 791, 821, 20, 30, 1, 3, 1, 3, 50, lte, 0.12},
    {"tetra", 390.0125, 0.025, 390, 400, 5, 10, 0.25, 5, 0.7, 2, 1, tetra, 0.02},
    /* Every fourth site has these: LTE's narrower channels, and TETRA where others have DVB-T. */
    {"lte", 793.5, 5, 791, 821, 20, 30, 1, 3, 1, 3, 25, lte, 0.12},
    {"tetra", 419.0125, 0.025, 419, 430, 5, 10, 0.25, 5, 0.7, 2, 1, tetra, 0.02}};

static const Signal *signal_of(int64_t sensor, int label) {
    bool other = sensor % 4 == 3;
    return &signals[other && label == 4 ? 6 : other && label == 5 ? 7 : label];
}

/* ---- random draws ---- */

enum { SITE, CHANNEL_IN_USE, CHANNEL_POWER, DAY, GAIN, DROPOUT, BLOCK_ON, BLOCK_POWER, NOISE };

static double uniform(uint64_t seed, uint32_t what, uint32_t where, uint64_t which) {
    return (double)philox_uniform(seed, PURPOSE_SYNTHETIC | what << 8, where, which);
}

static double normal(uint64_t seed, uint32_t what, uint32_t where, uint64_t which) {
    return (double)philox_normal(seed, PURPOSE_SYNTHETIC | what << 8, where, which);
}

/* One file: a technology at a sensor on a day. */
typedef struct {
    uint64_t seed;
    uint32_t sensor, number; /* number: of the file, unique */
    const Signal *signal;
    int low, high;
    int64_t rows, width;
    double snr;       /* dB, of a channel of average power */
    double averages;  /* how many spectra the receiver averages */
    double *response; /* [width] dB, including the level of the noise */
    double *spurs;    /* [width] in units of the noise */
} Recording;

static double frequency(const Recording *r, int64_t bin) { return r->low + ((double)bin + 0.5) / BINS_PER_MHZ; }

/* Sets response and spurs. A receiver tunes in steps of 2 MHz from 24 MHz. Each step is weaker at its edges and has a
 * spike in its middle (the converter's offset) and two spurs; reflections in the cable add a ripple over everything. */
static void set_receiver(Recording *r) {
    double own[16];
    for (uint64_t i = 0; i < 16; i++) own[i] = uniform(r->seed, SITE, r->sensor, i);
    const double places[3] = {0, own[0] * 1.8 - 0.9, own[1] * 1.8 - 0.9};          /* -1 to 1 within a step */
    const double heights[3] = {3 + 12 * own[2], 12 * own[3] - 2, 12 * own[4] - 4}; /* dB above the noise */
    r->averages = 8 + 24 * own[5];
    for (int64_t i = 0; i < r->width; i++) {
        double f = frequency(r, i), step = fmod(f - 24, 2) - 1, edge = pow(step, 4);
        r->response[i] = -75 + 20 * own[6] - (0.5 + 2 * own[7]) * edge;
        for (int k = 0; k < 2; k++)
            r->response[i] += (0.2 + 0.6 * own[8 + k]) * sin(2 * PI * (f / (1 + 8 * own[10 + k]) + own[12 + k]));
        for (int k = 0; k < 3; k++)
            if (fabs(step - places[k]) <= 0.5 / BINS_PER_MHZ) r->spurs[i] = pow(10, heights[k] / 10);
    }
}

static int64_t days_of(const PsdSynthetic *o) { return (o->rows + ROWS_OF_A_FILE - 1) / ROWS_OF_A_FILE; }

static Recording recording_of(const PsdSynthetic *o, int64_t sensor, int label, int64_t day, int64_t rows) {
    Recording r = {.seed = o->seed,
                   .sensor = (uint32_t)sensor,
                   .number = (uint32_t)((sensor * PSD_UNKNOWN + label) * days_of(o) + day),
                   .signal = signal_of(sensor, label),
                   .rows = rows};
    double own[3];
    for (uint64_t i = 0; i < 3; i++) own[i] = uniform(r.seed, DAY, r.number, i);
    int wide = r.signal->narrow + (int)(own[0] * (r.signal->wide - r.signal->narrow + 1));
    r.low = r.signal->low + (int)(own[1] * (r.signal->high - r.signal->low - wide + 1));
    r.high = r.low + wide;
    r.width = (int64_t)(wide * BINS_PER_MHZ);
    r.snr = 3 + 22 * own[2];
    r.response = xcalloc((size_t)r.width, sizeof *r.response);
    r.spurs = xcalloc((size_t)r.width, sizeof *r.spurs);
    set_receiver(&r);
    return r;
}

/* ---- rows ---- */

static void add_block(const Recording *r, double middle, double power, double *sum) {
    const Signal *s = r->signal;
    int64_t from = (int64_t)ceil((middle - s->reach - r->low) * BINS_PER_MHZ - 0.5);
    int64_t to = (int64_t)floor((middle + s->reach - r->low) * BINS_PER_MHZ - 0.5);
    for (int64_t i = from > 0 ? from : 0; i <= to && i < r->width; i++)
        sum[i] += power * s->shape(frequency(r, i) - middle);
}

/* Channel numbers have an offset for the draws, so that none is negative. */
static void add_channel(const Recording *r, int64_t row, int64_t channel, double *sum) {
    const Signal *s = r->signal;
    uint32_t site = r->sensor * 8 + (uint32_t)(s - signals);
    uint64_t which = (uint64_t)(channel + 4096);
    if (uniform(r->seed, CHANNEL_IN_USE, site, which) >= s->occupancy) return;
    double level = r->snr + s->spread * normal(r->seed, CHANNEL_POWER, site, which);
    for (int b = 0; b < s->blocks; b++) {
        uint64_t block = ((uint64_t)row << 32) + which * 64 + (uint64_t)b;
        if (uniform(r->seed, BLOCK_ON, r->number, block) >= s->duty) continue;
        /* Blocks are 0.18 MHz apart, and 15 kHz more at the channel's middle, where LTE sends nothing. */
        double side = s->blocks == 1 ? 0 : b < s->blocks / 2 ? -0.0075 : 0.0075;
        double middle = s->first + (double)channel * s->raster + (b - (s->blocks - 1) / 2.0) * 0.18 + side;
        double power = level + s->fading * normal(r->seed, BLOCK_POWER, r->number, block);
        add_block(r, middle, pow(10, power / 10), sum);
    }
}

/* Makes one row. The mean of n noise spectra has a chi-squared distribution with 2 n degrees of freedom, whose cube
 * root is nearly normal (Wilson and Hilferty, 1931). The gain is constant for 8 rows; one row in 64 has no signal. */
static void make_row(const Recording *r, int64_t row, double *out) {
    const Signal *s = r->signal;
    double gain = 3 * floor(4 * uniform(r->seed, GAIN, r->number, (uint64_t)row / 8));
    bool dropped = uniform(r->seed, DROPOUT, r->number, (uint64_t)row) < 1.0 / 64;
    for (int64_t i = 0; i < r->width; i++) out[i] = 1 + r->spurs[i];
    int64_t first = (int64_t)floor((r->low - s->first) / s->raster),
            last = (int64_t)ceil((r->high - s->first) / s->raster);
    for (int64_t c = first; c <= last && !dropped; c++) add_channel(r, row, c, out);
    for (int64_t i = 0; i < r->width; i++) {
        double z = normal(r->seed, NOISE, r->number, (uint64_t)(row * r->width + i));
        double root = 1 - 1 / (9 * r->averages) + z / (3 * sqrt(r->averages));
        out[i] = r->response[i] + gain + 10 * log10(out[i] * pow(fmax(root, 0.01), 3));
    }
}

/* The folder that is filled. */
typedef struct {
    const char *root;
    const PsdSynthetic *options;
} Folder;

static bool write_recording(void *folder, int64_t number, Error *error) {
    const Folder *f = folder;
    int64_t days = days_of(f->options), day = number % days, left = f->options->rows - day * ROWS_OF_A_FILE;
    Recording r = recording_of(f->options, number / days / PSD_UNKNOWN, (int)(number / days % PSD_UNKNOWN), day,
                               left < ROWS_OF_A_FILE ? left : ROWS_OF_A_FILE);
    OWNED char *directory = xformat("%s/sensor_%02u/Feb_%lld", f->root, r.sensor + 1, (long long)day + 1);
    OWNED char *path =
        xformat("%s/SpectrumBands_%d_%d_%s_site_%d_%d.npy", directory, r.low, r.high, r.signal->name, r.low, r.high);
    OWNED double *rows = xmalloc((size_t)(r.rows * r.width) * sizeof *rows);
    for (int64_t i = 0; i < r.rows; i++) make_row(&r, i, rows + i * r.width);
    make_directories(directory);
    directory_remove_leftovers(directory);
    bool ok = npy_write(path, "<f8", rows, 2, (const int64_t[]){r.rows, r.width}, error);
    FREE(r.response, r.spurs);
    return ok;
}

/* Refuses a folder that exists, unless it is unfinished and of the same kind. */
static bool begin(const char *directory, const char *root, const PsdSynthetic *o, Error *error) {
    OWNED char *what = xformat("%lld sensors, %lld rows, seed %llu", (long long)o->sensors, (long long)o->rows,
                               (unsigned long long)o->seed);
    bool again, ok = unfinished_find(directory, what, &again, error);
    if (ok && !again && !access(root, F_OK))
        ok = error_set(error, "%s is there already; remove it, or choose another folder", root);
    ok = ok && unfinished_begin(directory, what, error);
    if (ok) directory_remove_leftovers(directory);
    return ok;
}

bool psd_synthetic_write(const char *directory, const PsdSynthetic *o, int n_threads, int64_t *n_files, Error *error) {
    OWNED char *root = path_join(directory, "spectrum_bands");
    OWNED_BY(file_unlock) FileLock lock;
    *n_files = o->sensors * PSD_UNKNOWN * days_of(o);
    return unfinished_lock(&lock, directory, error) && begin(directory, root, o, error) &&
           threads_each(*n_files, n_threads, write_recording, &(Folder){root, o}, error) &&
           unfinished_end(directory, error);
}
