/* Ranks that meet, or do not, and stay in touch: processes of this machine. No test asserts a speed; the limits are
 * those of a machine with much other work. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/meeting/go.h"
#include "base/meeting/place.h"
#include "tests/base/meeting_rig.h"

#define JOB_TEST(name) TEST_WITH(name, NULL, job_clean)

static void leave(Process *process, Meeting *meeting) {
    (void)process;
    meeting_close(meeting);
}

/* ---- together ---- */

static void compare_and_share(Process *process, Meeting *meeting) {
    enum { BIG = (3 << 20) + 5 };
    static uint8_t big[BIG];
    Error error = {""};
    char small[8] = "others";
    bool first = process->launch.rank == 0;
    if (first) strcpy(small, "rank 0");
    for (int i = 0; first && i < BIG; i++) big[i] = (uint8_t)(i % 251 ^ i >> 12);
    bool done = meeting_compare(meeting, "seed\t1\nlayers\t12\n", &error) &&
                meeting_share(meeting, small, sizeof small, &error) && meeting_compare(meeting, "", &error) &&
                meeting_share(meeting, big, BIG, &error) && meeting_share(meeting, NULL, 0, &error);
    if (done && strcmp(small, "rank 0") != 0) done = error_set(&error, "%s was shared", small);
    for (int i = 0; done && i < BIG; i++)
        if (big[i] != (uint8_t)(i % 251 ^ i >> 12)) done = error_set(&error, "byte %d differs", i);
    char host[65];
    gethostname(host, sizeof host);
    for (int r = 0; done && r < process->launch.size; r++)
        if (strcmp(meeting_host(meeting, r), host) != 0) done = error_set(&error, "host %s", meeting_host(meeting, r));
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(!done);
}

JOB_TEST(ranks_meet_compare_facts_and_share_bytes) {
    static const int sizes[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        Process *job = job_new(sizes[i]);
        job_start_all(job, sizes[i], compare_and_share);
        job_end_all(job, sizes[i], 0, NULL);
    }
}

JOB_TEST(late_ranks_are_waited_for) {
    Process *job = job_new(3);
    job[0].delay = 0.5;
    job[2].delay = 1;
    job_start_all(job, 3, compare_and_share);
    job_end_all(job, 3, 0, NULL);
}

static void compare_own_facts(Process *process, Meeting *meeting) {
    static const char *const facts[] = {"seed\t1\nlayers\t12\n", "seed\t1\nlayers\t12\n", "seed\t1\nlayers\t24\n",
                                        "seed\t1\n"};
    Error error = {""};
    const int rank = process->launch.rank, third = process->work > 0 ? 3 : 2;
    bool same = meeting_compare(meeting, facts[rank == 2 ? third : rank], &error);
    strcpy(process->text, error.text);
    if (meeting_lost(meeting)) strcpy(process->text, "lost");
    meeting_close(meeting);
    _exit(same);
}

JOB_TEST(a_fact_that_differs_is_named_on_all_ranks) {
    Process *job = job_new(3);
    job_start_all(job, 3, compare_own_facts);
    job_end_all(job, 3, 0, "has layers 24, but rank 0 (host ");
    assert_contains(job[1].text, kept_format("process %d) has layers", job[2].process));
    assert_contains(job[1].text, ") has 12");
}

JOB_TEST(a_fact_that_is_missing_is_named_on_all_ranks) {
    Process *job = job_new(3);
    for (int i = 0; i < 3; i++) job[i].work = 1;
    job_start_all(job, 3, compare_own_facts);
    job_end_all(job, 3, 0, "states the fact \"\" where rank 0");
    assert_contains(job[1].text, "states \"layers\"");
}

