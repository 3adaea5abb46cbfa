/* Calls of each operation at the widths of the trainings that need it, with so few rows that its kernels can be
 * executed as PTX: changes to the rows of tests/kernels/op_cases.c. */
#include "tests/profile/profile.h"

#define BLOCK "frames=32 plane=441 n=28224 c=32 slope=0.01 " /* of two cells */
#define SAME  "b.mean:@a.mean b.rstd:@a.rstd b.gain:@a.gain b.bias:@a.bias "
#define CONV  "n=28224 t=32 h=21 w=21 c=32 bias:none dbias:none "

const ProfileCall profile_calls[] = {
    {"cast", "n=1048576", "", EVERY_TYPE},
    {"embedding_forward embedding_backward", "n=1024 c=1024 v=4096 places=512 random=1", "", EVERY_TYPE},
    {"place_rows gather_rows scatter_rows", "n=512 c=1024 v=512 skip=2 random=1", "", EVERY_TYPE},
    {"mean_rows_forward mean_rows_backward", "n=1024 c=1024 length=64", "", EVERY_TYPE},
    {"dropout residual_forward", "n=1024 c=1024 p=0.1", "", EVERY_TYPE},
    {"gelu_forward gelu_backward", "n=1024 c=1024 kind=0", "tanh", EVERY_TYPE},
    {"gelu_forward gelu_backward", "n=1024 c=1024 kind=1", "erf", EVERY_TYPE},
    {"tanh_forward tanh_backward leaky_relu_forward leaky_relu_backward", "n=1024 c=1024", "", EVERY_TYPE},
    {"silu_forward", "n=512 c=4096", "", EVERY_TYPE},
    {"gate_forward", "n=1024 c=1024 kind=0", "sigmoid", EVERY_TYPE},
    {"gate_forward", "n=1024 c=1024 kind=1", "erf", EVERY_TYPE},
    {"layernorm_forward residual_layernorm_forward layernorm_backward", "n=1024 c=1024 p=0.1", "", EVERY_TYPE},
    /* Products of the shape of a feed-forward layer. */
    {"linear_forward linear_backward", "n=1024 c=1024 v=1024 layout=0", "weight [in, out]", EVERY_TYPE},
    {"linear_forward", "n=1024 c=1024 v=1024 layout=1", "weight [out, in]", EVERY_TYPE},
    {"linear_gelu_forward gelu_linear_backward", "n=1024 c=1024 v=1024 layout=0 p=0.1", "tanh, dropout", EVERY_TYPE},
    {"attention_forward attention_backward", "n=512 each=256 heads=8 c=512", "256 rows, causal", EVERY_TYPE},
    {"attention_forward attention_backward", "n=512 each=256 heads=8 c=512 p=0.1", "256 rows, causal, dropout",
     ONLY_16_BITS},
    /* The 13 tokens of a spectrum, the 128 of a comment. */
    {"attention_forward attention_backward", "n=3328 each=13 heads=8 c=512 causal=0 p=0.1", "13 rows, dropout",
     EVERY_TYPE},
    {"attention_forward attention_backward", "n=256 each=128 heads=12 c=768 causal=0 p=0.1", "128 rows, dropout",
     ONLY_16_BITS},
    /* Conformers: distances as w2v-BERT's, terms of keys as IndexTTS2's. */
    {"attention_terms_forward", "n=512 each=256 heads=16 c=1024 left=64 right=8 key_terms:none", "256 rows, distances",
     EVERY_TYPE},
    {"attention_terms_forward", "n=512 each=256 heads=4 c=512 hidden=1 distances:none", "256 rows, terms of keys",
     EVERY_TYPE},
    {"cache_rows", "n=1024 c=1024 capacity=2", "", EVERY_TYPE},
    {"attention_cached_forward", "n=16 c=1024 heads=16 capacity=256 longest=256", "", EVERY_TYPE},
    {"unfold_forward unfold_backward", "n=2048 c=256 length=256 k=3 stride=2 pad=1", "", EVERY_TYPE},
    {"depthwise_forward", "n=1000 each=250 c=1024 k=31 before=30", "31 taps", EVERY_TYPE},
    {"depthwise_forward", "n=1000 each=250 c=384 k=7 before=3", "7 taps", EVERY_TYPE},
    /* The second convolution of the first block, and the first and the shortcut of the next. */
    {"conv3d_forward conv3d_backward", CONV "o=32 taps=3 pad=1", "32 to 32, 3x3x3", EVERY_TYPE},
    {"conv3d_forward conv3d_backward", CONV "o=64 taps=3 pad=1 stride=2", "32 to 64, 3x3x3, stride 2", ONLY_16_BITS},
    {"conv3d_forward conv3d_backward", CONV "o=64 stride=2", "32 to 64, 1x1x1, stride 2", EVERY_TYPE},
    {"stem_statistics stem_forward stem_backward", "n=56448 frames=64 plane=441 stem=32 out=32 slope=0.01", "",
     EVERY_TYPE},
    {"max_pool_forward max_pool_backward batchnorm_forward batchnorm_statistics batchnorm_from_running batchnorm_apply "
     "batchnorm_backward",
     BLOCK, "", EVERY_TYPE},
    /* The end of a block: the sum with the shortcut's norm, leaky ReLU, pool and dropout. */
    {"norm_activate_forward norm_activate_backward", BLOCK SAME "p=0.2", "sum of two, pool", EVERY_TYPE},
    {"norm_activate_forward norm_activate_backward", BLOCK "p=0.2 pool=0 b:none db:none", "of one", EVERY_TYPE},
    {"augment_volumes", "n=2 bins=128 high=21 wide=21 bits=16 augment=1", "", EVERY_TYPE},
    {"mixup", "n=112896 c=2 partners=2", "", EVERY_TYPE},
    {"cross_entropy_forward cross_entropy_forward_backward", "n=256 v=8192 random=1 weights:none", "", EVERY_TYPE},
    {"cast", "n=3072 back=1", "", EVERY_TYPE},
    {"soft_cross_entropy_forward soft_cross_entropy_forward_backward", "n=512 v=6 random=1", "", EVERY_TYPE},
    {"binary_cross_entropy_forward binary_cross_entropy_forward_backward", "n=512 labels:@targets", "", EVERY_TYPE},
    {"squared_error_forward squared_error_forward_backward", "n=1024 c=16", "", EVERY_TYPE},
    {"normalize_rows_forward normalize_rows_backward", "n=256 c=128 dy:@y", "", EVERY_TYPE},
    {"nt_xent_forward nt_xent_backward", "n=512 c=128", "", ONLY_F32},
    {"nearest_direction", "n=1024 c=8 v=8192", "", ONLY_F32},
    {"adamw_update muon_update", "flat=1048576 whole=1 offset=0 pitch=512 tall=512 columns=512", "", EVERY_TYPE},
    {"sum_forward", "n=1048576", "", ONLY_F32},
    {"sum_squares finish_norm loss_scale_update copy_segments clear_segments", "flat=1048576 whole=1 n=256", "",
     ONLY_F32},
    {"norm_guard", "flat=4 overflow=1", "", ONLY_F32},
};
const int n_profile_calls = sizeof profile_calls / sizeof *profile_calls;
