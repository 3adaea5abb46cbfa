"""Writes small files of one text GPT as other programs write them, and its logits in float64.

    python3 tests/reference/make_slm_files.py tests/reference/golden

slm_gpt2/: a GPT2LMHeadModel that Hugging Face's transformers saved, with exact GELU and biases of zeros. slm_nanogpt.pt: the
same weights as a compiled module in nanoGPT's checkpoint. slm_reference.pt: the same in a checkpoint-N.pt of the reference,
which says neither its sizes nor its number of heads. slm_biases/: another model, with biases and the tanh form of GELU, as
GPT2Model saves it, and with the masks that old files have. slm_logits.safetensors: ids, and the logits of both models, by
transformers in float64; they agree with slm_gpt2.py. slm_gpt2/tokenizer.json: as the reference's, with as many tokens as the
model has rows.
"""
import os
import sys

import safetensors.torch
import slm_gpt2
import tokenizers
import torch
import transformers

LINEARS = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
HEADS, WIDTH, LAYERS, CONTEXT, VOCABULARY = 2, 16, 2, 12, 40


def random_model(activation, biases):
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, activation_function=activation,
        bos_token_id=0, eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.copy_(torch.randn_like(parameter) * 0.3 if biases else torch.zeros_like(parameter))
            else:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if ".ln_" in name else 0.0))
    return model


def logits(model, ids):
    with torch.no_grad():
        result = model.double()(ids[None]).logits[0]
    model.float()
    ours = slm_gpt2.logits(model.state_dict(), ids, HEADS, model.config.activation_function)
    assert (ours - result).abs().max() < 1e-12
    return result.clone()


def of_nanogpt(model):
    """The state dict as nn.Linear has it, without biases; the head shares the storage of the token table."""
    state = {}
    for name, tensor in model.state_dict().items():
        if not name.endswith(".bias"):
            state[name] = tensor.t().contiguous() if name.endswith(LINEARS) else tensor.detach()
    state["lm_head.weight"] = state["transformer.wte.weight"]
    return {f"_orig_mod.{name}": tensor for name, tensor in state.items()}


def adamw(state):
    """The state of an optimizer of these parameters after one update: matrices with weight decay, then vectors without."""
    tensors = [t.clone() for name, t in state.items() if "lm_head" not in name]
    groups = [[torch.nn.Parameter(t) for t in tensors if (t.dim() >= 2) == decay] for decay in (True, False)]
    optimizer = torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.1}, {"params": groups[1], "weight_decay": 0.0}])
    for parameter in groups[1]:  # the matrices' moments would be most of the file
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer.state_dict()


def tokenizer():
    result = tokenizers.Tokenizer(tokenizers.models.BPE(continuing_subword_prefix="##"))
    result.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.NFD(), tokenizers.normalizers.StripAccents()])
    words, marks = tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Punctuation()
    result.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([words, marks])
    specials = ["<|endoftext|>", "<|startoftext|>", "<|pad|>", "<|unk|>"]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=specials, continuing_subword_prefix="##")
    result.train_from_iterator(["the dean denied the notes. he noted it then, and then that."], trainer)
    assert result.get_vocab_size() == VOCABULARY
    return result


def main():
    golden = sys.argv[1]
    torch.manual_seed(5)
    ids = torch.randint(0, VOCABULARY, (CONTEXT,))
    plain, biased = random_model("gelu", False), random_model("gelu_new", True)
    arguments = dict(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, block_size=CONTEXT, bias=False, vocab_size=VOCABULARY, dropout=0.0)
    state = of_nanogpt(plain)
    moments = adamw(state)
    nanogpt = {
        "model": state,
        "optimizer": moments,
        "model_args": arguments,
        "iter_num": 250,
        "best_val_loss": torch.tensor(3.25),
        "config": {"out_dir": "out", "dataset": "london", "batch_size": 12, "learning_rate": 6e-4, "compile": True, **arguments},
    }
    reference = {"model": state, "optimizer": moments, "iter_num": 4000, "best_val_loss": torch.tensor(3.5)}
    torch.save(nanogpt, f"{golden}/slm_nanogpt.pt")
    torch.save(reference, f"{golden}/slm_reference.pt")
    plain.save_pretrained(f"{golden}/slm_gpt2")
    tokenizer().save(f"{golden}/slm_gpt2/tokenizer.json")
    biased.transformer.save_pretrained(f"{golden}/slm_biases")
    path = f"{golden}/slm_biases/model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for layer in range(LAYERS):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, CONTEXT, CONTEXT).tril()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    safetensors.torch.save_file(tensors, path, {"format": "pt"})
    for folder in ("slm_gpt2", "slm_biases"):
        if os.path.exists(f"{golden}/{folder}/generation_config.json"):
            os.remove(f"{golden}/{folder}/generation_config.json")
    answers = {"ids": ids.int(), "plain": logits(plain, ids), "biased": logits(biased, ids)}
    safetensors.torch.save_file(answers, f"{golden}/slm_logits.safetensors")


main()
