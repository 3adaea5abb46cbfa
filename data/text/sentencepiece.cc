/* The C shim over libsentencepiece.
 *
 * No exception leaves this file. SentencePiece's trainer drops rare characters, skips lines that are too long or have a
 * reserved character, and puts single characters behind all merges, so that they are lost if a model is cut to its
 * first pieces. Training here prevents all of that. */
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unistr.h>
#include <vector>

#define _Noreturn __attribute__((noreturn)) /* C11's word, unknown to C++ */
extern "C" {
#include "base/file.h"
#include "data/text/sentencepiece.h"
#include "data/text/tokenizer_kind.h"
}

struct SentencePiece {
    std::string path;
    sentencepiece::SentencePieceProcessor processor;
    std::vector<int> controls; /* ids of the pieces that no text becomes */
};

namespace {

/* Lets the trainer read lines from memory. */
class Lines : public sentencepiece::SentenceIterator {
  public:
    explicit Lines(const std::vector<std::string> &lines) : lines_(lines) {}
    bool done() const override { return at_ == lines_.size(); }
    void Next() override { at_++; }
    const std::string &value() const override { return lines_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

  private:
    const std::vector<std::string> &lines_;
    size_t at_ = 0;
};

/* The corpus and its distinct characters, except the space. */
struct Corpus {
    std::vector<std::string> lines;
    std::set<ucs4_t> characters;
};

/* Adds the characters of one line. The trainer reserves tab and U+2585, and cannot read a zero byte. */
bool characters_add(const std::string &line, size_t number, Corpus *corpus, Error *error) {
    const uint8_t *begin = reinterpret_cast<const uint8_t *>(line.data()), *end = begin + line.size();
    const uint8_t *bad = u8_check(begin, line.size());
    if (bad) return error_set(error, "line %zu is not UTF-8: byte 0x%02x at offset %td", number, *bad, bad - begin);
    ucs4_t c;
    for (const uint8_t *at = begin; at < end;) {
        at += u8_mbtouc(&c, at, static_cast<size_t>(end - at));
        if (c == 0 || c == '\t' || c == 0x2585)
            return error_set(error, "line %zu holds U+%04X, which SentencePiece reserves: remove it", number,
                             static_cast<unsigned>(c));
        if (c != ' ') corpus->characters.insert(c);
    }
    return true;
}

bool corpus_take(const std::string &text, Corpus *corpus, Error *error) {
    for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
        end = std::min(text.find('\n', begin), text.size());
        corpus->lines.push_back(text.substr(begin, end - begin));
        if (!characters_add(corpus->lines.back(), corpus->lines.size(), corpus, error)) return false;
    }
    if (corpus->characters.empty()) return error_set(error, "the corpus has no text to train a tokenizer on");
    corpus->characters.insert(0x2581); /* what SentencePiece writes for a space */
    return true;
}

std::string utf8(ucs4_t c) {
    uint8_t bytes[4];
    return std::string(reinterpret_cast<char *>(bytes), static_cast<size_t>(u8_uctomb(bytes, c, sizeof bytes)));
}

/* Reads a protobuf varint at `at` and moves behind it. */
size_t varint(const std::string &bytes, size_t *at) {
    size_t value = 0;
    for (int shift = 0; *at < bytes.size(); shift += 7) {
        unsigned char byte = static_cast<unsigned char>(bytes[(*at)++]);
        value |= static_cast<size_t>(byte & 127) << shift;
        if (byte < 128) break;
    }
    return value;
}

/* Returns the model with its pieces reordered: the 3 control pieces, the single characters, the merges. A model is a
 * protobuf that starts with a field 1 per piece, which starts with its text as field 1. Encoding depends on the scores
 * of the pieces, which stay, and not on their order. */
std::string characters_first(const std::string &model) {
    const char text_field = 1 << 3 | 2; /* field 1: a length, then as many bytes */
    std::string control, characters, merges;
    size_t at = 0;
    for (int id = 0; at < model.size() && model[at] == text_field; id++) {
        size_t begin = at++, size = varint(model, &at), text = at + 1, length = varint(model, &text);
        int first = u8_mblen(reinterpret_cast<const uint8_t *>(&model[text]), length);
        at += size;
        std::string &group = id < 3 ? control : static_cast<size_t>(first) == length ? characters : merges;
        group.append(model, begin, at - begin);
    }
    return control + characters + merges + model.substr(at);
}

/* Trains in memory. `size` must be enough for the characters. */
sentencepiece::util::Status train(const Corpus &corpus, int size, std::string *model) {
    std::string characters;
    for (ucs4_t c : corpus.characters) characters += utf8(c);
    Lines lines(corpus.lines);
    auto status = sentencepiece::SentencePieceTrainer::Train(
        {{"model_type", "bpe"},
         {"vocab_size", std::to_string(size)},
         {"hard_vocab_limit", "false"}, /* fewer pieces are allowed */
         {"character_coverage", "1.0"},
         {"required_chars", characters}, /* a coverage of 1.0 is not quite all */
         {"max_sentence_length", "1073741824"},
         {"normalization_rule_name", "identity"},
         {"bos_id", "0"},
         {"eos_id", "1"},
         {"unk_id", "2"},
         {"pad_id", "-1"},
         {"num_threads", "1"},
         {"minloglevel", "3"}},
        &lines, model);
    *model = characters_first(*model);
    return status;
}

/* Checks that every character of the corpus is a piece. */
bool characters_check(const sentencepiece::SentencePieceProcessor &processor, const Corpus &corpus, Error *error) {
    for (ucs4_t c : corpus.characters)
        if (processor.PieceToId(utf8(c)) == processor.unk_id())
            return error_set(error, "SentencePiece made no piece of the character U+%04X", static_cast<unsigned>(c));
    return true;
}

int corpus_train(const std::string &text, const char *model_path, int vocabulary, Error *error) {
    Corpus corpus;
    if (!corpus_take(text, &corpus, error)) return 0;
    const size_t needed = corpus.characters.size() + 3;
    if (vocabulary < 0 || static_cast<size_t>(vocabulary) < needed) {
        error_set(error, "a vocabulary of %d is too small: its %zu distinct characters need %zu", vocabulary,
                  corpus.characters.size(), needed);
        return 0;
    }
    std::string model;
    auto status = train(corpus, vocabulary, &model);
    sentencepiece::SentencePieceProcessor processor;
    if (status.ok()) status = processor.LoadFromSerializedProto(model);
    if (!status.ok()) {
        error_set(error, "SentencePiece cannot train on it: %s", status.error_message());
        return 0;
    }
    if (!characters_check(processor, corpus, error)) return 0;
    if (!file_write_atomic(model_path, model.data(), model.size(), error)) return 0;
    return processor.GetPieceSize();
}

} // namespace

