/* The build passes the revision to this file only, so that a new revision compiles nothing else again. */
#include "base/version.h"

const char version_number[] = "0.2.0";
const char version_revision[] = GIT_REVISION;
