/* The Amharic TTS GPT: the trained part of IndexTTS2, UnifiedVoice. */
#pragma once

#include "model/generate.h"

typedef struct {
    int d_model, n_layers, n_heads; /* 1280, 24, 20; the MLP is 4 d_model wide */
    int text_vocabulary;            /* V tokenizer pieces; tables have V + 1 rows */
    int mel_codes;                  /* 8194: 8192 codes, start, stop */
    int max_text_tokens;            /* 600: text positions are max_text_tokens + 2 */
    int max_mel_tokens;             /* 1815: mel positions are max_mel_tokens + 3 */
    float dropout;                  /* 0.1, in four places */
    float text_weight, mel_weight;  /* of the two losses: 0.2, 0.8 */
} GptConfig;

/* Text ids that mark the ends of a text. Of the audio codes the last but one is start, the last one is stop. */
enum { GPT_START_TEXT = 0, GPT_STOP_TEXT = 1 };

/* The model's metrics, in their order. */
enum { GPT_TEXT_LOSS, GPT_MEL_LOSS, GPT_MEL_TOP1, GPT_TEXT_TOP1, GPT_METRICS };

/* Builds the model and its parameter table. Ends the program if the configuration is wrong, naming the field. */
Model *gpt_open(const GptConfig *config);

/* The tables of a prompt, whose parts are vectors (conditioning with the emotion added), GPT_SPEED {1, 0}, GPT_TEXT
 * (start, text, stop) and GPT_MEL (start, perhaps codes). */
enum { GPT_SPEED, GPT_TEXT, GPT_MEL };
/* Returns what generation knows of the model; `conditioning` is the number of vectors of a prompt. A sequence has at
 * most max_mel_tokens + 1 codes as input, as in training. */
GenerationModel gpt_generation(Model *model, int conditioning);
