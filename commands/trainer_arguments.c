#include "commands/trainer_arguments.h"

#define UNNEEDED(name)                                                                                                 \
    {                                                                                                                  \
        NULL, name, NULL, { NULL }                                                                                     \
    }
#define IF_TRUE  "true", "true", "false", ""
#define ADAMW    "AdamW is what there is"
#define ONE_SEED "--seed is that of everything random"
#define ONE_CARD "one GPU computes, which needs none of this"

/* The names are those of transformers 4.57, and older ones of the same fields. */
// clang-format off
static const OptionAlias arguments[] = {
    /* options */
    {NULL, "num_train_epochs", "epochs", {NULL}},
    {NULL, "per_device_train_batch_size", "batch-size", {NULL}},
    {NULL, "per_gpu_train_batch_size", "batch-size", {NULL}},
    {NULL, "per_device_eval_batch_size", "val-batch-size", {NULL}},
    {NULL, "per_gpu_eval_batch_size", "val-batch-size", {NULL}},
    {NULL, "gradient_accumulation_steps", "grad-accumulation", {NULL}},
    {NULL, "max_grad_norm", "grad-clip", {NULL}},
    {NULL, "lr_scheduler_type", "schedule",
     {"linear", "linear", "cosine", "cosine", "constant", "constant", "constant_with_warmup", "constant",
      "warmup_stable_decay", "wsd"}},
    {NULL, "label_smoothing_factor", "label-smoothing", {NULL}},
    {NULL, "label_smoothing_factor", NULL, {"0", "", NULL, "labels are not smoothed here"}},
    {NULL, "metric_for_best_model", "metric",
     {"f1", "f1", "eval_f1", "f1", "f1_inv", "f1", "macro_f1", "macro-f1", "eval_macro_f1", "macro-f1", "accuracy",
      "accuracy", "eval_accuracy", "accuracy", "loss", "loss", "eval_loss", "loss"}},
    {NULL, "metric_for_best_model", NULL, {"loss", "", "eval_loss", "", NULL, "the loss chooses the best weights"}},
    {NULL, "early_stopping_patience", "patience", {NULL}},
    {NULL, "mlm_probability", "mask-share", {NULL}},
    {NULL, "dataloader_num_workers", "num-workers", {NULL}},
    {NULL, "logging_steps", "log-interval", {NULL}},
    {NULL, "eval_steps", "val-interval", {NULL}},
    {NULL, "save_steps", "save-interval", {NULL}},
    {NULL, "save_total_limit", "keep-checkpoints", {NULL}},
    {NULL, "eval_strategy", "val-interval", {"epoch", "0", "steps", ""}},
    {NULL, "evaluation_strategy", "val-interval", {"epoch", "0", "steps", ""}},
    {NULL, "fp16", "amp", {IF_TRUE}},
    {NULL, "bf16", "amp", {IF_TRUE}},
    {NULL, "tf32", "no-tf32", {"true", "false", "false", "true"}},
    {NULL, "use_cpu", "device", {"true", "cpu", "false", ""}},
    {NULL, "no_cuda", "device", {"true", "cpu", "false", ""}},
    {NULL, "adam_beta1", "beta1", {NULL}},
    {NULL, "adam_beta2", "beta2", {NULL}},

    /* so in every run */
    {NULL, "adam_beta1", NULL, {"0.9", "", NULL, ADAMW " with this value"}},
    {NULL, "adam_beta2", NULL, {"0.999", "", NULL, ADAMW " with this value"}},
    {NULL, "adam_epsilon", NULL, {"1e-8", "", NULL, ADAMW " with this value"}},
    {NULL, "optim", NULL,
     {"adamw_torch", "", "adamw_torch_fused", "", "adamw_hf", "", "adamw_apex_fused", "", "adamw", "", NULL, ADAMW}},
    {NULL, "adafactor", NULL, {"false", "", NULL, ADAMW}},
    {NULL, "warmup_ratio", NULL, {"0", "", NULL, "give warmup_steps"}},
    {NULL, "do_train", NULL, {"true", "", NULL, "this is a training; the program has commands that are none"}},
    {NULL, "overwrite_output_dir", NULL, {"false", "", NULL, "--output-dir is a new folder, or goes on with --resume"}},
    {NULL, "ignore_data_skip", NULL, {"false", "", NULL, "--resume goes on with the data that come next"}},
    {NULL, "dataloader_drop_last", NULL, {"false", "", NULL, "the last samples of an epoch are trained on"}},
    {NULL, "auto_find_batch_size", NULL, {"false", "", NULL, "batch_size: auto finds it"}},
    {NULL, "eval_delay", NULL, {"0", "", NULL, "validation begins with the first step that is due"}},
    {NULL, "eval_on_start", NULL, {"false", "", NULL, "validation begins with the first step that is due"}},
    {NULL, "push_to_hub", NULL, {"false", "", NULL, "nothing is sent anywhere"}},
    {NULL, "use_mps_device", NULL, {"false", "", NULL, "an NVIDIA GPU or the CPU computes"}},
    UNNEEDED("load_best_model_at_end"), /* best and last are both kept, and named */
    UNNEEDED("greater_is_better"),
    UNNEEDED("full_determinism"),
    UNNEEDED("save_strategy"), /* at every new best validation, and as --save-interval has it */
    UNNEEDED("logging_strategy"),

    /* not here */
    {NULL, "data_seed", NULL, {"", "", NULL, ONE_SEED}},
    {NULL, "optim_args", NULL, {"", "", NULL, ADAMW}},
    {NULL, "optim_target_modules", NULL, {"", "", NULL, ADAMW}},
    {NULL, "lr_scheduler_kwargs", NULL, {"", "", NULL, "--help lists the options of the schedule"}},
    {NULL, "neftune_noise_alpha", NULL, {"", "", NULL, "embeddings are not made noisy here"}},
    {NULL, "deepspeed", NULL, {"", "", NULL, ONE_CARD}},
    {NULL, "fsdp", NULL, {"", "", NULL, ONE_CARD}},
    {NULL, "parallelism_config", NULL, {"", "", NULL, ONE_CARD}},

    /* what changes no result */
    UNNEEDED("accelerator_config"), UNNEEDED("average_tokens_across_devices"), UNNEEDED("batch_eval_metrics"),
    UNNEEDED("bf16_full_eval"), UNNEEDED("dataloader_persistent_workers"), UNNEEDED("dataloader_pin_memory"),
    UNNEEDED("dataloader_prefetch_factor"), UNNEEDED("ddp_backend"), UNNEEDED("ddp_broadcast_buffers"),
    UNNEEDED("ddp_bucket_cap_mb"), UNNEEDED("ddp_find_unused_parameters"), UNNEEDED("ddp_timeout"), UNNEEDED("debug"),
    UNNEEDED("disable_tqdm"), UNNEEDED("dispatch_batches"), UNNEEDED("do_eval"), UNNEEDED("do_predict"),
    UNNEEDED("eval_accumulation_steps"), UNNEEDED("eval_do_concat_batches"), UNNEEDED("eval_use_gather_object"),
    UNNEEDED("fp16_backend"), UNNEEDED("fp16_full_eval"), UNNEEDED("fp16_opt_level"), UNNEEDED("fsdp_config"),
    UNNEEDED("fsdp_min_num_params"), UNNEEDED("fsdp_transformer_layer_cls_to_wrap"),
    UNNEEDED("gradient_checkpointing_kwargs"), UNNEEDED("group_by_length"), UNNEEDED("half_precision_backend"),
    UNNEEDED("hub_always_push"), UNNEEDED("hub_model_id"), UNNEEDED("hub_private_repo"), UNNEEDED("hub_revision"),
    UNNEEDED("hub_strategy"), UNNEEDED("hub_token"), UNNEEDED("include_for_metrics"),
    UNNEEDED("include_inputs_for_metrics"), UNNEEDED("include_num_input_tokens_seen"),
    UNNEEDED("include_tokens_per_second"), UNNEEDED("jit_mode_eval"), UNNEEDED("label_names"),
    UNNEEDED("length_column_name"), UNNEEDED("liger_kernel_config"), UNNEEDED("local_rank"), UNNEEDED("log_level"),
    UNNEEDED("log_level_replica"), UNNEEDED("log_on_each_node"), UNNEEDED("logging_dir"),
    UNNEEDED("logging_first_step"), UNNEEDED("logging_nan_inf_filter"), UNNEEDED("mp_parameters"),
    UNNEEDED("past_index"), UNNEEDED("prediction_loss_only"), UNNEEDED("project"), UNNEEDED("ray_scope"),
    UNNEEDED("remove_unused_columns"), UNNEEDED("report_to"), UNNEEDED("restore_callback_states_from_checkpoint"),
    UNNEEDED("run_name"), UNNEEDED("save_on_each_node"), UNNEEDED("save_only_model"), UNNEEDED("save_safetensors"),
    UNNEEDED("skip_memory_metrics"), UNNEEDED("split_batches"), UNNEEDED("torch_compile"),
    UNNEEDED("torch_compile_backend"), UNNEEDED("torch_compile_mode"), UNNEEDED("torch_empty_cache_steps"),
    UNNEEDED("torchdynamo"), UNNEEDED("tpu_metrics_debug"), UNNEEDED("tpu_num_cores"), UNNEEDED("trackio_space_id"),
    UNNEEDED("use_ipex"), UNNEEDED("use_legacy_prediction_loop"), UNNEEDED("use_liger_kernel"),
};
// clang-format on

void trainer_arguments_add(OptionSet *set) {
    options_add_aliases(set, arguments, sizeof arguments / sizeof *arguments);
}