static void share_or_compare(Process *process, Meeting *meeting) {
    Error error = {""};
    char bytes[8] = "";
    bool done =
        process->launch.rank == 1 ? meeting_share(meeting, bytes, 8, &error) : meeting_compare(meeting, "", &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(done);
}

JOB_TEST(ranks_that_do_different_things_hear_of_it) {
    Process *job = job_new(3);
    job_start_all(job, 3, share_or_compare);
    job_end_all(job, 3, 0, "does something else than the others");
}

static void share_own_size(Process *process, Meeting *meeting) {
    Error error = {""};
    char bytes[8] = "";
    bool done = meeting_share(meeting, bytes, process->launch.rank == 1 ? 4 : 8, &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(done);
}

JOB_TEST(bytes_that_another_rank_does_not_expect_are_not_shared) {
    Process *job = job_new(2);
    job_start_all(job, 2, share_own_size);
    job_end_all(job, 2, 0, "expects 4 bytes from rank 0, which has 8");
}

/* ---- who does not meet ---- */

JOB_TEST(a_missing_rank_is_named_to_all_that_came) {
    Process *job = job_new(4);
    for (int i = 0; i < 4; i++) job[i].limits.patience = i ? 40 : 2;
    job_start_all(job, 2, leave);
    job_end_all(job, 2, 1, "ranks 2, 3 have not come to rank 0 (host ");
    assert_contains(job[1].text, "within 2 s");
}

JOB_TEST(rank_0_that_does_not_come_is_named) {
    Process *job = job_new(2);
    job[1].limits.patience = 1;
    job_start(&job[1], leave);
    assert_int_equal(job_end(&job[1]), 1);
    assert_contains(job[1].text, "rank 0 was not found at 127.0.0.1:");
    assert_contains(job[1].text, "within 1 s");
}

JOB_TEST(a_rank_that_comes_twice_ends_the_meeting) {
    Process *job = job_new(4);
    job[3].launch.rank = 2;
    job_start_all(job, 4, leave);
    job_end_all(job, 4, 1, "two processes came as rank 2 (host ");
    assert_contains(job[0].text, kept_format("process %d)", job[2].process));
    assert_contains(job[0].text, kept_format("process %d)", job[3].process));
}

/* Listens on a free port of 127.0.0.1, or the one that is given. */
static int listen_on(int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    at.sin_port = htons((uint16_t)*port);
    int file = wire_listen((struct sockaddr *)&at, size);
    if (file >= 0 && !getsockname(file, (struct sockaddr *)&at, &size)) *port = ntohs(at.sin_port);
    return file;
}

/* Comes to rank 0, which waits at this port, until it is accepted. */
static Wire come_as(const Launch *launch, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const Hello own = hello_own(launch);
    Wire wire = {.file = -1};
    Talk talk = {.greeting_size = hello_write(&own, talk.greeting)};
    Frame frame;
    uint8_t proof[SHA1_SIZE];
    double until = seconds_now() + 40;
    at.sin_port = htons((uint16_t)port);
    for (; wire.file < 0 && seconds_now() < until; usleep(2000))
        wire.file = wire_connect((struct sockaddr *)&at, sizeof at, until);
    wire_put(&wire, 'H', talk.greeting, talk.greeting_size);
    wire_flush(&wire, until);
    assert_int_equal(wire_wait(&wire, HELLO_MOST, &frame, until), 1);
    assert_int_equal(frame.type, 'C');
    assert_true(talk_keep(talk.challenge, &talk.challenge_size, frame.bytes, frame.size));
    wire_drop(&wire, &frame);
    talk_prove(&talk, false, proof);
    wire_put(&wire, 'P', proof, sizeof proof);
    wire_flush(&wire, until);
    assert_int_equal(wire_wait(&wire, HELLO_MOST, &frame, until), 1);
    assert_int_equal(frame.type, 'A');
    return wire;
}

/* Listens on the first port of a job that is not yet running. Other processes may have the port: then the job gets
 * another name. */
static int listen_on_first(Process *job, int *port) {
    for (int tries = 0; tries < 100; tries++) {
        Place place;
        assert_true(place_find(&job->launch, &place, NULL));
        *port = place.port;
        int file = listen_on(port);
        if (file >= 0) return file;
        for (int i = 0; i < MOST_PROCESSES; i++) strcat(job[i].launch.job, "+");
    }
    fail_msg("no port is free: %s", strerror(errno));
    return -1;
}

static int first_port(Process *job) {
    int port;
    close(listen_on_first(job, &port));
    return port;
}

JOB_TEST(a_rank_that_ends_while_others_are_waited_for_is_named) {
    Process *job = job_new(3);
    int port = first_port(job);
    job_start(&job[0], leave);
    Wire wire = come_as(&job[2].launch, port);
    wire_close(&wire);
    job_start(&job[1], leave); /* even if it comes too late, it hears why there is no meeting */
    job_end_all(job, 2, 1, "has ended without a word");
    assert_contains(job[0].text, kept_format("rank 2 (host %s, process %d) has ended without a word",
                                             hello_own(&job[2].launch).host, getpid()));
}

JOB_TEST(another_program_is_named) {
    Process *job = job_new(3);
    job[1].program = "train_another";
    job_start_all(job, 3, leave);
    job_end_all(job, 3, 1, kept_format(") runs train_another, but rank 0 runs %s", program_invocation_short_name));
    assert_contains(job[0].text,
                    kept_format("rank 1 (host %s, process %d) runs", hello_own(&job[0].launch).host, job[1].process));
}

JOB_TEST(another_size_is_named) {
    Process *job = job_new(2);
    job[1].launch.size = job[1].launch.local_size = 3;
    job_start_all(job, 2, leave);
    job_end_all(job, 2, 1, "was told of 3 ranks, but rank 0 of 2");
}

JOB_TEST(another_revision_is_named) {
    Process *job = job_new(2);
    Error error = {""};
    Member members[2] = {{.wire = {.file = -1}}, {.wire = {.file = -1}}};
    job_start(&job[0], leave);
    Hello own = hello_own(&job[1].launch);
    strcpy(own.revision, "0.0.0 of long ago");
    assert_false(go_to_rank_0(&job[1].launch, &own, 30, 20, members, &error));
    assert_contains(error.text, "is of revision 0.0.0 of long ago, but rank 0 of ");
    assert_int_equal(job_end(&job[0]), 1);
    assert_string_equal(job[0].text, error.text);
}

/* ---- where ---- */

static int connect_to(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    at.sin_port = htons((uint16_t)port);
    return wire_connect((struct sockaddr *)&at, sizeof at, seconds_now() + 1);
}

static void tell_place(Process *job, int n, const char *address, int port) {
    for (int i = 0; i < n; i++) {
        strcpy(job[i].launch.address, address);
        job[i].launch.port = port;
        job[i].launch.local_size = 0;
    }
}

JOB_TEST(ranks_meet_where_they_are_told) {
    int port = 0, file = listen_on(&port);
    Process *job = job_new(2);
    assert_true(file >= 0);
    close(file);
    tell_place(job, 2, "localhost", port);
    job_start_all(job, 2, compare_and_share);
    job_end_all(job, 2, 0, NULL);
}

JOB_TEST(a_port_that_is_taken_is_named) {
    int port = 0, file = listen_on(&port);
    Process *job = job_new(2);
    tell_place(job, 2, "127.0.0.1", port);
    job_start(&job[0], leave);
    assert_int_equal(job_end(&job[0]), 1);
    assert_contains(job[0].text, kept_format("127.0.0.1:%d: the port is taken by another process", port));
    close(file);
}

JOB_TEST(a_port_that_the_launcher_takes_is_passed_by) {
    int port = 0, file = listen_on(&port);
    Process *job = job_new(2);
    tell_place(job, 2, "127.0.0.1", port);
    job[0].launch.port_in_use = job[1].launch.port_in_use = true;
    job_start_all(job, 2, compare_and_share);
    job_end_all(job, 2, 0, NULL);
    close(file);
}

JOB_TEST(ranks_of_several_machines_must_be_told_where_to_meet) {
    Process *job = job_new(2);
    job[0].launch.local_size = job[1].launch.local_size = 1;
    job_start_all(job, 2, leave);
    job_end_all(job, 2, 1, "set MASTER_ADDR to an address of its machine and MASTER_PORT");
}

JOB_TEST(an_address_that_other_machines_cannot_reach_is_named) {
    Process *job = job_new(2);
    tell_place(job, 2, "127.0.1.1", 29500);
    job[0].launch.local_size = 1;
    job_start(&job[0], leave);
    assert_int_equal(job_end(&job[0]), 1);
    assert_contains(job[0].text, "MASTER_ADDR=127.0.1.1 is 127.0.1.1:29500 on the machine of rank 0");
}

/* Writes an address of this machine that is not of 127.0.0.0/8. */
static bool network_address(char text[WIRE_NAME]) {
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all)) return false;
    for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        found = a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !place_is_loopback(a->ifa_addr);
        if (found) getnameinfo(a->ifa_addr, sizeof(struct sockaddr_in), text, WIRE_NAME, NULL, 0, NI_NUMERICHOST);
    }
    freeifaddrs(all);
    return found;
}

