/* The command train_bert export. */
#ifndef COMMANDS_BERT_EXPORT_H
#define COMMANDS_BERT_EXPORT_H

/* Writes a trained model for other programs. Returns the exit status. */
int bert_export(int argc, char **argv);

#endif
