#include "commands/gpt/layout.h"

#include "data/tts/speech_coder.h"

TtsLayout gpt_layout(const TtsGptConfig *c) {
    return (TtsLayout){.d_model = c->d_model,
                       .n_conditioning = CONDITIONING_ROWS,
                       .max_text = c->max_text_tokens,
                       .max_codes = c->max_mel_tokens + 1,
                       .text_vocabulary = c->text_vocabulary,
                       .audio_vocabulary = c->mel_codes - GPT_SPECIAL_CODES,
                       .start_text = TTS_START_TEXT,
                       .stop_text = TTS_STOP_TEXT,
                       .start_mel = c->mel_codes - 2,
                       .stop_mel = c->mel_codes - 1};
}