static void listen_as_rank_0(void *launch) {
    Error error = {""};
    char name[WIRE_NAME];
    if (place_listen(launch, name, &error) < 0) printf("%s", error.text);
}

TEST(rank_0_warns_if_others_could_join) {
    int port = 0, file = listen_on(&port);
    char output[600];
    Launch launch = {.size = 2, .local_size = 0, .port = port};
    close(file);
    if (!network_address(launch.address)) {
        printf("SKIPPED: what is heard from a network: there is none here\n");
        skip();
    }
    unsetenv("TRAINC_JOB_SECRET");
    assert_int_equal(run_function(output, sizeof output, listen_as_rank_0, &launch), 0);
    assert_contains(output, kept_format("anyone who can reach %s:%d can join this job; set TRAINC_JOB_SECRET",
                                        launch.address, port));
    setenv("TRAINC_JOB_SECRET", "known", 1);
    run_function(output, sizeof output, listen_as_rank_0, &launch);
    unsetenv("TRAINC_JOB_SECRET");
    assert_string_equal(output, "");
    strcpy(launch.address, "127.0.0.1");
    run_function(output, sizeof output, listen_as_rank_0, &launch);
    assert_string_equal(output, "");
}

TEST(rank_0_waits_only_at_addresses_of_its_machine) {
    char output[600];
    Launch launch = {.size = 2, .port = 29500, .address = "192.0.2.1"}; /* of no machine: RFC 5737 */
    run_function(output, sizeof output, listen_as_rank_0, &launch);
    assert_contains(output, "rank 0 cannot wait at 192.0.2.1:29500: ");
    assert_contains(output, "MASTER_ADDR must be an address of the machine that rank 0 runs on");
}

