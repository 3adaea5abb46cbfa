/* The commands of train_gpt other than training. Each runs with argv[0] "train_gpt COMMAND" and returns the exit
 * status. */
#pragma once

/* Makes sound of audio codes. */
int gpt_decode(int argc, char **argv);
/* Writes a checkpoint as a folder that IndexTTS2's inference reads. */
int gpt_export(int argc, char **argv);
/* Makes all that train_gpt reads of recordings and their texts. */
int gpt_prepare(int argc, char **argv);
/* Makes sound of a text. */
int gpt_speak(int argc, char **argv);
