/* Checks of report.html. */
#pragma once

#include "tests/test.h"

/* Fails unless a page is well-formed, has at most PAGE_LIMIT bytes, no script, and nothing from outside itself. */
void assert_page_is_sound(const char *page);
/* Reads DIRECTORY/report.html, which must be sound. */
char *read_page(const char *directory);
/* Fails unless the page contains each of the texts, of which the last is NULL. */
void assert_page_has(const char *page, const char *const *texts);
