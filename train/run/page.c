#include "train/run/page.h"

#include "train/page/page.h"
#include "train/run/keep.h"

/* Pages that take longer than this are written more rarely, so that they take this share of the time. */
static const double LONG = 0.5, SHARE = 0.02;

void page_refresh(Run *run) {
    double start = seconds_now();
    int64_t before = allocation_count();
    Error error;
    if (run->page_seconds > LONG && run->page_seconds > SHARE * (start - run->page_end)) return;
    if (!page_write_in(keep_folder(run), 0, true, &error)) {
        if (!run->page_failed) warn("report.html could not be written: %s; training goes on", error.text);
        run->page_failed = true;
    }
    run->allocations_apart += allocation_count() - before;
    run->page_end = seconds_now();
    run->page_seconds = run->page_end - start;
    run->window.start += run->page_seconds; /* the time does not count as training */
    eta_wait(&run->eta, run->page_seconds);
}
