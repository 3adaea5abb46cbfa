/* The Amharic TTS GPT (IndexTTS2's UnifiedVoice, its trained part): specs of the parameters in model/gpt.c. */
#ifndef MODEL_GPT_H
#define MODEL_GPT_H

#include "model/model.h"

typedef struct {
    int d_model, n_layers, n_heads; /* 1280, 24, 20; the MLP is 4 d_model wide */
    int text_vocabulary;            /* V tokenizer pieces; tables have V + 1 rows */
    int mel_codes;                  /* 8194: 8192 codes, start, stop */
    int max_text_tokens;            /* 600: text positions are max_text_tokens + 2 */
    int max_mel_tokens;             /* 1815: mel positions are max_mel_tokens + 3 */
    float dropout;                  /* 0.1, in four places */
    float text_weight, mel_weight;  /* of the two losses: 0.2, 0.8 */
} TtsGptConfig;

/* Checks the configuration (dies naming the field) and builds the parameter table. Metrics, in this order: text_loss,
 * mel_loss, mel_top1, text_top1. */
Model *tts_gpt_open(const TtsGptConfig *config);

#endif