/* Answers whoever connects, until the job has ended. */
static void serve(int file, const char *answer, Process *last) {
    for (double until = seconds_now() + 60; last->stage < 1; usleep(2000)) {
        int guest = wire_accept(file);
        if (guest >= 0 && send(guest, answer, strlen(answer), MSG_NOSIGNAL) < 0) close(guest);
        assert_true(seconds_now() < until);
    }
}

static void say_met(Process *process, Meeting *meeting) {
    process->stage = 1;
    meeting_close(meeting);
}

JOB_TEST(a_foreign_service_on_the_first_port_is_passed_by) {
    static const char *const answers[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", ""};
    for (int i = 0; i < 2; i++) {
        Process *job = job_new(2);
        int port, file = listen_on_first(job, &port);
        job_start_all(job, 2, say_met);
        serve(file, answers[i], &job[1]);
        job_end_all(job, 2, 0, NULL);
        close(file);
    }
}

JOB_TEST(another_job_on_the_first_port_is_passed_by) {
    Process *job = job_new(2), *other = job_new(2);
    int port = first_port(job);
    strcpy(other[0].launch.job, job[0].launch.job);
    strcpy(other[1].launch.job, job[0].launch.job);
    tell_place(other, 2, "127.0.0.1", port);
    job_start(&other[0], leave);
    usleep(500000);
    job_start_all(job, 2, compare_and_share);
    job_end_all(job, 2, 0, NULL);
    job_start(&other[1], leave);
    job_end_all(other, 2, 0, NULL);
}

JOB_TEST(strangers_do_not_stop_a_meeting) {
    static const char garbage[] = "GET / HTTP/1.1\r\n\r\n", huge[] = "H\xff\xff\xff\xffxxxx", empty[] = "P\0\0\0\0",
                      no_hello[] = "H\0\0\0\x14"
                                   "nonce of sixteen....";
    static const struct {
        const char *bytes;
        size_t size;
    } said[] = {{garbage, sizeof garbage - 1}, {huge, sizeof huge - 1}, {empty, 5}, {no_hello, sizeof no_hello - 1}};
    Process *job = job_new(2);
    int port = first_port(job);
    job_start(&job[0], say_met);
    for (int i = 0; i < 72; i++) { /* most of them say nothing, and are more than may wait */
        int stranger = connect_to(port);
        for (int again = 0; stranger < 0 && again < 1000; again++, usleep(20000)) stranger = connect_to(port);
        assert_true(stranger >= 0);
        if (i < 4) assert_int_equal(send(stranger, said[i].bytes, said[i].size, MSG_NOSIGNAL), said[i].size);
        if (i == 4) close(stranger);
    }
    job_start(&job[1], say_met);
    job_end_all(job, 2, 0, NULL);
}

/* ---- the secret ---- */

JOB_TEST(ranks_with_the_same_secret_meet) {
    Process *job = job_new(3);
    for (int i = 0; i < 3; i++) job[i].secret = "of three";
    job_start_all(job, 3, compare_and_share);
    job_end_all(job, 3, 0, NULL);
}

JOB_TEST(a_rank_with_another_secret_or_none_is_refused_and_named) {
    static const struct {
        const char *ours, *theirs, *why;
    } cases[] = {{"right", "wrong", "its TRAINC_JOB_SECRET is not that of rank 0"},
                 {"right", NULL, "it has no TRAINC_JOB_SECRET, and rank 0 has one"},
                 {NULL, "right", "it has a TRAINC_JOB_SECRET, and rank 0 has none"}};
    Process *jobs[3];
    for (int c = 0; c < 3; c++) {
        Process *job = jobs[c] = job_new(3);
        job[0].limits.patience = 3;
        job[0].secret = job[2].secret = cases[c].ours;
        job[1].secret = cases[c].theirs;
        job_start_all(job, 3, leave);
    }
    for (int c = 0; c < 3; c++) {
        Process *job = jobs[c];
        for (int i = 0; i < 3; i++) assert_int_equal(job_end(&job[i]), 1);
        assert_contains(job[1].text, "rank 0 at 127.0.0.1:");
        assert_contains(job[1].text, kept_format(" refuses rank 1: %s", cases[c].why));
        assert_contains(job[0].text, "rank 1 has not come to rank 0");
        assert_contains(job[0].text, kept_format("process %d) was refused: %s", job[1].process, cases[c].why));
        assert_string_equal(job[2].text, job[0].text);
    }
}

/* Answers a rank as rank 0 does, but without the secret. */
JOB_TEST(a_rank_0_that_does_not_know_the_secret_is_found_out) {
    Process *job = job_new(2);
    int port, file = listen_on_first(job, &port);
    job[1].secret = "right";
    job_start(&job[1], leave);
    Hello own = hello_own(&job[0].launch);
    own.has_secret = true;
    uint8_t challenge[HELLO_MOST];
    Frame frame;
    Wire wire = {.file = -1};
    for (double until = seconds_now() + 30; wire.file < 0 && seconds_now() < until; usleep(2000))
        wire.file = wire_accept(file);
    assert_int_equal(wire_wait(&wire, HELLO_MOST, &frame, seconds_now() + 30), 1);
    assert_int_equal(frame.type, 'H');
    wire_drop(&wire, &frame);
    wire_put(&wire, 'C', challenge, hello_write(&own, challenge));
    wire_flush(&wire, seconds_now() + 30);
    assert_int_equal(wire_wait(&wire, HELLO_MOST, &frame, seconds_now() + 30), 1);
    assert_int_equal(frame.type, 'P');
    wire_put(&wire, 'A', frame.bytes, frame.size); /* its own proof does not prove anything about rank 0 */
    wire_flush(&wire, seconds_now() + 30);
    assert_int_equal(job_end(&job[1]), 1);
    assert_contains(job[1].text, "does not know TRAINC_JOB_SECRET");
    wire_close(&wire);
    close(file);
}

/* ---- losses ---- */

static void await_all(Process *job, int n, int stage) {
    for (int i = 0; i < n; i++) job_await(&job[i], stage);
}

JOB_TEST(a_rank_that_is_killed_is_named_on_all_others) {
    for (int victim = 0; victim < 4; victim += 3) {
        Process *job = job_new(4), *others = victim ? job : job + 1;
        job_start_all(job, 4, report_loss);
        await_all(job, 4, 1);
        kill(job[victim].process, SIGKILL);
        assert_int_equal(job_end(&job[victim]), 128 + SIGKILL);
        job_end_all(others, 3, 0, kept_format("rank %d (host ", victim));
        assert_contains(others->text, kept_format(", process %d) has ended without a word", job[victim].process));
    }
}

JOB_TEST(a_rank_that_is_stopped_is_named_and_hears_of_it_later) {
    Process *jobs[2];
    for (int victim = 0; victim < 2; victim++) {
        Process *job = jobs[victim] = job_new(3);
        for (int i = 0; i < 3; i++) job[i].limits.silence = 2;
        job_start_all(job, 3, report_loss);
    }
    for (int victim = 0; victim < 2; victim++) {
        await_all(jobs[victim], 3, 1);
        kill(jobs[victim][victim].process, SIGSTOP);
    }
    for (int victim = 0; victim < 2; victim++) {
        Process *job = jobs[victim];
        for (int i = 0; i < 3; i++)
            if (i != victim) job_await(&job[i], 2);
        assert_int_equal(job[victim].stage, 1);
        kill(job[victim].process, SIGCONT);
        job_end_all(job, 3, 0, kept_format("rank %d (host ", victim));
        assert_contains(job[victim].text, kept_format("process %d) has not answered for 2 s", job[victim].process));
    }
}

static void report_none_lost(Process *process, Meeting *meeting) {
    process->stage = 1;
    for (double until = seconds_now() + 5; seconds_now() < until;) {
        if (process->launch.rank) continue; /* computes without a call */
        usleep(2000);
        if (meeting_lost(meeting)) break;
    }
    if (meeting_lost(meeting)) strcpy(process->text, meeting_lost(meeting));
    meeting_close(meeting);
}

JOB_TEST(a_rank_that_computes_without_a_call_is_not_lost) {
    Process *job = job_new(2);
    for (int i = 0; i < 2; i++) job[i].limits.silence = 3;
    job_start_all(job, 2, report_none_lost);
    job_end_all(job, 2, 0, NULL);
}

JOB_TEST(ranks_that_are_stopped_together_are_not_lost) {
    Process *job = job_new(2);
    for (int i = 0; i < 2; i++) job[i].limits.silence = 3;
    job_start_all(job, 2, report_none_lost);
    await_all(job, 2, 1);
    for (int i = 0; i < 2; i++) kill(job[i].process, SIGSTOP);
    sleep(4);
    for (int i = 0; i < 2; i++) kill(job[i].process, SIGCONT);
    job_end_all(job, 2, 0, NULL);
}

static void say_last_words(Process *process, Meeting *meeting) {
    if (process->launch.rank == process->work) {
        meeting_last_words(meeting, "the disk is full");
        _exit(1);
    }
    report_loss(process, meeting);
}

JOB_TEST(last_words_arrive) {
    for (int speaker = 0; speaker < 3; speaker += 2) {
        Process *job = job_new(3);
        for (int i = 0; i < 3; i++) job[i].work = speaker;
        job_start_all(job, 3, say_last_words);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(job_end(&job[i]), i == speaker);
            if (i == speaker) continue;
            assert_contains(job[i].text, kept_format("rank %d (host ", speaker));
            assert_contains(job[i].text, "has ended: the disk is full");
            assert_string_equal(job[i].text, job[1].text);
        }
    }
}

