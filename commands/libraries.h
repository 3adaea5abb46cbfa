/* Lists the libraries that the program is linked with. */
#pragma once

/* Prints a line for each library that is loaded: its name, version and licence. */
void libraries_print(void);
/* Prints the texts of the licences of a release or, of another build, where they are. */
void licenses_print(void);
