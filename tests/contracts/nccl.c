/* The assumptions of nccl_functions.h about NCCL, against its real header and its real library, which is loaded and
 * called; it makes no communicator without a GPU. */
#include <nccl.h>

#include "tests/contracts/contract.h"
#include "tests/test.h"

#include "kernels/cuda/libraries/nccl_functions.h"

/* ---- the header ---- */

#if NCCL_MINOR == 16 /* has it in C++ only, after the last type that C has, too */
#define ncclBfloat16 ncclNumTypes
#endif
SAME_VALUE(COLL_SUCCESS, ncclSuccess);
SAME_VALUE(COLL_CUDA_ERROR, ncclUnhandledCudaError);
SAME_VALUE(COLL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME_VALUE(COLL_REMOTE_ERROR, ncclRemoteError);
SAME_VALUE(COLL_IN_PROGRESS, ncclInProgress);
SAME_VALUE(COLL_I32, ncclInt32);
SAME_VALUE(COLL_F16, ncclFloat16);
SAME_VALUE(COLL_F32, ncclFloat32);
SAME_VALUE(COLL_BF16, ncclBfloat16);
SAME_VALUE(COLL_SUM, ncclSum);
SAME_VALUE(COLL_MAX, ncclMax);
SAME_VALUE(COLL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);

_Static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && _Alignof(NcclId) == _Alignof(ncclUniqueId),
               "it is passed by value");
SAME_PLACE(NcclId, bytes, ncclUniqueId, internal);

SAME_PLACE(NcclConfig, size, ncclConfig_t, size);
SAME_PLACE(NcclConfig, magic, ncclConfig_t, magic);
SAME_PLACE(NcclConfig, version, ncclConfig_t, version);
SAME_PLACE(NcclConfig, blocking, ncclConfig_t, blocking);
_Static_assert(NCCL_VERSION_CODE >= COLL_CONFIG_VERSION, "COLL_CONFIG_VERSION"); /* a library refuses a newer one */

TEST(settings_begin_as_those_of_the_header) {
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    assert_int_equal(theirs.magic, COLL_CONFIG_MAGIC);
    assert_int_equal(theirs.size, sizeof theirs);
}

#define NcclId     ncclUniqueId
#define NcclConfig ncclConfig_t
FOR_EACH_NCCL_FUNCTION(SAME_PROTOTYPE)
#undef NcclId
#undef NcclConfig

/* ---- the library ---- */

static NcclFunctions call;

static int load_functions(void **state) {
    void *library = load_real("libnccl.so.2");
    (void)state;
#define LOAD(result, name, arguments)                                                                                  \
    *(void **)&call.name = dlsym(library, #name);                                                                      \
    assert_non_null(call.name);
    FOR_EACH_NCCL_FUNCTION(LOAD)
#undef LOAD
    return 0;
}

TEST(the_library_is_that_of_the_header) {
    int version = 0;
    assert_int_equal(call.ncclGetVersion(&version), COLL_SUCCESS);
    assert_int_equal(version, NCCL_VERSION_CODE);
    assert_int_equal(version / 10000, 2);
}

TEST(statuses_have_their_texts) {
    assert_string_equal(call.ncclGetErrorString(COLL_SUCCESS), "no error");
    assert_contains(call.ncclGetErrorString(COLL_CUDA_ERROR), "cuda error");
    assert_contains(call.ncclGetErrorString(COLL_INVALID_ARGUMENT), "invalid argument");
    assert_contains(call.ncclGetErrorString(COLL_REMOTE_ERROR), "remote process exited");
    assert_contains(call.ncclGetErrorString(COLL_IN_PROGRESS), "in progress");
}

/* In a group too, which ends all the same. */
TEST(calls_without_a_communicator_are_refused) {
    float x = 1, y = 2;
    unsigned status = COLL_SUCCESS;
    for (int grouped = 0; grouped < 2; grouped++) {
        if (grouped) assert_int_equal(call.ncclGroupStart(), COLL_SUCCESS);
        assert_int_equal(call.ncclBroadcast(&x, &y, 1, COLL_F32, 0, NULL, NULL), COLL_INVALID_ARGUMENT);
        assert_int_equal(call.ncclAllReduce(&x, &y, 1, COLL_F32, COLL_SUM, NULL, NULL), COLL_INVALID_ARGUMENT);
        assert_int_equal(call.ncclReduceScatter(&x, &y, 1, COLL_F32, COLL_SUM, NULL, NULL), COLL_INVALID_ARGUMENT);
        assert_int_equal(call.ncclAllGather(&x, &y, 1, COLL_F32, NULL, NULL), COLL_INVALID_ARGUMENT);
        if (grouped) (void)call.ncclGroupEnd();
    }
    assert_int_equal(call.ncclCommGetAsyncError(NULL, &status), COLL_INVALID_ARGUMENT);
    assert_true(y == 2);
}

int main(void) { return tests_run(load_functions, NULL); }
