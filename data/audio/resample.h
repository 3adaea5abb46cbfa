/* Resamples sound as torchaudio.functional.resample does by default, so that networks that were trained on such sound
 * get the same: a windowed sinc of six zero crossings on either side, cut off at 0.99 of the lower of the two Nyquist
 * frequencies. (audio_read resamples with the longer filter of libsamplerate.) */
#pragma once

#include "base/base.h"

typedef struct Resampler Resampler;

enum { RESAMPLER_MAX_RATE = 1000000 };

/* Makes the filters that turn `from` Hz into `to` Hz, 1 to RESAMPLER_MAX_RATE; resampler_close. */
Resampler *resampler_open(int from, int to);
void resampler_close(Resampler *resampler);
/* Returns how many samples become of n: ceil(n * to / from). */
int64_t resampler_length(const Resampler *resampler, int64_t n);
/* Computes out[resampler_length(n)] of samples[n], with zeros before and behind them; between equal rates a
 * copy. Safe from several threads. */
void resampler_run(const Resampler *resampler, const float *samples, int64_t n, float *out);
