"""Bidirectional attention flow over words and, if configured, characters."""

import torch
from torch import Tensor, nn

from models.batching import PADDING, Batch
from models.configs.variant import ModelConfig
from models.modules.attention import AttentionFlow
from models.modules.layer_mix import LayerMix
from models.modules.layers import Dropouts, draw_weights
from models.modules.mask import Mask
from models.modules.output import ChainedOutput, SpanOutput
from models.modules.rnn import Encoder
from models.modules.self_attention import ResidualSelfAttention, SelfMatching
from models.word_representation import WordRepresentation


def _modeling_layer(config: ModelConfig, size: int) -> nn.Module:
    """(B, T, size), (B, T) -> M (B, T, 2d)"""
    if config.self_attention == "trilinear":
        return ResidualSelfAttention(config, size)
    return Encoder(config, size, 2)


def _output_layer(config: ModelConfig, attention_size: int) -> nn.Module:
    """G (B, T, attention_size), M (B, T, 2d), (B, T) -> logits of start and end, (B, T) each"""
    if config.end_pointer == "chained":
        return ChainedOutput(config)
    if config.output_reads == "self-attention":
        attention_size = 2 * config.hidden_size
    return SpanOutput(config, attention_size)


class BiDAF(nn.Module):
    """The model of Seo et al. (2017), with the variations that `ModelConfig` offers.

    Its six layers are (1) character embedding and (2) word embedding, combined in `words`;
    (3) contextual embedding, `encoder`; (4) attention flow, `attention`, followed by
    self-attention, `matching`, if configured; (5) modeling, `modeling`; (6) output, `output`.
    `read` runs the first three, `forward` runs all of them.

    Shapes: B questions in a batch, T tokens in a context and J tokens in a question, including the
    null token in front; e is the size of an embedded token, d the hidden size.
    """

    def __init__(
        self,
        config: ModelConfig,
        word_vectors: Tensor,
        characters: int,
        layers_shape: tuple[int, int] = (0, 0),
    ) -> None:
        """`word_vectors` (V, vector size) is float32, with zeros in rows 0 and 1; `characters` is
        the size of the character vocabulary, including padding and unknown; `layers_shape` is the
        number of layers and the vector size of the language model, if the model reads contextual
        vectors."""
        super().__init__()
        self.config = config
        contextual, (layers, size) = config.contextual, layers_shape
        self.mixes = nn.ModuleDict(
            {place: LayerMix(layers, contextual.dropout) for place in contextual.places}
            if contextual
            else {}
        )
        added = {place: size if place in self.mixes else 0 for place in ("input", "output")}
        width = 2 * config.hidden_size + added["output"]
        self.words = WordRepresentation(config, word_vectors, characters)
        self.encoder = Encoder(config, self.words.size + added["input"], 1)
        self.attention = AttentionFlow(width, config.query_to_context, Dropouts(config).similarity)
        size = 4 * width
        has_matching = config.self_attention in ("additive", "dot", "elementwise")
        self.matching = SelfMatching(config, size) if has_matching else None
        self.modeling = _modeling_layer(config, 2 * config.hidden_size if self.matching else size)
        self.output = _output_layer(config, size)
        self.apply(draw_weights)

    @property
    def max_characters(self) -> int:
        """Number of characters that the model reads of a word."""
        return self.config.characters.max_characters if self.config.characters else 1

    def read(self, batch: Batch) -> tuple[Tensor, Tensor, Mask, Mask]:
        """H (B, T, 2d), U (B, J, 2d) and the masks of their real tokens, (B, T) and (B, J). With
        contextual vectors at the encoder's output, H and U are wider by their size."""
        context_mask = Mask(batch.context != PADDING)  # (B, T)
        question_mask = Mask(batch.question != PADDING)  # (B, J)
        # 1. Character embedding and 2. word embedding, once per distinct type of the batch
        types = self.words.embed_types(batch)  # (U, size of word vector and filters)
        # The highway network combines both for each token; then 3. contextual embedding
        context = self._encode(
            self.words(types, batch.context), batch.context_layers, context_mask
        )  # H: (B, T, 2d)
        question = self._encode(
            self.words(types, batch.question), batch.question_layers, question_mask
        )  # U: (B, J, 2d)
        return context, question, context_mask, question_mask

    def _encode(self, x: Tensor, layers: Tensor | None, mask: Mask) -> Tensor:
        """(B, N, size), (B, N, layers, size), (B, N) -> (B, N, 2d), with contextual vectors at
        the configured places"""
        x = self._with_contextual("input", x, layers)
        return self._with_contextual("output", self.encoder(x, mask), layers)

    def _with_contextual(self, place: str, x: Tensor, layers: Tensor | None) -> Tensor:
        if place not in self.mixes:
            return x
        return torch.cat([x, self.mixes[place](layers).to(x.dtype)], 2)

    def mix_penalty(self) -> Tensor | None:
        """λ·Σ‖w‖² over the mixes (Peters et al., 2018, section 3.3); None without contextual
        vectors."""
        contextual = self.config.contextual
        if contextual is None:
            return None
        parameters = self.mixes.named_parameters()
        weights = torch.cat([p for name, p in parameters if name.endswith(".weights")])
        return contextual.l2 * weights.square().sum()

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the answer's first and last token: (B, T) each, MASKED at padding.
        Position 0 is the null token: no answer."""
        # 1. to 3. Embeddings
        context, question, context_mask, question_mask = self.read(batch)
        # 4. Attention flow, G: (B, T, 8d); then self-attention over the context: (B, T, 2d)
        attention = self.attention(context, question, context_mask, question_mask)
        matched = self.matching(attention, context_mask) if self.matching else attention
        # 5. Modeling
        modeling = self.modeling(matched, context_mask)  # M: (B, T, 2d)
        # 6. Output
        read = matched if self.config.output_reads == "self-attention" else attention
        start, end = self.output(read, modeling, context_mask)  # (B, T) each
        return start, end
