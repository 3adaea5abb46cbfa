/* Files whose names a user gives: what is not a regular file is neither read nor replaced, and a full disk leaves the
 * old file whole. */
#include "data/gpt/recordings_read.h"
#include "data/gpt/speech_coder.h"
#include "tests/file_rig.h"

static bool read_recordings(const char *path, Error *error) {
    Recordings recordings;
    return recordings_read(&(RecordingsSource){.path = path, .format = RECORDINGS_LIST}, &recordings, error);
}

static bool write_codebook(const char *path, Error *error) {
    float *entries = xcalloc(2 * MEL_BANDS, sizeof *entries);
    SpeechCoder coder = {.codebook = codebook_of(entries, 2, MEL_BANDS)};
    bool ok = speech_coder_write(path, &coder, error);
    speech_coder_close(&coder);
    return ok;
}

int main(void) {
    static const FileReaderCase readers[] = {{"recordings", read_recordings}};
    static const FileWriterCase writers[] = {{"codebook", write_codebook, false, false}};
    return FILE_TESTS_RUN(readers, writers);
}
