/* Lists the libraries that the program is linked with. */
#ifndef COMMANDS_LIBRARIES_H
#define COMMANDS_LIBRARIES_H

/* Prints a line for each library that is loaded: its name, version and licence. */
void libraries_print(void);

#endif
