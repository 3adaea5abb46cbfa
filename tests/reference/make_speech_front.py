"""Makes golden values of the audio front of IndexTTS2 for tests/gpt/test_indextts2_front.c: NumPy, float64.

    python make_speech_front.py          writes golden/speech_front.safetensors (float32; tables float64)

The steps were compared with the published ones: resample with torchaudio.functional.resample (2e-16 in float64), fbank
and its normalisation with SeamlessM4TFeatureExtractor of transformers (1e-6, which works in float32).

 - clip "a"   24 kHz, resampled to 16 kHz; 65 frames, so that half of the last row is padding
 - clip "b"   16 kHz, taken as it is; 46 frames
 - clip "c"   44.1 kHz, resampled to 24 kHz and to 16 kHz; 18 frames, not normalised
"""
import math
import pathlib

import numpy
from safetensors.numpy import save_file

BANDS, FLOOR = 80, 1.192092955078125e-07


def resample(x, old, new):
    common = math.gcd(old, new)
    old, new = old // common, new // common
    base = 0.99 * min(old, new)
    width = math.ceil(6 * old / base)
    taps = numpy.arange(-width, width + old)
    t = numpy.clip(base * (taps / old - numpy.arange(new)[:, None] / new), -6, 6)
    filters = base / old * numpy.cos(numpy.pi * t / 12) ** 2 * numpy.sinc(t)
    padded = numpy.concatenate([numpy.zeros(width), x, numpy.zeros(width + old)])
    blocks = numpy.lib.stride_tricks.sliding_window_view(padded, len(taps))[::old]
    return (blocks @ filters.T).reshape(-1)[:math.ceil(new * len(x) / old)]


def mel(hertz):
    return 1127 * numpy.log1p(hertz / 700)


def mel_filters():
    edges = numpy.linspace(mel(20.0), mel(8000.0), BANDS + 2)
    bins = mel(numpy.arange(257) * 31.25)[:, None]
    up = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return numpy.maximum(0, numpy.minimum(up, down))


def window():
    return (0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(400) / 399)) ** 0.85


def fbank(x):
    frames = numpy.lib.stride_tricks.sliding_window_view(x * 32768.0, 400)[::160]
    frames = frames - frames.mean(1, keepdims=True)
    frames = numpy.concatenate([0.03 * frames[:, :1], frames[:, 1:] - 0.97 * frames[:, :-1]], 1)
    power = numpy.abs(numpy.fft.rfft(frames * window(), 512)) ** 2
    return numpy.log(numpy.maximum(power @ mel_filters(), FLOOR))


def rows(frames):
    x = (frames - frames.mean(0)) / numpy.sqrt(frames.var(0, ddof=1) + 1e-7)
    return numpy.concatenate([x, numpy.ones((len(x) % 2, BANDS))]).reshape(-1, 2 * BANDS)


def sound(rate, samples, seed):
    """Returns a glide with noise, and 50 ms of zeros in it, as a 16-bit file gives them."""
    t = numpy.arange(samples) / rate
    noise = numpy.random.default_rng(seed).standard_normal(samples)
    x = 0.4 * numpy.sin(2 * numpy.pi * (180 * t + 900 * t * t)) + 0.1 * noise
    x[samples // 3:samples // 3 + rate // 20] = 0
    return numpy.round(numpy.clip(x, -1, 1 - 2.0 ** -15) * 32768) / 32768


def main():
    a, b, c = sound(24000, 16080, 5), sound(16000, 7600, 6), sound(44100, 8821, 7)
    a_16k, c_24k = resample(a, 24000, 16000), resample(c, 44100, 24000)
    c_16k = resample(c_24k, 24000, 16000)
    golden = {"a_24k": a, "a_16k": a_16k, "a_fbank": fbank(a_16k), "a_rows": rows(fbank(a_16k)), "b_16k": b,
              "b_fbank": fbank(b), "b_rows": rows(fbank(b)), "c_44k": c, "c_24k": c_24k, "c_16k": c_16k,
              "c_fbank": fbank(c_16k)}
    golden = {name: numpy.ascontiguousarray(value, numpy.float32) for name, value in golden.items()}
    golden |= {"window": window(), "mel_filters": mel_filters()}
    save_file(golden, pathlib.Path(__file__).parent / "golden" / "speech_front.safetensors")


main()
