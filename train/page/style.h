/* The style sheet of report.html. */
#ifndef TRAIN_PAGE_STYLE_H
#define TRAIN_PAGE_STYLE_H

/* Two texts, one behind the other: the standard promises 4095 characters for one. */
extern const char PAGE_STYLE[], PAGE_STYLE_FIGURES[];

#endif
