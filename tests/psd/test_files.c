/* Files whose names a user gives: what is not a regular file is neither read nor replaced, and a full disk leaves the
 * old file whole. */
#include "data/psd/manifest.h"
#include "data/psd/splits.h"
#include "tests/file_rig.h"

static bool read_manifest(const char *path, Error *error) {
    PsdManifest manifest;
    return psd_manifest_read(path, &manifest, error);
}

static bool read_split(const char *path, Error *error) {
    PsdPartition partition;
    return psd_partition_read(path, NULL, 0, 1, &partition, error);
}

static bool write_manifest(const char *path, Error *error) {
    PsdManifest m = psd_manifest_new(0, 0, 0);
    bool ok = psd_manifest_write(path, &m, error);
    psd_manifest_close(&m);
    return ok;
}

static bool write_split(const char *path, Error *error) {
    int64_t row = 1;
    PsdPartition split = {.splits = {{&row, 1}}};
    return psd_partition_write(path, &split, error);
}

int main(void) {
    static const FileReaderCase readers[] = {{"manifest", read_manifest}, {"split", read_split}};
    static const FileWriterCase writers[] = {{"manifest", write_manifest, false, false},
                                             {"split", write_split, false, false}};
    return FILE_TESTS_RUN(readers, writers);
}
