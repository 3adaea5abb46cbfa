/* The style sheet of report.html. */
#pragma once

/* Two texts, one behind the other: the standard promises 4095 characters for one. */
extern const char PAGE_STYLE[], PAGE_STYLE_FIGURES[];