static void compare_while_one_dies(Process *process, Meeting *meeting) {
    Error error = {""};
    if (process->launch.rank == 1) _exit(0);
    bool same = meeting_compare(meeting, "seed\t1\n", &error) && meeting_compare(meeting, "seed\t1\n", &error);
    strcpy(process->text, error.text);
    meeting_close(meeting);
    _exit(same);
}

JOB_TEST(a_comparison_does_not_wait_for_the_dead) {
    Process *job = job_new(3);
    job_start_all(job, 3, compare_while_one_dies);
    for (int i = 0; i < 3; i++) assert_int_equal(job_end(&job[i]), 0);
    assert_contains(job[0].text, "rank 1 (host ");
    assert_contains(job[0].text, "has ended without a word");
    assert_string_equal(job[2].text, job[0].text);
}

/* Rank 2 says goodbye and is killed while it waits for the others. */
static void leave_one_after_another(Process *process, Meeting *meeting) {
    process->stage = 1;
    for (double until = seconds_now() + 3; process->launch.rank != 2 && seconds_now() < until; usleep(2000))
        if (meeting_lost(meeting)) strcpy(process->text, meeting_lost(meeting));
    meeting_close(meeting);
}

JOB_TEST(a_rank_that_said_goodbye_is_no_loss) {
    Process *job = job_new(3);
    job_start_all(job, 3, leave_one_after_another);
    await_all(job, 3, 1);
    usleep(1000000);
    kill(job[2].process, SIGKILL);
    assert_int_equal(job_end(&job[2]), 128 + SIGKILL);
    job_end_all(job, 2, 0, NULL);
}

