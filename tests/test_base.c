/* What everything is made of. */
#include "tests/helpers.h"

/* The vectors that FNV's authors publish. */
static void hashes_are_fnv1a(void **state) {
    (void)state;
    assert_true(hash_bytes(HASH_START, "", 0) == 0xcbf29ce484222325u);
    assert_true(hash_bytes(HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(hash_bytes(HASH_START, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_are_fnv1a)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