/* Ends the program on an exception, which in these functions can only mean that memory has run out. */
#define OR_DIE(path)                                                                                                   \
    catch (const std::exception &exception) {                                                                          \
        die("%s: SentencePiece failed: %s", path, exception.what());                                                   \
    }

SentencePiece *sentencepiece_open(const char *path, Error *error) try {
    char *bytes;
    size_t size;
    if (!read_file(path, &bytes, &size, error)) return nullptr;
    std::string proto(bytes, size);
    free(bytes);
    auto model = std::make_unique<SentencePiece>();
    model->path = path;
    auto status = model->processor.LoadFromSerializedProto(proto);
    if (!status.ok()) {
        const char *kind = tokenizer_kind(proto.data(), proto.size());
        if (kind)
            error_set(error, "not a SentencePiece model (.model): it %s", kind);
        else
            error_set(error, "not a SentencePiece model: %s", status.error_message());
        return nullptr;
    }
    /* SentencePiece opens a model whose settings name an ordinary piece as the unknown one. */
    if (model->processor.unk_id() < 0) {
        error_set(error, "not a SentencePiece model that can be used: it names no unknown piece");
        return nullptr;
    }
    for (int id = 0; id < model->processor.GetPieceSize(); id++)
        if (model->processor.IsControl(id) && !model->processor.IdToPiece(id).empty()) model->controls.push_back(id);
    return model.release();
} catch (const std::exception &exception) { /* a model that is damaged inside, or no memory for it */
    error_set(error, "not a SentencePiece model that can be used: %s", exception.what());
    return nullptr;
}

void sentencepiece_close(SentencePiece *model) { delete model; }

int sentencepiece_vocabulary(const SentencePiece *model) { return model->processor.GetPieceSize(); }

int32_t sentencepiece_unknown_id(const SentencePiece *model) { return model->processor.unk_id(); }

int32_t sentencepiece_end_of_text(const SentencePiece *model) { return model->processor.eos_id(); }

