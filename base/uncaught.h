/* Uncaught exceptions of C++ libraries. */
#pragma once

/* Makes an uncaught C++ exception (a library is out of memory) end the program as die() does. program_start calls it.
 */
void uncaught_install(void);