static void compare_with_one_that_left(Process *process, Meeting *meeting) {
    Error error = {""};
    if (process->launch.rank == 1) {
        meeting_close(meeting);
        _exit(0);
    }
    if (!meeting_compare(meeting, "", &error)) strcpy(process->text, error.text);
    meeting_close(meeting);
}

JOB_TEST(a_comparison_does_not_wait_for_those_that_left) {
    Process *job = job_new(3);
    job_start_all(job, 3, compare_with_one_that_left);
    for (int i = 0; i < 3; i++) assert_int_equal(job_end(&job[i]), 0);
    assert_contains(job[0].text, "has left the others, which work on");
    assert_string_equal(job[2].text, job[0].text);
}

/* ---- cost ---- */

static void sleep_and_count(Process *process, Meeting *meeting) {
    struct rusage used;
    usleep(2000000);
    getrusage(RUSAGE_SELF, &used);
    process->work = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                    1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    meeting_close(meeting);
}

JOB_TEST(a_meeting_that_waits_does_not_compute) {
    Process *job = job_new(3);
    job_start_all(job, 3, sleep_and_count);
    job_end_all(job, 3, 0, NULL);
    for (int i = 0; i < 3; i++)
        if (job[i].work > 1) fail_msg("rank %d has computed for %g of 2 s", i, job[i].work);
}
