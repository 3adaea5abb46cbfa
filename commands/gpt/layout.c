#include "commands/gpt/layout.h"

#include "data/gpt/speech_coder.h"

GptLayout gpt_layout(const GptConfig *c) {
    return (GptLayout){.d_model = c->d_model,
                       .n_conditioning = CONDITIONING_ROWS,
                       .max_text = c->max_text_tokens,
                       .max_codes = c->max_mel_tokens + 1,
                       .text_vocabulary = c->text_vocabulary,
                       .audio_vocabulary = c->mel_codes - GPT_SPECIAL_CODES,
                       .start_text = GPT_START_TEXT,
                       .stop_text = GPT_STOP_TEXT,
                       .start_mel = c->mel_codes - 2,
                       .stop_mel = c->mel_codes - 1};
}
