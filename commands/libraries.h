/* Lists the libraries that the program is linked with. */
#ifndef COMMANDS_LIBRARIES_H
#define COMMANDS_LIBRARIES_H

/* Prints a line for each library that is loaded: its name, version and licence. */
void libraries_print(void);
/* Prints the texts of the licences of a release or, of another build, where they are. */
void licenses_print(void);

#endif
