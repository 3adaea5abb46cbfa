/* Writes recordings of babble for the test of a release, and their list: sounds DIRECTORY. Formats take turns, so that
 * each of libsndfile's decoders is needed. */
#include "tests/sounds.h"
#include "base/file.h"

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int format;
    } kinds[] = {{"wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},
                 {"flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
                 {"ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
                 {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
                 {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}};
    enum { KINDS = sizeof kinds / sizeof *kinds, RECORDINGS = 6 * KINDS, RATE = 24000, FRAMES = 3 * RATE / 2 };
    if (argc != 2) die("usage: %s DIRECTORY", argv[0]);
    char *list_path = path_join(argv[1], "list.tsv");
    make_directories(argv[1]);
    FILE *list = fopen(list_path, "w");
    if (!list) die("cannot write %s", list_path);
    for (int i = 0; i < RECORDINGS; i++) {
        const char *kind = kinds[i % KINDS].name;
        char *path = xformat("%s/%02d.%s", argv[1], i, kind);
        float *samples = make_babble((uint64_t)i, RATE, FRAMES);
        write_sound(path, kinds[i % KINDS].format, RATE, 1, samples, FRAMES);
        fprintf(list, "%s_%02d\tspeaker%d\t%02d.%s\t%s\n", kind, i, i % 2, i, kind,
                i % 3 ? "ዛሬ ጥሩ ቀን ነው" : "ትምህርት ቤት ጥሩ ነው");
        free(samples);
        free(path);
    }
    if (fclose(list)) die("cannot write %s", list_path);
    free(list_path);
    return 0;
}
