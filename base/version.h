/* The version and revision of this build of train.c. */
#pragma once

extern const char version_number[];   /* "0.2.0" */
extern const char version_revision[]; /* of the sources in git, 12 digits; "unknown" */
