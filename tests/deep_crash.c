/* Every crash point of every program that writes files. */
#include "tests/crash/crash.h"

int main(void) { return crash_tests(1); }