/* The library gives the unknown id for what is no piece. */
int32_t sentencepiece_id(const SentencePiece *model, const char *piece) {
    int id = model->processor.PieceToId(piece);
    return model->processor.IdToPiece(id) == piece ? id : -1;
}

/* Ids come from files, so they are checked. */
static int checked(const SentencePiece *model, int32_t id) {
    int count = sentencepiece_vocabulary(model);
    if (id < 0 || id >= count)
        die("text id %d is not in 0 .. %d, the pieces of %s", (int)id, count - 1, model->path.c_str());
    return id;
}

const char *sentencepiece_piece(const SentencePiece *model, int32_t id) {
    return model->processor.IdToPiece(checked(model, id)).c_str();
}

/* The control pieces in a text, one after the other. */
class Controls {
  public:
    Controls(const SentencePiece &model, std::string_view text) : model_(model), text_(text) {
        for (int id : model.controls) places_.push_back(text.find(piece(id)));
    }

    /* Finds the first one at `from` or later, the longest of several there; -1: none. No part of the text is searched
     * twice for the same piece. */
    int next(size_t from, size_t *at, size_t *length) {
        int found = -1;
        *at = text_.size(), *length = 0;
        for (size_t i = 0; i < places_.size(); i++) {
            const int id = model_.controls[i];
            if (places_[i] < from) places_[i] = text_.find(piece(id), from);
            const size_t place = places_[i], size = piece(id).size();
            if (place > *at || place == std::string_view::npos || (place == *at && size <= *length)) continue;
            *at = place, *length = size, found = id;
        }
        return found;
    }

  private:
    const std::string &piece(int id) const { return model_.processor.IdToPiece(id); }
    const SentencePiece &model_;
    std::string_view text_;
    std::vector<size_t> places_; /* of each control piece: the next */
};

/* Tells the texts of unknown pieces. */
static void tell_missing(const SentencePiece &model, std::string_view text, const TokenIds &ids) {
    std::vector<std::string> pieces;
    auto status = model.processor.Encode({text.data(), text.size()}, &pieces);
    if (!status.ok()) die("%s: SentencePiece: %s", model.path.c_str(), status.error_message());
    for (const std::string &piece : pieces)
        if (model.processor.PieceToId(piece) == model.processor.unk_id())
            ids.missing(ids.context, piece.data(), piece.size());
}

void sentencepiece_encode(const SentencePiece *model, const char *bytes, size_t size, bool specials,
                          TokenIds *ids) try {
    Controls controls(*model, specials ? std::string_view(bytes, size) : std::string_view());
    std::vector<int> pieces;
    for (size_t begin = 0, end = size, length = 0; begin <= size; begin = end + length) {
        const int control = specials ? controls.next(begin, &end, &length) : -1;
        auto status = model->processor.Encode({bytes + begin, end - begin}, &pieces);
        if (!status.ok()) die("%s: SentencePiece: %s", model->path.c_str(), status.error_message());
        token_ids_reserve(ids, static_cast<int64_t>(pieces.size()) + 1);
        std::copy(pieces.begin(), pieces.end(), ids->ids + ids->n);
        ids->n += static_cast<int64_t>(pieces.size());
        ids->unknown += std::count(pieces.begin(), pieces.end(), model->processor.unk_id());
        if (ids->missing) tell_missing(*model, {bytes + begin, end - begin}, *ids);
        if (control < 0) break;
        token_ids_add(ids, control);
    }
}
OR_DIE(model->path.c_str())

void sentencepiece_encode_plain(const void *model, const char *text, size_t size, TokenIds *ids) {
    sentencepiece_encode(static_cast<const SentencePiece *>(model), text, size, false, ids);
}

char *sentencepiece_decode(const SentencePiece *model, const int32_t *ids, int64_t n, size_t *size) try {
    std::vector<int> pieces;
    for (int64_t i = 0; i < n; i++) pieces.push_back(checked(model, ids[i]));
    std::string text;
    auto status = model->processor.Decode(pieces, &text);
    if (!status.ok()) die("%s: SentencePiece: %s", model->path.c_str(), status.error_message());
    *size = text.size();
    return static_cast<char *>(memcpy(xmalloc(text.size() + 1), text.c_str(), text.size() + 1));
}
OR_DIE(model->path.c_str())

int sentencepiece_train_bpe(const char *text, size_t size, const char *model_path, int vocabulary, Error *error) try {
    return corpus_train(std::string(text, size), model_path, vocabulary, error);
}
OR_DIE(model_path)
