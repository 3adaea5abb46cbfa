/* Any bytes as the name of a cell's file: the parts lie within the name. */
#include <stdlib.h>
#include <string.h>

#include "data/cv/cells.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *name = malloc(size + 1);
    if (size) memcpy(name, data, size);
    name[size] = 0;
    CvCellName parsed = cv_cells_parse_name(name);
    if (parsed.prefix < 0 || parsed.field < 0 || (size_t)parsed.prefix + (size_t)parsed.field > strlen(name)) abort();
    free(name);
    return 0;
}
