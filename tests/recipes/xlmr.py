"""Random models with the layout of XLM-R and its symbols, for recipes that begin with an imported one."""

import torch

from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.nn.embeddings import TypeVectors
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.text.piece_model import train_sentencepiece
from tests import small


def masked_model(vocabulary, layers, width, heads, feedforward, headed=True):
    """Return an encoder of a number of tokens, or of a tokenizer; with the head of a masked language model, or not."""
    positions = LearnedPositions(width=width, length=120, offset=2)
    options = {"type_vector": TypeVectors(width=width, types=1), "scaled": False, "norm": True, "dropout": 0.1}
    embedding = small.embedding(vocabulary, width, positions, **options)
    layer = Layer(width=width, heads=heads, feedforward=feedforward, activation="gelu", pre_norm=False)
    head = MaskedTokenHead(width=width, projection=TiedProjection(embedding=embedding, bias=True))
    encoder = Encoder(layer=layer, layers=layers)
    return EncoderModel(
        embeddings={"source": embedding}, encoder=encoder, heads={"masked_tokens": head} if headed else None
    )


def save_masked_model(folder, miniature, **sizes):
    """Save a model with pieces of a miniature's text; its tokenizer has no symbol for a blank. Return its folder."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(miniature["text"].glob("train.*"))]
    pieces = train_sentencepiece("".join(texts).splitlines(), folder / "pieces.model", kind="unigram", size=400)
    symbols = {name: name for name in (*FIRST, "<mask>")}
    segmenter = SentencePieces(model=str(pieces))
    tokenizer = VocabularyTokenizer(segmenter=segmenter, added=["<mask>"], symbols=symbols)
    torch.manual_seed(1)
    model = masked_model(tokenizer, width=16, heads=2, **sizes)
    field = TextField(column="source_text", tokenizer=tokenizer, prefix=["<s>"])
    EncoderSystem(model=model, inputs={"source": field}, source_languages=["en"]).save(folder / "model")
    return folder / "model"
