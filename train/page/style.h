/* The style sheet of report.html. */
#ifndef TRAIN_PAGE_STYLE_H
#define TRAIN_PAGE_STYLE_H

extern const char PAGE_STYLE[];

#endif
