#include "train/run/page.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "page/page.h"
#include "train/parallel/ranks.h"
#include "train/run/keep.h"

double page_pause(double seconds, int64_t log_bytes) {
    static const double LONG = 0.5, SHARE = 0.02, MOST_OFTEN = 600;
    enum { LARGE = 32 << 20 };
    double pause = seconds > LONG ? seconds / SHARE : 0;
    return log_bytes > LARGE && pause < MOST_OFTEN ? MOST_OFTEN : pause;
}

static int64_t log_bytes(const Run *run) {
    struct stat status;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/log.jsonl", keep_folder(run));
    return stat(path, &status) ? 0 : status.st_size;
}

void page_refresh(Run *run) {
    double start = seconds_now();
    Error error;
    if (!ranks_write()) return;
    if (run->page_end > 0 && start < run->page_end + page_pause(run->page_seconds, log_bytes(run))) return;
    if (!page_write_in(keep_folder(run), 0, true, &error)) {
        if (!run->page_failed) warn("report.html could not be written: %s; training goes on", error.text);
        run->page_failed = true;
    }
    run->page_end = seconds_now();
    run->page_seconds = run->page_end - start;
    run->window.start += run->page_seconds; /* the time does not count as training */
    eta_wait(&run->eta, run->page_seconds);
}
