/* All ranks of a job meet over TCP before a library that lets them compute together begins, and stay connected: each
 * with rank 0. So every rank knows at once which one has died, and why the job cannot go on, while the libraries only
 * wait.
 *
 * They meet where MASTER_ADDR and MASTER_PORT say. If these are not set and all ranks are on this machine, they meet at
 * a port of 127.0.0.1 that the name of the job chooses. If TRAINC_JOB_SECRET is set, all must prove that they know it.
 */
#pragma once

#include "base/launch.h"

typedef struct Meeting Meeting;

typedef struct {
    double patience; /* seconds that ranks may take to come: 120 */
    double silence;  /* seconds without a sign of life after which a rank is lost: 20 */
} MeetingLimits;

/* Waits for all ranks. Returns NULL with the reason, the same for all that came: who is missing after limits->patience,
 * a port that is taken, a rank that came twice, another program, revision or size. limits NULL: the defaults. */
Meeting *meeting_open(const Launch *launch, const MeetingLimits *limits, Error *error);
/* Compares facts of all ranks, lines "name\tvalue\n" in the same order. Waits for all. Returns false, on all ranks with
 * the same text, if one differs from rank 0's: the text names rank, host, fact and both values. */
bool meeting_compare(Meeting *meeting, const char *facts, Error *error);
/* Sends rank 0's bytes to all others, where they replace those at data. Waits for all. */
bool meeting_share(Meeting *meeting, void *data, size_t bytes, Error *error);
/* Sends each rank's bytes, at most 1 MiB, to all: all[r * bytes] begins what rank r has at `mine`. Waits for all.
 * Returns false, on all ranks with the same text, if one gives another number of bytes than rank 0. */
bool meeting_gather(Meeting *meeting, const void *mine, size_t bytes, void *all, Error *error);
/* Returns why the job cannot go on, the same on all ranks: one has died ("rank 2 (host h, process 4711) has ended
 * without a word"), is silent ("... has not answered for 20 s"), or has left with last words; NULL: nothing is known.
 * Never waits: may be polled. */
const char *meeting_lost(const Meeting *meeting);
/* Has the meeting's own thread call a function once the job cannot go on, for a time in which this one cannot ask.
 * NULL: none. */
void meeting_watch(Meeting *meeting, void (*lost)(const char *why));
/* Tells all others that this rank ends and why. May be called by what last_calls_add has added: allocates nothing, and
 * takes at most 2 seconds. */
void meeting_last_words(Meeting *meeting, const char *why);
/* Waits in ranks other than 0 until rank 0 has ended or is silent. */
void meeting_wait_for_first(Meeting *meeting);
/* Says goodbye: others take it for no loss if this rank is gone afterwards. Waits until all have said so or one is
 * lost; rank 0's is the last. Frees the meeting, which may be NULL. */
void meeting_close(Meeting *meeting);
/* Returns the host name of a rank, for messages. */
const char *meeting_host(const Meeting *meeting, int rank);
