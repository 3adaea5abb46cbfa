/* A tenth of the crash points; tests/deep_crash.c has all. */
#include "tests/crash/crash.h"

int main(void) { return crash_tests(10); }
