/* The commands of train_cv other than training. Each returns the exit status. */
#pragma once

/* train_cv doctor: reports the problems of a folder of cells. */
int cv_doctor(int argc, char **argv);
/* train_cv synthesize: writes a folder of synthetic cells. */
int cv_synthesize(int argc, char **argv);
/* train_cv predict: writes what trained networks say of cells. */
int cv_predict(int argc, char **argv);
