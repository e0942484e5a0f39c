"""Tiny random translators of transformers, written as the library writes them, and what it says to their inputs."""

import json

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SENTENCES = ["the cat sat on the mat", "a dog", "good morning to all of you, said the old man", "yes"]
#: The last has 79 frames: one state of its encoder in SeamlessM4T is padding even where it is alone.
SECONDS = [1.31, 0.4, 2.02, 0.805]
WIDTHS = {"vocab_size": 300, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
WIDTHS |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
SEAMLESS = WIDTHS | {"hidden_size": 32, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SEAMLESS |= {"speech_encoder_layers": 2, "speech_encoder_intermediate_size": 64, "speech_encoder_attention_heads": 4}
#: What makes speech.
SEAMLESS |= {"t2u_encoder_layers": 1, "t2u_encoder_ffn_dim": 16, "t2u_decoder_layers": 1, "t2u_decoder_ffn_dim": 16}
SEAMLESS |= {"t2u_vocab_size": 20, "char_vocab_size": 20, "upsample_initial_channel": 32, "spkr_embed_dim": 4}
SEAMLESS |= {"unit_embed_dim": 8, "lang_embed_dim": 4, "unit_hifi_gan_vocab_size": 20, "t2u_encoder_attention_heads": 4}
SEAMLESS |= {"t2u_variance_predictor_embed_dim": 32, "t2u_decoder_attention_heads": 4}
#: The prompt that NVIDIA's Canary is asked with.
CANARY = (
    "{% for part in messages[0].content if part.type == 'text' %}<|startofcontext|><|startoftranscript|>"
    "<|emo:undefined|><|{{ part.source_language }}|><|{{ part.target_language }}|>"
    "{{ '<|pnc|>' if part.punctuation else '<|nopnc|>' }}<|noitn|><|notimestamp|><|nodiarize|>{% endfor %}"
)
CONTROL = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|pnc|>", "<|nopnc|>", "<|noitn|>"]
CONTROL += ["<|notimestamp|>", "<|nodiarize|>"]


def noise(seed=3):
    """Return sounds of unequal lengths, (N,) float32 each."""
    rng = np.random.default_rng(seed)
    return [(0.1 * rng.standard_normal(round(16000 * seconds))).astype(np.float32) for seconds in SECONDS]


def louder(model, end, factor=4.0):
    """Make random weights large enough for outputs that differ, some of which end."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.0 if "embed" in name or "shared" in name else 0.4)
        model.get_output_embeddings().weight[end] *= factor


def pieces(special, size=200):
    """Train pairs of letters, behind some symbols; return vocabulary and merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(SENTENCES * 5, trainers.BpeTrainer(vocab_size=size, special_tokens=special))
    content = json.loads(tokenizer.to_str())["model"]
    return content["vocab"], [tuple(pair) for pair in content["merges"]]


def changed(folder, name, **values):
    """Change settings in a file of a folder; None leaves one out."""
    path = folder / name
    kept = json.loads(path.read_text()) | values
    kept.pop("_from_model_config", None)
    path.write_text(json.dumps({name: value for name, value in kept.items() if value is not None}))


def told(written, start, end, beam, forced=0):
    """Return the tokens that ``generate`` wrote, up to the end symbol, and their score as it or a mean of its steps.

    Args:
        written: what it returned, with scores.
        start: the number of tokens that it was given.
        end: the symbol.
        beam: how many outputs it kept at a time.
        forced: the number of tokens after the start that do not end.
    """
    new = written.sequences[0, start:].tolist()
    new = new[: new.index(end, forced) + 1]
    if beam > 1:
        return new, float(written.sequences_scores[0])
    scores = [score[0].log_softmax(-1)[token] for score, token in zip(written.scores, new, strict=True)]
    return new, float(sum(scores) / len(new))


class Seamless:
    """SeamlessM4T v2 with all of its parts."""

    reads, end, generation = ["speech", "source"], 3, "SeamlessM4Tv2"
    tags = {"en": "eng", "de": "deu", "fr": "fra"}

    def __init__(self, transformers, folder):
        self.library, self.folder = transformers, folder
        vocabulary, merges = pieces(["<pad>", "<unk>", "<s>", "</s>"])
        symbols = [f"__{tag}__" for tag in self.tags.values()]
        self.tokenizer = transformers.SeamlessM4TTokenizer(
            vocab=vocabulary, merges=merges, additional_special_tokens=symbols
        )
        extractor = transformers.SeamlessM4TFeatureExtractor()
        self.processor = transformers.SeamlessM4TProcessor(extractor, self.tokenizer)
        self.processor.save_pretrained(folder)
        torch.manual_seed(7)
        config = getattr(transformers, f"{self.generation}Config")(**SEAMLESS)
        model = getattr(transformers, f"{self.generation}Model")(config).eval()
        louder(model, self.end)
        model.save_pretrained(folder)
        numbers = {tag: self.tokenizer.convert_tokens_to_ids(f"__{tag}__") for tag in self.tags.values()}
        changed(folder, "generation_config.json", text_decoder_lang_to_code_id=numbers, decoder_start_token_id=3)

    def model(self, reads):
        """Return the library's model that reads speech, or text."""
        kind = "ForSpeechToText" if reads == "speech" else "ForTextToText"
        return getattr(self.library, f"{self.generation}{kind}").from_pretrained(self.folder).eval()

    def inputs(self, item, source="en", target="de"):
        """Return what the library makes of a sound or sentence."""
        if isinstance(item, str):
            return self.processor(text=item, src_lang=self.tags[source], return_tensors="pt")
        return self.processor(audio=item, sampling_rate=16000, return_tensors="pt")

    def options(self, code):
        """Return the options by which the library writes a language."""
        return {"tgt_lang": self.tags[code]}

    def start(self, code):
        """Return the ids that an output begins with."""
        return [3, self.tokenizer.convert_tokens_to_ids(f"__{self.tags[code]}__")]


class OlderSeamless(Seamless):
    """SeamlessM4T of the first generation."""

    generation = "SeamlessM4T"


class Mixture:
    """NLLB-MoE: every second layer has four experts."""

    reads, end = ["source"], 2
    tags = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn"}

    def __init__(self, transformers, folder):
        self.library, self.folder = transformers, folder
        vocabulary, merges = pieces(["<s>", "<pad>", "</s>", "<unk>"])
        self.tokenizer = transformers.NllbTokenizer(
            vocab=vocabulary, merges=merges, additional_special_tokens=[*self.tags.values()]
        )
        self.tokenizer.save_pretrained(folder)
        torch.manual_seed(7)
        sizes = WIDTHS | {"d_model": 32, "num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
        model = transformers.NllbMoeForConditionalGeneration(transformers.NllbMoeConfig(**sizes)).eval()
        louder(model, self.end)
        model.save_pretrained(folder)

    def model(self, reads):
        """Return the library's model."""
        return self.library.NllbMoeForConditionalGeneration.from_pretrained(self.folder).eval()

    def inputs(self, item, source="en", target="de"):
        """Return what the library makes of a sentence."""
        self.tokenizer.src_lang = self.tags[source]
        return self.tokenizer(item, return_tensors="pt")

    def options(self, code):
        """Return the options by which the library writes a language."""
        return {"forced_bos_token_id": self.tokenizer.convert_tokens_to_ids(self.tags[code])}

    def start(self, code):
        """Return the ids that an output begins with; the language counts as written."""
        return [2]


class Canary:
    """Canary: a FastConformer, and a decoder with a prompt of symbols."""

    reads, end = ["speech"], 3
    tags = {"en": "en", "de": "de", "fr": "fr"}

    def __init__(self, transformers, folder):
        self.library, self.folder = transformers, folder
        tags = [f"<|{tag}|>" for tag in self.tags.values()]
        vocabulary, merges = pieces(["<unk>", "<|nospeech|>", "<pad>", "<|endoftext|>", *CONTROL, *tags])
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=backend,
            unk_token="<unk>",
            pad_token="<pad>",
            eos_token="<|endoftext|>",
            additional_special_tokens=["<|nospeech|>", *CONTROL, *tags],
        )
        extractor = transformers.ParakeetFeatureExtractor(feature_size=128)
        self.processor = transformers.CanaryProcessor(extractor, self.tokenizer, chat_template=CANARY)
        self.processor.save_pretrained(folder)
        torch.manual_seed(7)
        width = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        encoder = {"subsampling_conv_channels": 8, "num_mel_bins": 128, "model_type": "parakeet_encoder"}
        decoder = {"vocab_size": 300, "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 64}
        config = transformers.CanaryConfig(
            encoder_config=width | encoder,
            decoder_config=width | decoder,
            vocab_size=300,
            decoder_start_token_id=vocabulary["<|startofcontext|>"],
        )
        model = transformers.CanaryForConditionalGeneration(config).eval()
        louder(model, self.end)
        model.save_pretrained(folder)

    def model(self, reads):
        """Return the library's model."""
        return self.library.CanaryForConditionalGeneration.from_pretrained(self.folder).eval()

    def inputs(self, item, source="en", target="de"):
        """Return what the library makes of a sound and of what is asked."""
        return self.processor.apply_transcription_request(item, source_language=source, target_language=target)

    def options(self, code):
        """Return the options by which the library writes a language: none, it stands in the inputs."""
        return {}

    def start(self, code):
        """Return the ids that an output begins with."""
        symbols = [*CONTROL[:3], "<|en|>", f"<|{code}|>", "<|pnc|>", *CONTROL[5:]]
        return self.tokenizer.convert_tokens_to_ids(symbols)
