/* The memory that code allocates, in tests that it does not. */
#pragma once

#include <stdint.h>

/* Returns how often the program's own code has allocated memory, in all threads; 0 under the sanitizer. */
int64_t allocation_count(void);
